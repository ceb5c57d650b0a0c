"""Materialize expressions in a worker instead of in the scheduler, into graphs whose tasks stay pickled until they run.

The scheduler orders such a graph and sends its tasks to workers without importing or unpickling anything of the user:
unpickling a CuPy or cuDF object would create a CUDA context of about 520 MB in its process. Each task is pickled once,
and passes through the scheduler as bytes.

The scheduler sends the pickled expression to a worker, which has a GPU and can import the user's modules. The worker
returns the graph, in which objects of the user are opaque.
"""

from __future__ import annotations

import asyncio
import gc
import pickle
import sys
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import copy_context
from functools import partial
from typing import Any

from dask._expr import LLGExpr
from dask._task_spec import Alias, DataNode, GraphNode, Task, _execute_subgraph
from distributed import Worker, WorkerPlugin
from distributed.core import error_message
from distributed.protocol.pickle import loads
from distributed.protocol.serialize import Serialized, deserialize, serialize, to_serialize
from distributed.scheduler import _cull, _materialize_graph

from ..comm.device_memory import note_result
from ..graph.program import Program
from ..graph.workers import LOCATE, locate
from .cuda_context import end_if_broken
from .imports import import_cudf
from .task_pickler import PickledValue, PickledValues, TaskPickler, import_named_collections, is_builtin, unpickle_node


class OpaqueNode(GraphNode):
    """A pickled node of a graph, which is unpickled when it runs.

    - `payload`: the pickled node, in which an index takes the place of each shared value.
    - `rest`: the shared values, as a tuple; `data_producer` and `is_coro` of the node; how many blocks it computes.
    """

    payload: bytes
    shared: tuple[PickledValue, ...]
    _data_producer: bool
    _is_coro: bool
    blocks: int

    __slots__ = ("_data_producer", "_is_coro", "blocks", "payload", "shared")

    def __init__(self, key: Any, dependencies: frozenset[Any], payload: bytes, *rest: Any) -> None:
        self.key = key
        self._dependencies = dependencies
        self.payload = payload
        self.shared, self._data_producer, self._is_coro, self.blocks = rest

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
        from ..fallback.host_parts import host_task, host_threads  # imports dask.array, which no scheduler needs

        node = self.unpickle()
        with host_task(node, values, host_threads()):
            return note_result(node(values))

    def __reduce__(self) -> tuple[Any, ...]:
        rest = (self.shared, self._data_producer, self._is_coro, self.blocks)
        return OpaqueNode, (self.key, self._dependencies, self.payload, *rest)

    def __dask_tokenize__(self) -> tuple[Any, ...]:
        return "opaque", self.key, self.payload, self.shared

    def __sizeof__(self) -> int:
        return len(self.payload) + sum(map(sys.getsizeof, self.shared))

    def __repr__(self) -> str:
        return f"<opaque task {self.key!r}, {len(self.payload)} bytes>"


def blocks_of(node: Any) -> int:
    """How many blocks a node of a graph computes."""
    if isinstance(node, OpaqueNode):
        return node.blocks
    function = getattr(node, "func", None)
    return function.blocks if isinstance(function, Program) else 1


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
    rest = (tuple(pickler.shared), node.data_producer, is_coro, blocks_of(node))
    return OpaqueNode(node.key, dependencies, payload, *rest)


MATERIALIZE = "gpudask_materialize"
"""The name of the worker's handler and of the plugin that adds it."""

_RARELY = 100
_LOCATE_TIMEOUT = 5.0


class PickledExpression:
    """An expression as the client sent it; only `unpickle` unpickles it.

    - `header`, `frames`: the contents of a `distributed.protocol.serialize.Serialized`.
    """

    def __init__(self, header: dict[str, Any], frames: Sequence[Any]) -> None:
        self._header = header
        self._frames = list(frames)

    def __reduce__(self) -> tuple[Any, ...]:
        return PickledExpression, (self._header, [pickle.PickleBuffer(frame) for frame in self._frames])

    def serialize_message(self) -> Serialized:
        """The message to send to a worker."""
        return _serialize(self)

    def unpickle(self) -> Any:
        """The expression."""
        import_named_collections(bytes(self._frames[0]) if self._frames else b"")
        return deserialize(self._header, self._frames)


