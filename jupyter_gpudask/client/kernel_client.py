"""The Dask client of a kernel: it prepares graphs, counts their tasks, and raises short errors for lost results."""

from __future__ import annotations

import asyncio
import copy
import logging
import os
import re
import sys
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from concurrent.futures import CancelledError
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from contextvars import Context, ContextVar
from pathlib import Path
from types import TracebackType
from typing import Any
from uuid import uuid4

import dask.config
from dask._expr import HLGExpr, LLGExpr
from dask.base import collections_to_expr, is_dask_collection
from dask.utils import key_split
from distributed import Client, Future
from distributed.client import FutureCancelledError, FuturesCancelledError, futures_of
from distributed.objects import SchedulerInfo
from distributed.scheduler import KilledWorker

from ..errors import (
    GpuDaskError,
    NotOnGpuError,
    PicklingError,
    ResultPicklingError,
    ResultsLostError,
    WorkersEndedError,
)
from ..fallback.log import TOPIC, fallback_log
from ..fallback.tasks import WithFallback, with_fallback
from ..graph.optimize import ArrayOptimizer, WithOptimizer, may_have_arrays
from ..graph.rechunk import THRESHOLD, has_room
from ..graph.subtrees import ClusterSize
from ..inspection.user_code import library_behind, local_variables
from ..overlay import CellRecord, current_overlay, current_record, in_context_of_cell
from ..protocol.state import WorkerExit
from ..scheduler.cells import StuckWorker
from ..scheduler.graph_router import UPDATE_GRAPH
from ..scheduler.joined_client import JOINED_BEGIN_CELL, JOINED_UPDATE_GRAPH
from ..scheduler.results import RELEASED
from ..scheduler.workers import exit_of
from ..worker.memory import BEGIN_CELL
from ..worker.preload import send_sooner
from ..worker.trial import call_with_small_blocks
from .calls import ask_scheduler

_PACKAGE = Path(__file__).parents[1]
_ON_WORKERS = tuple(f"{_PACKAGE / name}{os.sep}" for name in ("fallback", "graph", "patches", "profiling", "worker"))
"""Folders whose functions call those of the user on workers."""

logger = logging.getLogger(__name__)

_LIBRARIES = {"cupy": "CuPy", "cudf": "cuDF"}
_NO_WORKER = "The cluster has no worker, and the cell waits for one. Interrupt it, and type: %gpudask status"
_REASON_TIMEOUT = 15.0
_POLL = 0.05
_RECEIPT_TIMEOUT = 60.0
_WORKER_TIMEOUT = 60
_DASKS_THRESHOLD = 4
_LARGEST_STACK = 10**9
_PARTS_OF_MEMORY = 40  # a QR decomposition takes several times the size of its stack

_DASHBOARD = re.compile(r'<strong>Dashboard:\s*</strong>\s*<a href="[^"]*" target="_blank">[^<]*</a>')

reconnecting: ContextVar[KernelClient | None] = ContextVar("reconnecting", default=None)
"""The client that tries to reconnect in this context."""

_SEVERAL = (list, tuple, set, frozenset)


class _InfoWithoutDashboards(SchedulerInfo):
    """As Dask's; the HTML has no dashboards: the scheduler's refuses browsers, and workers have none."""

    def _repr_html_(self) -> str:
        return _DASHBOARD.sub("", super()._repr_html_())


