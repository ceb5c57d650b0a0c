"""Opaque graphs: task graphs whose tasks stay pickled until they run.

The scheduler orders such a graph and sends its tasks to workers without importing or unpickling anything of the user:
unpickling a CuPy or cuDF object would create a CUDA context of about 520 MB in its process. Each task is pickled once,
and passes through the scheduler as bytes.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from dask._task_spec import Alias, DataNode, GraphNode, Task, _execute_subgraph

from .task_pickler import PickledValues, TaskPickler, is_builtin, unpickle_node

if TYPE_CHECKING:
    from collections.abc import Mapping

    from .task_pickler import PickledValue


class OpaqueNode(GraphNode):
    """A pickled node of a graph, which is unpickled when it runs.

    Parameters
    ----------
    key, dependencies
        As those of the node.
    payload
        The pickled node, in which an index takes the place of each shared value.
    rest
        The shared values, as a tuple; `data_producer` and `is_coro` of the node.
    """

    payload: bytes
    shared: tuple[PickledValue, ...]
    _data_producer: bool
    _is_coro: bool

    __slots__ = ("_data_producer", "_is_coro", "payload", "shared")

    def __init__(self, key: Any, dependencies: frozenset[Any], payload: bytes, *rest: Any) -> None:
        self.key = key
        self._dependencies = dependencies
        self.payload = payload
        self.shared, self._data_producer, self._is_coro = rest

    @property
    def data_producer(self) -> bool:
        """Whether the scheduler does not assign more such tasks than workers can take."""
        return self._data_producer

    @property
    def is_coro(self) -> bool:
        """Whether a worker awaits the result."""
        return self._is_coro

    def unpickle(self) -> Any:
        """The node as it was."""
        return unpickle_node(self.payload, self.shared)

    def copy(self) -> OpaqueNode:
        """The same node."""
        return OpaqueNode(*self.__reduce__()[1])

    def substitute(self, subs: Mapping[Any, Any], key: Any = None) -> Any:
        """The node as it was, with other dependencies or another key."""
        return self.unpickle().substitute(subs, key)

    def __call__(self, values: Any = ()) -> Any:
        """Unpickle the node, and run it."""
        return self.unpickle()(values)

    def __reduce__(self) -> tuple[Any, ...]:
        arguments = (self.key, self._dependencies, self.payload, self.shared, self._data_producer, self._is_coro)
        return OpaqueNode, arguments

    def __dask_tokenize__(self) -> tuple[Any, ...]:
        return "opaque", self.key, self.payload, self.shared

    def __sizeof__(self) -> int:
        return len(self.payload) + sum(map(sys.getsizeof, self.shared))

    def __repr__(self) -> str:
        return f"<opaque task {self.key!r}, {len(self.payload)} bytes>"


def make_opaque(graph: Mapping[Any, GraphNode]) -> dict[Any, GraphNode]:
    """The same graph with opaque tasks; their keys and dependencies stay.

    Aliases and single values of built-in types are not changed, because the order of the tasks depends on them, and
    nodes of distributed, such as the barrier of a shuffle, are not either, because plugins of the scheduler read them.
    """
    values = PickledValues(graph.values())
    keys = {key: key for key in graph}  # equal keys as one object, which is sent once
    return {key: _make_opaque(node, values, keys) for key, node in graph.items()}


def _make_opaque(node: Any, values: PickledValues, keys: Mapping[Any, Any]) -> GraphNode:
    kind = type(node)
    if kind is Alias or (kind is DataNode and is_builtin(node.value)):
        return node  # type: ignore[no-any-return]
    if kind.__module__.startswith("distributed."):
        return node  # type: ignore[no-any-return]
    pickler = TaskPickler(values)
    payload = pickler.pickle(node)
    dependencies = frozenset([keys.get(key, key) for key in node.dependencies])
    is_coro = kind is Task and node.func is not _execute_subgraph and node.is_coro
    return OpaqueNode(node.key, dependencies, payload, tuple(pickler.shared), node.data_producer, is_coro)
