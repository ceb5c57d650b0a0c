"""Opaque graphs: task graphs whose values stay pickled until the task that needs them runs.

The scheduler orders such a graph and sends its tasks to workers without importing or unpickling anything of the user:
unpickling a CuPy or cuDF object would create a CUDA context of about 520 MB in its process.
"""

from __future__ import annotations

import operator
import pickle
import sys
from datetime import date, datetime, time, timedelta
from functools import partial
from types import BuiltinFunctionType, FunctionType
from typing import TYPE_CHECKING, Any

import numpy as np
from dask._task_spec import Alias, DataNode, Dict, GraphNode, List, Set, Task, TaskRef, Tuple, _execute_subgraph
from distributed.protocol.pickle import dumps, loads

from .import_lock import import_named_collections

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_PLAIN_TYPES = frozenset(
    {type(None), bool, int, float, complex, str, bytes, bytearray, slice, range, type(Ellipsis), type(NotImplemented)}
    | {date, datetime, time, timedelta, TaskRef}
)
_PLAIN_CONTAINERS = frozenset({list, tuple, set, frozenset})
_NODES = frozenset({Task, List, Tuple, Set, Dict})

# Modules that every worker and every scheduler has imported. Other parts of Dask are not included: the event loop of a
# worker would import them at the same time as one of its threads; see `.import_lock`.
_PLAIN_MODULES = frozenset({"builtins", "operator", "_operator", "math", "dask._task_spec", "dask.core", "dask.utils"})


class SharedBuffer:
    """A buffer that several values of a graph share, such as an array in the closures of functions; sent once."""

    __slots__ = ("content",)

    def __init__(self, content: Any) -> None:
        self.content = content

    def __reduce__(self) -> tuple[Any, ...]:
        return SharedBuffer, (pickle.PickleBuffer(self.content),)


class OpaqueNode(GraphNode):
    """A pickled value. A `dask._task_spec.Task` that has it as an argument unpickles it when it runs.

    Parameters
    ----------
    key
        The key of a node of the graph, like a `dask._task_spec.DataNode`; `None` for an argument.
    payload
        The pickled value.
    buffers
        The out-of-band buffers of the pickle.
    """

    payload: bytes
    buffers: tuple[SharedBuffer, ...]

    __slots__ = ("buffers", "payload")

    def __init__(self, key: Any, payload: bytes, buffers: tuple[SharedBuffer, ...] = ()) -> None:
        self.key = key
        self._dependencies = frozenset()
        self.payload = payload
        self.buffers = buffers

    @property
    def data_producer(self) -> bool:
        """True as for data, so that the scheduler does not assign more than workers can take."""
        return True

    def copy(self) -> OpaqueNode:
        """The same value under the same key."""
        return OpaqueNode(self.key, self.payload, self.buffers)

    def substitute(self, subs: Mapping[Any, Any], key: Any = None) -> OpaqueNode:  # noqa: ARG002 - it has no dependencies
        """The same value, under another key if one is given."""
        return self if key is None or key == self.key else OpaqueNode(key, self.payload, self.buffers)

    def __call__(self, values: Any = ()) -> Any:  # noqa: ARG002 - it has no dependencies
        """Unpickle the value."""
        import_named_collections(self.payload)
        return loads(self.payload, buffers=[buffer.content for buffer in self.buffers])

    def __reduce__(self) -> tuple[Any, ...]:
        return OpaqueNode, (self.key, self.payload, self.buffers)

    def __dask_tokenize__(self) -> tuple[Any, ...]:
        return "opaque", self.key, self.payload, [buffer.content for buffer in self.buffers]

    def __sizeof__(self) -> int:
        return len(self.payload) + sum(memoryview(buffer.content).nbytes for buffer in self.buffers)

    def __repr__(self) -> str:
        return f"<opaque, {len(self.payload)} bytes>"


def make_opaque(graph: Mapping[Any, GraphNode]) -> dict[Any, GraphNode]:
    """Make the values of a graph opaque that only workers may unpickle.

    Nodes keep their classes, keys, dependencies and structure. Nodes of distributed, such as the barrier of a shuffle,
    are not changed, because plugins of the scheduler read them.
    """
    convert = _Converter().convert
    return {key: convert(node) for key, node in graph.items()}