class KernelClient(Client):
    """The Dask client of a kernel; if results are lost, it raises one sentence that says why."""

    end: str = ""  # how its cluster ended, as a sentence; empty while it runs
    dashboard: str = ""  # where a browser can open the dashboard, as far as the kernel knows
    is_joined: bool = False  # whether somebody else started its cluster, which it then shares with other clients
    dashboard_token: str = ""  # of the dashboard of such a cluster, if it requires one
    # seconds after which a call that blocks warns that the cluster has no worker, if nothing is shown around it
    start_timeout: float = 120.0
    # returns a context manager that is entered around each call that blocks
    around_waits: Callable[[], AbstractContextManager[None]] = staticmethod(nullcontext)
    # called when a `KeyboardInterrupt` ends a call that blocks, before its futures are released
    on_interrupt: Callable[[], None] | None = None
    optimizes: bool = True  # whether it sends graphs of arrays with an optimizer in the place of Dask's
    is_on_gpus: bool = False  # whether the workers of its cluster have GPUs
    device_memory: int = 0  # of the smallest GPU of a worker, in bytes; 0 if it is not known
    # the workers that were restarted because a query of Polars did not stop; the interrupted cell shows and clears them
    stuck_workers: list[StuckWorker]
    tasks_submitted = 0  # the number of tasks in its graphs, as the scheduler has counted them so far
    tasks_new = 0  # the number of those that the scheduler did not know before
    _receives_fallbacks = False

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._counted = threading.Condition()
        self._uncounted = 0
        self._marks: dict[str, asyncio.Event] = {}
        self.stuck_workers = []
        super().__init__(*args, **kwargs)
        self.subscribe_topic(self.id, self._count)

    def wait_until_counted(self, limit: float) -> None:
        """Wait at most `limit` seconds until `tasks_submitted` includes all submitted graphs."""
        with self._counted:
            self._counted.wait_for(lambda: self._uncounted <= 0 or self.status != "running", limit)

    async def receipt(self) -> None:
        """Wait until the scheduler has handled all that was sent to it so far.

        Graphs, and the keys that are released, reach it on another connection than a call of ``run_on_scheduler``.

        Raises `TimeoutError`: it has not after a minute.
        """
        mark = f"gpudask-mark-{uuid4().hex}"
        received = self._marks[mark] = asyncio.Event()
        self._send_to_scheduler({"op": "report-key", "key": mark})  # the answer is that there is no such key
        try:
            await asyncio.wait_for(received.wait(), _RECEIPT_TIMEOUT)
        finally:
            del self._marks[mark]

    def begin_cell(self) -> None:
        """Begin the counters of a cell.

        Nothing waits for that: the message reaches the scheduler, and each worker, before the graphs that are submitted
        later.
        """
        self._send_to_scheduler({"op": JOINED_BEGIN_CELL if self.is_joined else BEGIN_CELL})

    async def _reconnect(self) -> None:
        """Override of Dask's method; what it logs belongs to this client."""
        reconnecting.set(self)
        await super()._reconnect()

    @property
    def dashboard_link(self) -> str | None:
        """Where a browser can open Dask's dashboard: a path at the Jupyter server, or an address; `None` if nowhere."""
        return self.dashboard or None

    def scheduler_info(self, *args: Any, **kwargs: Any) -> Any:
        """As Dask's; the HTML has no addresses of dashboards that a browser cannot open."""
        return _InfoWithoutDashboards(super().scheduler_info(*args, **kwargs))

    def _get_scheduler_info(self, *args: Any, **kwargs: Any) -> tuple[Any, Any]:
        """Override of Dask's method, from which the HTML of a client is made."""
        scheduler, info = super()._get_scheduler_info(*args, **kwargs)
        return scheduler, _InfoWithoutDashboards(info)

    def sync(self, func: Any, *args: Any, asynchronous: bool | None = None, **kwargs: Any) -> Any:
        """Override of Dask's method, through which all blocking calls go; its errors are those of `client.failures`."""
        __tracebackhide__ = True
        if self.asynchronous if asynchronous is None else asynchronous:
            return super().sync(func, *args, asynchronous=asynchronous, **kwargs)
        func = self._warn_if_no_worker(in_context_of_cell(func))
        try:
            with self.around_waits():
                return super().sync(func, *args, asynchronous=asynchronous, **kwargs)
        except KeyboardInterrupt:
            on_interrupt, self.on_interrupt = self.on_interrupt, None
            if on_interrupt is not None:
                on_interrupt()
            raise
        except NotOnGpuError as error:
            refusal = NotOnGpuError(error.operation, error.layer, error.lack, fallback_log.line_of(error.layer))
        except Exception as error:
            _hide_frames_of_workers(error.__traceback__)
            refusal, loss = None, self._explain(error)
            copied = _copy_without_frames(error, self) if loss is None else None
            if loss is None:
                self._add_hint(error if copied is None else copied)
                if copied is None:
                    raise
        if refusal is not None:
            raise refusal
        if loss is not None:
            raise loss from None
        assert copied is not None
        raise copied

    def compute(self, *args: Any, **kwargs: Any) -> Any:
        """As Dask's; in a GPU cell with the cell's ``--results``, and refused if the kernel's GPU cannot hold it."""
        __tracebackhide__ = True
        if current_record() is None:
            return super().compute(*args, **kwargs)
        from ..patches.computation import client_compute

        return client_compute(Client.compute, self, *args, **kwargs)

    def persist(self, collections: Any, optimize_graph: bool = True, *args: Any, **kwargs: Any) -> Any:  # noqa: FBT002 - Dask's signature
        """As Dask's method, with all partitions of a dataframe whose number of partitions the optimizer changes."""
        __tracebackhide__ = True
        if optimize_graph:
            collections = with_all_partitions(collections)
        return super().persist(collections, optimize_graph, *args, **kwargs)

    def get(self, dsk: Any, *args: Any, **kwargs: Any) -> Any:
        """As Dask's; a graph that a library has made, such as that of dask-ml's searches, falls back to the host."""
        __tracebackhide__ = True
        record = current_record()
        if isinstance(dsk, dict) and record is not None and record.watches:
            self._receive_fallbacks(record)
            dsk = with_fallback(dsk, cell=record.id, refuse=record.fallback == "strict")
        return super().get(dsk, *args, **kwargs)

    def call_with_small_blocks(
        self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], kinds: Collection[str]
    ) -> tuple[Any, bool]:
        """Call a function on one of the workers; see `jupyter_gpudask.worker.trial`."""
        self.wait_for_workers(1, timeout=_WORKER_TIMEOUT)
        worker = next(iter(self.scheduler_info(1)["workers"]))
        answers = self.run(call_with_small_blocks, function, args, kwargs, kinds, workers=[worker])
        answer: tuple[Any, bool] = answers[worker]
        return answer

    def gather(self, *args: Any, **kwargs: Any) -> Any:
        """As Dask's; in a GPU cell results are refused that the kernel's GPU cannot hold."""
        __tracebackhide__ = True
        if current_record() is None:
            return super().gather(*args, **kwargs)
        from ..patches.computation import check_what_was_computed

        return check_what_was_computed(Client.gather, self, *args, **kwargs)

    def _graph_to_futures(self, expr: Any, *args: Any, **kwargs: Any) -> Any:
        __tracebackhide__ = True
        if self.end and self.status == "closed":
            raise ResultsLostError("cluster-ended", end=self.end)
        with explain_pickling_errors():
            futures = super()._graph_to_futures(self._prepare(expr), *args, **kwargs)
        with self._counted:
            self._uncounted += 1
        return futures

    def _prepare(self, expr: Any) -> Any:
        """The expression to submit: with the optimizer of arrays, and with the fallback of the running cell."""
        if self.optimizes and may_have_arrays(expr):
            size = self.cluster_size()
            fuses = dask.config.get("optimization.fuse.active", None) is not False
            expr = WithOptimizer(expr, ArrayOptimizer(size, self.is_on_gpus, self._largest_stack(size), fuses))
        record = current_record()
        if record is None or not record.watches or isinstance(expr, LLGExpr):
            return expr
        self._receive_fallbacks(record)
        return WithFallback(expr, cell=record.id, refuse=record.fallback == "strict")

    def cluster_size(self) -> ClusterSize:
        """The size of the cluster, as the scheduler said some seconds ago at most."""
        workers = self._scheduler_identity.get("n_workers", 1)
        return ClusterSize(workers, self._scheduler_identity.get("total_threads", 1), self.device_memory * workers)

    def rechunk_threshold(self, nbytes: float) -> int | None:
        """The argument `threshold` of `dask.array.rechunk` for an array of so many bytes; `None` for Dask's own."""
        is_default = dask.config.get("array.rechunk.threshold", None) == _DASKS_THRESHOLD
        fuses = self.optimizes and dask.config.get("optimization.fuse.active", None) is not False
        return THRESHOLD if is_default and fuses and has_room(nbytes, self.cluster_size().memory) else None

    def _receive_fallbacks(self, record: CellRecord) -> None:
        if not self._receives_fallbacks:
            self._receives_fallbacks = True
            self.subscribe_topic(TOPIC, fallback_log.on_event)
        fallback_log.note_cell(record.id)

    def _largest_stack(self, size: ClusterSize) -> int:
        """Bytes of the blocks that one QR decomposition takes together."""
        threads = max(1, size.threads // max(1, size.workers))
        return min(_LARGEST_STACK, self.device_memory // _PARTS_OF_MEMORY // threads)

    def _count(self, event: tuple[float, Any]) -> None:
        message = event[1]
        if not isinstance(message, dict) or message.get("action") != "update-graph":
            return
        with self._counted:
            metrics = message.get("metrics", {})
            self.tasks_submitted += metrics.get("tasks", 0)
            self.tasks_new += metrics.get("new_tasks", 0)
            self._uncounted -= 1
            self._counted.notify_all()

    def _handle_cancelled_keys(self, keys: Iterable[Any], reason: str | None = None, msg: str | None = None) -> None:
        for mark in self._marks.keys() & set(keys):
            self._marks[mark].set()
        super()._handle_cancelled_keys(keys, reason, msg)
        if reason == RELEASED:  # the same keys may be computed again, with futures that are not cancelled
            for key in keys:
                self.futures.pop(key, None)

    def _handle_task_erred(self, key: Any = None, exception: Any = None, traceback: Any = None) -> None:
        super()._handle_task_erred(key, exception, traceback)
        state = self.futures.get(key)
        if state is not None and state.traceback is not None:
            state.traceback = _without_own_frames(state.traceback)

    async def _ensure_connected(self, *args: Any, **kwargs: Any) -> None:
        await super()._ensure_connected(*args, **kwargs)
        send_sooner(self.scheduler_comm)

    def _send_to_scheduler(self, msg: Any) -> None:
        if self.is_joined and self.is_on_gpus and msg["op"] == UPDATE_GRAPH:
            msg = msg | {"op": JOINED_UPDATE_GRAPH}
        super()._send_to_scheduler(msg)

    def _explain(self, error: Exception) -> GpuDaskError | None:
        """The error to raise instead, if results are lost or cannot be pickled, or workers have ended."""
        if isinstance(error, KilledWorker):
            return explain_killed_worker(error, self)
        is_end = isinstance(error, RuntimeError) and bool(self.end) and self.status == "closed"
        if not (is_end or isinstance(error, CancelledError)):
            return explain_pickling(error)
        self._wait_for_reason()
        return explain_loss(error, self)

    def _add_hint(self, error: Exception) -> None:
        """Under an error of a GPU library in another cell than one for GPUs, say that the fallback is there."""
        record = current_record()
        may_fall_back = current_overlay() is not None or (record is not None and record.watches)
        library = library_behind(error) if self.is_on_gpus and not may_fall_back else None
        if library in _LIBRARIES and not hasattr(error, "__notes__"):
            error.add_note(
                f"This error comes from {_LIBRARIES[library]}: the computation has data on GPUs. With "
                "%config GpuDask.fallback = 'host', what the library lacks runs on the CPU."
            )

    def _warn_if_no_worker(self, function: Any) -> Any:
        """A coroutine function as `function` that warns, once, if it waits for a cluster that has no worker."""
        if self.around_waits is not nullcontext:  # what is shown says so
            return function

        async def call(*args: Any, **kwargs: Any) -> Any:
            __tracebackhide__ = True
            # In a context of its own: the loop keeps that of a cancelled timer, and with it the results of a cell.
            warning = asyncio.create_task(self._warn_without_workers(), context=Context())
            try:
                return await function(*args, **kwargs)
            finally:
                warning.cancel()

        return call

    async def _warn_without_workers(self) -> None:
        scheduler: Any = self.scheduler
        workers = True
        with suppress(OSError):
            while workers:
                await asyncio.sleep(self.start_timeout)
                workers = bool(await scheduler.ncores())
            logger.warning(_NO_WORKER)

    def _wait_for_reason(self) -> None:
        """Wait for the reason, because the connection may be lost before the reason is known."""
        limit = time.monotonic() + _REASON_TIMEOUT
        while self.status == "connecting" and not self.end and time.monotonic() < limit:
            time.sleep(_POLL)


def _hide_frames_of_workers(traceback: TracebackType | None) -> None:
    """Remove the frames in which this package has called the user's function on a worker.

    The kernel's own frames set ``__tracebackhide__``, but frames that were pickled have no variables.
    """
    while traceback is not None:
        following = traceback.tb_next
        while following is not None and following.tb_frame.f_code.co_filename.startswith(_ON_WORKERS):
            following = following.tb_next
        if following is not None:
            traceback.tb_next = following
        traceback = following


def _without_own_frames(traceback: TracebackType) -> TracebackType:
    """The traceback of a task, which begins with the frame that has called the task; see `_hide_frames_of_workers`."""
    first: TracebackType | None = traceback
    while first is not None and first.tb_frame.f_code.co_filename.startswith(_ON_WORKERS):
        first = first.tb_next
    _hide_frames_of_workers(first)
    return first or traceback


def _copy_without_frames(error: Exception, client: KernelClient) -> Exception | None:
    """A copy of `error` with its traceback, if the client keeps the error; `None` if not, or if it cannot be copied.

    A client keeps the error of each failed future. Raising that object would add the stack frames that waited to its
    traceback. These refer to the futures, so that none of them, and no result on the workers, would ever be released.
    """
    if not any(state.exception is error for state in list(client.futures.values())):
        return None
    try:
        copied = copy.copy(error)
    except Exception:  # noqa: BLE001 - the error can have any class
        return None
    if type(copied) is not type(error):
        return None
    traceback = error.__traceback__
    copied.__traceback__ = traceback.tb_next if traceback is not None else None  # without the caller, which raises it
    copied.__context__, copied.__cause__ = error.__context__, error.__cause__
    copied.__suppress_context__ = error.__suppress_context__
    error.__traceback__ = error.__context__ = None
    return copied


def with_all_partitions(collections: Any) -> Any:
    """The argument of `distributed.Client.persist`, so that it keeps all partitions of each dataframe.

    Dask keeps as many partitions as a dataframe has before it is optimized. Its optimizer makes fewer if a file has
    columns that are not read, and more in a reduction: the dataframe then needs results that do not exist, or has only
    a part of its rows.
    """
    if not isinstance(collections, _SEVERAL):
        return _with_all_partitions([collections])[0]
    return _with_all_partitions(list(collections))


def _with_all_partitions(collections: list[Any]) -> list[Any]:
    if not any(map(_is_frame, collections)):
        return collections
    from dask._collections import new_collection

    # As in `persist`: dataframes are optimized together, so that those of the same files are divided alike, but each
    # alone if a collection beside them has no expression.
    together = collections_to_expr(collections)
    is_mixed = any(isinstance(expression, HLGExpr) for expression in together.operands)
    expressions = together.operands if is_mixed else together.optimize().operands
    optimized = [
        new_collection(expression.optimize() if is_mixed else expression) if _is_frame(collection) else collection
        for collection, expression in zip(collections, expressions, strict=True)
    ]
    pairs = zip(collections, optimized, strict=True)
    if all(old.npartitions == new.npartitions for old, new in pairs if _is_frame(old)):
        return collections
    return optimized  # which the second optimization, in `persist`, leaves as it is


def _is_frame(collection: Any) -> bool:
    kind = type(collection)  # a Delayed object has every attribute, but its class does not
    return hasattr(kind, "expr") and hasattr(kind, "divisions")


_CONNECTION_LOST = "scheduler-connection-lost"
_LOST = {"lost dependencies", _CONNECTION_LOST, RELEASED}
"""The reasons of futures whose results are lost; those of Dask, and that of this package."""

_RESPONSE_TIMEOUT = 5.0
_OF_DISTRIBUTED = "Could not serialize object of type "
_LOGGED = ("Failed to serialize", "Unserializable Message")


def explain_loss(error: BaseException, client: Client) -> ResultsLostError | None:
    """The error to raise if results are lost; `None` if the user cancelled them."""
    end, reasons = _end_of(client), _reasons(error)
    if end:
        return ResultsLostError("cluster-ended", end=end)
    if _CONNECTION_LOST in reasons and client.status != "running":
        return ResultsLostError("scheduler-lost")
    if not _LOST & reasons:
        return None
    needed = dict(_lost_variables(client))
    lost = {
        name: _end_of(future.client)
        for name, future in needed.items()
        if future.client is client or future.client.status != "running" or future.cancelled()  # else it is elsewhere
    }
    if needed and not lost:
        return ResultsLostError("of-other-client", need=_need(needed))
    end = next(filter(None, lost.values()), "")
    return ResultsLostError("results-lost", need=_need(lost), end=end)


def _need(names: Collection[str]) -> str:
    return f"{' and '.join(names) or 'This'} need{'' if len(names) > 1 else 's'}"


def _end_of(client: Client) -> str:
    end: str = getattr(client, "end", "")
    return end


def _reasons(error: BaseException) -> set[str]:
    if isinstance(error, FutureCancelledError):
        return {error.reason}
    return {group.reason for group in error.error_groups} if isinstance(error, FuturesCancelledError) else set()


def _lost_variables(client: Client) -> Iterator[tuple[str, Future[Any]]]:
    """The variables that the running code uses, with a future that `client` has lost."""
    seen = set()
    for name, value in _named_variables():
        if name in seen or not (isinstance(value, Future) or is_dask_collection(value)):
            continue
        seen.add(name)
        with suppress(Exception):  # a graph that cannot be built does not show what is lost
            for future in futures_of(value):
                if future.client is not client or future.cancelled():
                    yield name, future
                    break


def _named_variables() -> Iterator[tuple[str, Any]]:
    frame = sys._getframe(1)  # noqa: SLF001
    while frame is not None:
        if frame.f_globals.get("__name__") == "__main__":
            code, variables = frame.f_code, {**frame.f_globals, **local_variables(frame)}
            for name in (*code.co_names, *code.co_varnames, *code.co_freevars):
                if name in variables:
                    yield name, variables[name]
        frame = frame.f_back  # type: ignore[assignment]


def explain_killed_worker(error: KilledWorker, client: Client) -> WorkersEndedError | None:
    """The error to raise instead of Dask's, which counts one worker as several; `None` if the exit is not known."""
    end: WorkerExit | None = None
    with suppress(Exception):  # a cluster that does not respond does not explain it
        end = ask_scheduler(client, exit_of, error.last_worker.pid, limit=_RESPONSE_TIMEOUT)
    if end is None:
        return None
    name, count = key_split(error.task), error.allowed_failures + 1
    return WorkersEndedError(
        "workers-over-memory" if end.over_memory_limit else "workers-ended", task=name, count=count, end=end.reason
    )


def _is_not_raised(record: logging.LogRecord) -> bool:
    """Whether to log a record: Dask logs the whole traceback of an error of pickling before it raises the error."""
    error = record.exc_info[1] if record.exc_info else None
    return not (str(record.msg).startswith(_LOGGED) or _is_of_distributed(error))


for _name in ("protocol.pickle", "protocol.core", "comm.utils"):
    logging.getLogger(f"distributed.{_name}").addFilter(_is_not_raised)


def _is_of_distributed(error: BaseException | None) -> bool:
    return isinstance(error, TypeError) and bool(error.args) and str(error.args[0]).startswith(_OF_DISTRIBUTED)


def explain_pickling(error: BaseException) -> PicklingError | ResultPicklingError | None:
    """The error to raise instead of Dask's, if something cannot be pickled here or on a worker."""
    if not _is_of_distributed(error):
        return None
    # A worker sends the text of its traceback in the place of the result.
    first, *traceback = str(error.args[0]).strip().splitlines()
    if traceback:
        return ResultPicklingError(
            type=first.removeprefix(_OF_DISTRIBUTED), error=traceback[-1].partition(": ")[2].rstrip(".")
        )
    return PicklingError(error=str(error.__cause__).rstrip("."))


@contextmanager
def explain_pickling_errors() -> Iterator[None]:
    """Inside, Dask's error for a graph that cannot be pickled becomes a `PicklingError` that names the graph's part."""
    try:
        yield
    except TypeError as error:
        explained = explain_pickling(error)
        if explained is None:
            raise
        raise explained from None
