"""A worker materializes the expressions that clients submit, instead of the scheduler.

The scheduler sends it the pickled expression. It has the GPU and all that the user's code imports, and sends back the
graph, in which everything of the user's is opaque.
"""

from __future__ import annotations

import asyncio
import pickle
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from dask._expr import LLGExpr
from distributed import WorkerPlugin
from distributed.core import error_message
from distributed.protocol.pickle import loads
from distributed.protocol.serialize import Serialized, deserialize, serialize, to_serialize
from distributed.scheduler import _cull, _materialize_graph

from .import_lock import import_what_is_named
from .opaque_graph import make_opaque

if TYPE_CHECKING:
    from collections.abc import Sequence

    from distributed import Worker

MATERIALIZE = "gpudask_materialize"
"""The name of the worker's handler, and of the plugin that brings it."""


class PickledExpression:
    """An expression as the client sent it; only `open` unpickles it.

    Parameters
    ----------
    header, frames
        Of a `distributed.protocol.serialize.Serialized`.
    """

    def __init__(self, header: dict[str, Any], frames: Sequence[Any]) -> None:
        self._header = header
        self._frames = list(frames)

    def __reduce__(self) -> tuple[Any, ...]:
        return PickledExpression, (self._header, [pickle.PickleBuffer(frame) for frame in self._frames])

    def packed(self) -> Serialized:
        """As it is sent."""
        return _pack(self)

    def open(self) -> Any:
        """The expression."""
        import_what_is_named(bytes(self._frames[0]) if self._frames else b"")
        return deserialize(self._header, self._frames)


class MaterializedGraph:
    """What a scheduler asks of an expression: its graph and its annotations. They are unpickled when it does."""

    def __init__(self, payload: Any, buffers: Sequence[Any]) -> None:
        self._payload = payload
        self._buffers = buffers
        self._opened: tuple[dict[Any, Any], dict[str, Any]] | None = None

    @classmethod
    def of(cls, graph: dict[Any, Any], annotations: dict[str, Any]) -> MaterializedGraph:
        """A graph that is opaque already, and the annotations of its tasks by their names."""
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
    """The graph of `expression`, as a scheduler takes it from a client.

    Parameters
    ----------
    expression
        From `distributed.Client`, optimised or not.
    keys
        Those that are wanted.
    """
    opened = expression.open()
    graph, annotations = _materialize_graph(opened, validate=False)
    if isinstance(opened, LLGExpr):  # every other expression leaves out by itself what is not wanted
        graph = _cull(graph, set(keys))
    return _pack(MaterializedGraph.of(make_opaque(graph), dict(annotations)))


def _pack(content: PickledExpression | MaterializedGraph) -> Serialized:
    # Done here: a connection of Dask's may have agreed on a protocol without buffers.
    return Serialized(*serialize(to_serialize(content), on_error="raise"))


class MaterializePlugin(WorkerPlugin):
    """Has the worker answer the scheduler, in a thread of its own: the one for tasks may be busy for long."""

    name = MATERIALIZE

    def setup(self, worker: Worker) -> None:
        """Called by Dask when the worker has joined the scheduler, or when the plugin is registered."""
        self._executor = ThreadPoolExecutor(1, "gpudask-materialize")
        worker.handlers[MATERIALIZE] = self._answer

    def teardown(self, worker: Worker) -> None:
        """Called by Dask when the worker ends."""
        worker.handlers.pop(MATERIALIZE, None)
        self._executor.shutdown(wait=False, cancel_futures=True)

    async def _answer(self, expression: PickledExpression, keys: Sequence[Any]) -> dict[str, Any]:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._executor, _try_to_materialize, expression, keys)


def _try_to_materialize(expression: PickledExpression, keys: Sequence[Any]) -> dict[str, Any]:
    try:
        return {"status": "OK", "graph": materialize(expression, keys)}
    except Exception as error:  # noqa: BLE001 - the user's, who gets it as the error of the computation
        return dict(error_message(error, status="failed"))