class _Converter:
    """Makes the nodes of one graph opaque; values that several of them share are pickled once."""

    def __init__(self) -> None:
        # Keeps the values alive, so that their ids stay unique.
        self._opaque: dict[int, tuple[Any, OpaqueNode]] = {}
        self._buffers: dict[tuple[int, int], SharedBuffer] = {}

    def convert(self, node: Any) -> Any:
        kind = type(node)
        if kind is Alias:
            return node
        if kind is DataNode:
            return node if _is_plain(node.value) else self._pickle(node.value).substitute({}, key=node.key)
        if kind in _NODES:
            return self._convert_task(node)
        return node if kind.__module__.startswith("distributed.") else self._wrap(node)

    def _convert_task(self, task: Any) -> Any:
        if task.func is _execute_subgraph:
            inner, *others = task.args
            args = ({key: self.convert(node) for key, node in inner.items()}, *map(self._convert_value, others))
        else:
            args = tuple(map(self._convert_value, task.args))
        kwargs = {name: self._convert_value(value) for name, value in task.kwargs.items()} if task.kwargs else {}
        func = task.func
        if type(task) is Task and not _is_plain(func):
            task.is_coro  # noqa: B018 - cached by the task; it cannot be derived from the replacement of the function
            func, args = operator.call, (self._pickle(func), *args)
        elif all(map(operator.is_, args, task.args)) and all(map(operator.is_, kwargs.values(), task.kwargs.values())):
            return task
        return _rebuild(task, func, args, kwargs)

    def _convert_value(self, value: Any) -> Any:
        if isinstance(value, GraphNode):
            return self.convert(value)
        return value if isinstance(value, TaskRef) or _is_plain(value) else self._pickle(value)

    def _wrap(self, node: GraphNode) -> Task:
        """Wrap a node whose class the scheduler may be unable to import."""
        values = Dict({key: TaskRef(key) for key in node.dependencies})
        return Task(node.key, operator.call, self._pickle(node), values, _data_producer=node.data_producer)

    def _pickle(self, value: Any) -> OpaqueNode:
        known = self._opaque.get(id(value))
        if known is None:
            found: list[pickle.PickleBuffer] = []
            payload = dumps(value, buffer_callback=found.append)
            known = value, OpaqueNode(None, payload, tuple(map(self._share, found)))
            self._opaque[id(value)] = known
        return known[1]

    def _share(self, buffer: pickle.PickleBuffer) -> SharedBuffer:
        raw = buffer.raw()
        return self._buffers.setdefault((id(raw.obj), raw.nbytes), SharedBuffer(buffer))


def _rebuild(task: Any, func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    rebuilt = object.__new__(type(task))
    for slot in type(task).get_all_slots():
        setattr(rebuilt, slot, getattr(task, slot, None))
    rebuilt.func, rebuilt.args, rebuilt.kwargs = func, args, kwargs
    rebuilt._repr = None  # the cached one describes the original
    return rebuilt


def _is_plain(value: Any) -> bool:
    """Whether a scheduler can unpickle a value with only Python, NumPy and the core of Dask."""
    kind = type(value)
    if kind in _PLAIN_CONTAINERS:
        return all(map(_is_plain, value))
    if kind is dict:
        return all(map(_is_plain, value)) and all(map(_is_plain, value.values()))
    if kind is partial:
        return _is_plain((value.func, value.args, value.keywords))
    if isinstance(value, np.generic | np.dtype):
        return kind.__module__.partition(".")[0] == "numpy"
    return kind in _PLAIN_TYPES or _has_plain_name(value)


def _has_plain_name(value: Any) -> bool:
    if not isinstance(value, FunctionType | BuiltinFunctionType | type):
        return False
    module, name = getattr(value, "__module__", None), getattr(value, "__qualname__", "")
    return module in _PLAIN_MODULES and getattr(sys.modules.get(module), name, None) is value
