"""Task graphs travel sealed: the scheduler sees keys and dependencies, and only a worker unpickles what the tasks hold.

A graph of GPU collections carries small CuPy and cuDF objects. Unpickled in the scheduler they would give it a CUDA
context, of about 520 MB on the first GPU; and the scheduler would import whatever the user's functions come from.
"""

from __future__ import annotations

import pickle
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import dask.config
from dask._expr import LLGExpr
from dask._task_spec import Alias, GraphNode, convert_legacy_graph
from dask.utils import parse_bytes
from distributed import Client
from distributed.protocol.pickle import dumps, loads

from .imports import import_what_is_named

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping


_SEALED_BYTES = 2000
"""About what a task of arrays weighs when it is pickled alone."""


class SharedBuffer:
    """A buffer that several tasks of a graph hold, such as the array that a function closes over; sent once a graph."""

    __slots__ = ("content",)

    def __init__(self, content: Any) -> None:
        self.content = content

    def __reduce__(self) -> tuple[Any, ...]:
        return SharedBuffer, (pickle.PickleBuffer(self.content),)


class SealedTask(GraphNode):
    """A pickled task of which only the key, the dependencies and how it is run can be read.

    It is opened where it is run. What cannot be unpickled there is then an error of that task, like any other.
    """

    payload: bytes
    buffers: tuple[SharedBuffer, ...]
    traits: tuple[bool, bool]

    __slots__ = ("buffers", "payload", "traits")

    def __init__(
        self,
        key: Any,
        dependencies: Iterable[Any],
        traits: tuple[bool, bool],
        payload: bytes,
        buffers: tuple[SharedBuffer, ...] = (),
    ) -> None:
        self.key = key
        self._dependencies = frozenset(dependencies)
        self.traits = traits
        self.payload = payload
        self.buffers = buffers

    @classmethod
    def seal(cls, task: GraphNode, shared: dict[tuple[int, int], SharedBuffer]) -> SealedTask:
        """Pickle `task`.

        Parameters
        ----------
        task
            Whose large buffers stay where they are until they are sent.
        shared
            Those of the tasks of the same graph, by where they lie and how long they are; added to.
        """
        found: list[pickle.PickleBuffer] = []
        payload = dumps(task, buffer_callback=found.append)
        buffers = []
        for buffer in found:
            raw = buffer.raw()
            buffers.append(shared.setdefault((id(raw.obj), raw.nbytes), SharedBuffer(buffer)))
        return cls(task.key, task.dependencies, (task.is_coro, task.data_producer), payload, tuple(buffers))

    @property
    def is_coro(self) -> bool:
        """Whether the worker must await it."""
        return self.traits[0]

    @property
    def data_producer(self) -> bool:
        """Whether it makes data out of nothing, which the scheduler then does in good time and not too early."""
        return self.traits[1]

    def __call__(self, values: Any = ()) -> Any:
        """Open it and run it."""
        import_what_is_named(self.payload)
        return loads(self.payload, buffers=[buffer.content for buffer in self.buffers])(values)

    def __reduce__(self) -> tuple[Any, ...]:
        return SealedTask, (self.key, tuple(self._dependencies), self.traits, self.payload, self.buffers)

    def __dask_tokenize__(self) -> tuple[str, Any]:
        # Dask's own promise: tasks of one key are the same task.
        return ("sealed", self.key)

    def __sizeof__(self) -> int:
        return len(self.payload) + sum(memoryview(buffer.content).nbytes for buffer in self.buffers)

    def __repr__(self) -> str:
        return f"<SealedTask {self.key!r}>"


class SealedGraph:
    """What a scheduler asks of an expression: its graph and its annotations, nothing more."""

    def __init__(self, graph: Mapping[Any, GraphNode], annotations: Mapping[str, Any]) -> None:
        self._graph = dict(graph)
        self._annotations = dict(annotations)

    def __dask_graph__(self) -> dict[Any, GraphNode]:
        return self._graph

    def __dask_annotations__(self) -> dict[str, Any]:
        return self._annotations


def seal(expression: Any, keys: Iterable[Any]) -> Any:
    """The graph of `expression`, lowered and fused here instead of in the scheduler, with every task sealed.

    Parameters
    ----------
    expression
        What `distributed.Client` is about to send: a `dask._expr.Expr`.
    keys
        The keys that are wanted.
    """
    if not hasattr(expression, "__dask_graph__"):  # Dask submits an empty dict where it wants a future alone
        return expression
    graph = convert_legacy_graph(expression.__dask_graph__())
    annotations = expression.__dask_annotations__()
    if isinstance(expression, LLGExpr):  # every other expression leaves out by itself what is not wanted
        graph = _cull(graph, keys)
    shared: dict[tuple[int, int], SharedBuffer] = {}
    return SealedGraph({key: _seal_node(node, shared) for key, node in graph.items()}, annotations)


@contextmanager
def _own_size_allowed(graph: Any) -> Iterator[None]:
    """Have Dask warn of the user's large data, and not of what sealing adds to each task."""
    name = "distributed.admin.large-graph-warning-threshold"
    tasks = len(graph.__dask_graph__()) if isinstance(graph, SealedGraph) else 0
    with dask.config.set({name: parse_bytes(dask.config.get(name)) + tasks * _SEALED_BYTES}):
        yield


def _count_tasks(graph: Any) -> int:
    if not isinstance(graph, SealedGraph):
        return 0
    return sum(not isinstance(node, Alias) for node in graph.__dask_graph__().values())


def _seal_node(node: GraphNode, shared: dict[tuple[int, int], SharedBuffer]) -> GraphNode:
    # An alias holds nothing; nodes from elsewhere are the shuffle's, which a plugin of the scheduler reads.
    if isinstance(node, Alias) or type(node).__module__ != GraphNode.__module__:
        return node
    return SealedTask.seal(node, shared)


def _cull(graph: Mapping[Any, GraphNode], keys: Iterable[Any]) -> dict[Any, GraphNode]:
    wanted: dict[Any, GraphNode] = {}
    left = [key for key in keys if key in graph]
    while left:
        key = left.pop()
        if key not in wanted:
            wanted[key] = graph[key]
            left.extend(dependency for dependency in graph[key].dependencies if dependency in graph)
    return wanted


class SealingClient(Client):
    """A Dask client that sends its graphs sealed; in all else a `distributed.Client`.

    Attributes
    ----------
    tasks_submitted
        How many tasks it has sent so far.
    """

    tasks_submitted = 0

    def _graph_to_futures(self, expr: Any, keys: Any, *args: Any, **kwargs: Any) -> Any:
        with _own_size_allowed(sealed := seal(expr, keys)):
            self.tasks_submitted += _count_tasks(sealed)
            return super()._graph_to_futures(sealed, keys, *args, **kwargs)


def seal_all_clients() -> None:
    """Make every Dask client of this process send its graphs sealed; for workers, whose tasks may make clients."""
    unsealed: Any = Client._graph_to_futures  # noqa: SLF001 - every graph of a client passes here, and only here
    if hasattr(unsealed, "sealed"):
        return

    def _graph_to_futures(self: Client, expr: Any, keys: Any, *args: Any, **kwargs: Any) -> Any:
        with _own_size_allowed(sealed := seal(expr, keys)):
            return unsealed(self, sealed, keys, *args, **kwargs)

    _graph_to_futures.sealed = True  # type: ignore[attr-defined]
    Client._graph_to_futures = _graph_to_futures  # type: ignore[method-assign]  # noqa: SLF001