class MaterializedGraph:
    """The graph and the annotations of an expression, as a scheduler reads them; unpickled on first use."""

    def __init__(self, payload: Any, buffers: Sequence[Any]) -> None:
        self._payload = payload
        self._buffers = buffers
        self._opened: tuple[dict[Any, Any], dict[str, Any]] | None = None

    @classmethod
    def of(cls, graph: dict[Any, Any], annotations: dict[str, Any]) -> MaterializedGraph:
        """Pickle an opaque graph and the annotations of its tasks."""
        buffers: list[pickle.PickleBuffer] = []
        payload = pickle.dumps((graph, annotations), protocol=5, buffer_callback=buffers.append)
        return cls(payload, buffers)

    def __reduce__(self) -> tuple[Any, ...]:
        return MaterializedGraph, (pickle.PickleBuffer(self._payload), list(map(pickle.PickleBuffer, self._buffers)))

    def __dask_graph__(self) -> dict[Any, Any]:
        return self._open()[0]

    def __dask_annotations__(self) -> dict[str, Any]:
        return self._open()[1]

    def _open(self) -> tuple[dict[Any, Any], dict[str, Any]]:
        if self._opened is None:
            self._opened = loads(self._payload, buffers=self._buffers)
        return self._opened


def materialize(expression: PickledExpression, keys: Sequence[Any]) -> Serialized:
    """The graph of `expression`, as a scheduler accepts it from a client."""
    unpickled = expression.unpickle()
    graph, annotations = _materialize_graph(unpickled, validate=False)
    if isinstance(unpickled, LLGExpr):  # all other expressions cull their graphs themselves
        graph = _cull(graph, set(keys))
    return _serialize(MaterializedGraph.of(make_opaque(graph), dict(annotations)))


def _serialize(content: PickledExpression | MaterializedGraph) -> Serialized:
    # Serialized here, because a connection may have negotiated a protocol without buffers.
    return Serialized(*serialize(to_serialize(content), on_error="raise"))


class MaterializePlugin(WorkerPlugin):
    """Adds the handler to the worker. It uses a thread of its own, because those for tasks may be busy for long."""

    name = MATERIALIZE

    def setup(self, worker: Worker) -> None:
        """Add the handler; called by Dask when the worker has started, or when the plugin is registered."""
        self._worker = worker
        self._executor = ThreadPoolExecutor(1, "gpudask-materialize")
        worker.handlers[MATERIALIZE] = self._answer

    def teardown(self, worker: Worker) -> None:
        """Remove the handler; called by Dask when the worker closes."""
        worker.handlers.pop(MATERIALIZE, None)
        self._executor.shutdown(wait=False, cancel_futures=True)

    async def _answer(self, expression: PickledExpression, keys: Sequence[Any]) -> dict[str, Any]:
        import_cudf(self._worker)
        loop = asyncio.get_running_loop()
        locate.set(partial(self._locate, loop))
        context = copy_context()
        answer = await loop.run_in_executor(self._executor, lambda: context.run(_try_to_materialize, expression, keys))
        if answer["status"] != "OK":
            await end_if_broken(self._worker)  # another worker is asked then
        return answer

    def _locate(self, loop: asyncio.AbstractEventLoop, keys: list[Any], number: int) -> Mapping[Any, int]:
        """Called in the thread: on which worker results are; nothing if the scheduler does not respond."""
        ask = getattr(self._worker.scheduler, LOCATE)(keys=keys, number=number)
        answer = asyncio.run_coroutine_threadsafe(ask, loop)
        try:
            found: Mapping[Any, int] = answer.result(_LOCATE_TIMEOUT)
        except Exception:  # noqa: BLE001 - the scheduler is another one's, which has no such handler
            answer.cancel()
            return {}
        return found


def _try_to_materialize(expression: PickledExpression, keys: Sequence[Any]) -> dict[str, Any]:
    try:
        with _collect_rarely():
            return {"status": "OK", "graph": materialize(expression, keys)}
    except Exception as error:  # noqa: BLE001 - raised by the user's code, and reported as the error of the computation
        return dict(error_message(error, status="failed"))


@contextmanager
def _collect_rarely() -> Iterator[None]:
    """Let the garbage collector run rarely while a graph is made, which would otherwise take a third longer."""
    young, *older = gc.get_threshold()
    gc.set_threshold(_RARELY * young, *older)
    try:
        yield
    finally:
        gc.set_threshold(young, *older)
