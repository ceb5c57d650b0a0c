"""Materialize expressions in a worker instead of in the scheduler.

The scheduler sends the pickled expression to a worker, which has a GPU and can import the user's modules. The worker
returns the graph, in which objects of the user are opaque.
"""

from __future__ import annotations

import asyncio
import gc
import pickle
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from dask._expr import LLGExpr
from distributed import WorkerPlugin
from distributed.core import error_message
from distributed.protocol.pickle import loads
from distributed.protocol.serialize import Serialized, deserialize, serialize, to_serialize
from distributed.scheduler import _cull, _materialize_graph

from ..cuda_context import end_if_broken
from .import_lock import import_named_collections
from .opaque_graph import make_opaque

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from distributed import Worker

MATERIALIZE = "gpudask_materialize"
"""The name of the worker's handler and of the plugin that adds it."""

_RARELY = 100


class PickledExpression:
    """An expression as the client sent it; only `unpickle` unpickles it.

    Parameters
    ----------
    header, frames
        The contents of a `distributed.protocol.serialize.Serialized`.
    """

    def __init__(self, header: dict[str, Any], frames: Sequence[Any]) -> None:
        self._header = header
        self._frames = list(frames)

    def __reduce__(self) -> tuple[Any, ...]:
        return PickledExpression, (self._header, [pickle.PickleBuffer(frame) for frame in self._frames])

    def serialized(self) -> Serialized:
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
    """The graph of `expression`, as a scheduler accepts it from a client.

    Parameters
    ----------
    expression
        An expression from `distributed.Client`, optimized or not.
    keys
        The keys of the results.
    """
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
        loop = asyncio.get_running_loop()
        answer = await loop.run_in_executor(self._executor, _try_to_materialize, expression, keys)
        if answer["status"] != "OK":
            await end_if_broken(self._worker)  # another worker is asked then
        return answer


def _try_to_materialize(expression: PickledExpression, keys: Sequence[Any]) -> dict[str, Any]:
    try:
        with _collecting_rarely():
            return {"status": "OK", "graph": materialize(expression, keys)}
    except Exception as error:  # noqa: BLE001 - raised by the user's code, and reported as the error of the computation
        return dict(error_message(error, status="failed"))


@contextmanager
def _collecting_rarely() -> Iterator[None]:
    """Let the garbage collector run rarely while a graph is made, which would otherwise take a third longer."""
    young, *older = gc.get_threshold()
    gc.set_threshold(_RARELY * young, *older)
    try:
        yield
    finally:
        gc.set_threshold(young, *older)
