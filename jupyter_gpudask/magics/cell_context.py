"""The context in which the body of a ``%%gpudask`` cell runs; it ends with the cell, however the cell ends."""

from __future__ import annotations

import asyncio
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from types import FrameType
from typing import TYPE_CHECKING, Any

from IPython.core.displayhook import DisplayHook
from IPython.core.interactiveshell import ExecutionResult, InteractiveShell

from ..errors import BrokenContextError
from ..fallback.log import fallback_log
from ..overlay import CellRecord, current_record, set_outside
from ..session.launch import RunningCluster
from ..session.session import Session
from .arguments import CellArguments, parse_cell, usage_error
from .cell_footer import RESPONSE_TIMEOUT, Footer
from .cell_reports import measure_cell, report_to, was_interrupted
from .output import show_note
from .reported_cell import ReportedCell, describe_fallbacks
from .settings import MagicsSettings

if TYPE_CHECKING:
    from ..client.calls import StuckWorker
    from ..protocol.state import GpuState


_HINTS = {
    "cupy": "This error comes from CuPy, which does not support everything that NumPy does. "
    "To run the cell with NumPy, type: %%gpudask --array numpy",
    "cudf": "This error comes from cuDF, which does not support everything that pandas does. "
    "To run the cell with pandas, type: %%gpudask --dataframe pandas",
    "result": "A result on the GPU is not converted to a NumPy array implicitly. To convert a CuPy array, use x.get(); "
    "to get all results as NumPy and pandas, type: %%gpudask --results host",
}


@contextmanager
def cell_context(
    shell: InteractiveShell,
    session: Session,
    cluster: RunningCluster,
    arguments: CellArguments,
    source: str,
    *,
    settings: MagicsSettings,
) -> Iterator[None]:
    """Switch Dask to the GPU backends and to `cluster` while a cell runs, and show what the cell did."""
    # Imported here, because the start of the cluster imports Dask in the background.
    from ..switch.context import default_client, switched_to
    from ..switch.moving import check_variables, host_collections, move_collections

    on_gpus = cluster.ready.has_gpus
    backends = (arguments.array, arguments.dataframe) if on_gpus else ("numpy", "pandas")
    outside = host_collections(source, shell.user_ns, backends) if on_gpus else {}
    record = settings.record_of(arguments, on_gpus=on_gpus)
    if on_gpus and current_record() is None:
        set_outside(settings.record_of(parse_cell("")))

    reported = ReportedCell(shell, session, record)

    with ExitStack() as stack:
        stack.callback(reported.end)  # called last, when the fallbacks of the cell are counted
        stack.enter_context(default_client.computing_on(cluster.client))
        line = None
        if settings.footer and not DisplayHook.semicolon_at_end_of_expression(source):
            line = Footer(
                shell,
                session,
                cluster,
                backends,
                record,
                reported=reported,
                settings=settings,
            )
            stack.enter_context(line)
        stack.enter_context(_hint(shell))
        if arguments.profile:
            stack.enter_context(measure_cell(shell, cluster, arguments.move, record))
        if arguments.report is not None:
            stack.enter_context(report_to(arguments.report))
        stack.enter_context(cancel_on_interrupt(shell, cluster, record))
        stack.enter_context(switched_to(*backends, record))
        if on_gpus:
            gone = stack.enter_context(move_collections(arguments.move, shell.user_ns, mentioned=list(outside)))
            record.on_host.update({name: line for name, line in outside.items() if name not in gone})
        else:
            check_variables(arguments.move, shell.user_ns)
        if line is not None:
            stack.enter_context(line.live())  # left first, so that cancelled tasks do not count as done
        yield


@contextmanager
def ordinary_cell(shell: InteractiveShell, session: Session, settings: MagicsSettings) -> Iterator[None]:
    """Compute collections on GPUs in a cell without ``%%gpudask`` as in one with it, once there has been one.

    Only what ran on the CPU is shown.
    """
    if current_record() is None:
        yield
        return
    has_gpus = session.cluster is None or session.cluster.ready.has_gpus
    record = settings.record_of(parse_cell(""), on_gpus=has_gpus)
    before = set_outside(record)
    try:
        yield
    finally:
        set_outside(before)
        if settings.footer and session.cluster is not None and fallback_log.has_cell(record.id):
            session.cluster.client.wait_until_counted(RESPONSE_TIMEOUT)
            if on_cpu := describe_fallbacks(record.id):
                show_note(shell, f"On the CPU: {', '.join(on_cpu)}")


@contextmanager
def _hint(shell: InteractiveShell) -> Iterator[None]:
    """Under an error that comes from a GPU library, show how to run the cell without the library."""
    from ..inspection.user_code import library_behind
    from ..switch.context import check_context

    try:
        yield
    finally:
        result = shell.last_execution_result
        error = result.error_in_exec if result is not None else None
        library = library_behind(error)
        if library is not None:
            show_note(shell, _HINTS[library])
        elif error is not None:
            try:
                check_context()
            except BrokenContextError as broken:
                show_note(shell, str(broken))


class CellContextStack:
    """A stack of the running cells, with the innermost last, and the contexts that each has entered."""

    def __init__(self, shell: InteractiveShell, around: Callable[[], AbstractContextManager[None]]) -> None:
        self._shell = shell
        self._around = around  # entered for each cell
        self._last_blank: ExecutionResult | None = None
        self._per_thread = threading.local()  # a subshell of the kernel runs its cells in a thread of its own

    @property
    def _running(self) -> list[ExitStack]:
        stacks: list[ExitStack] = self._per_thread.__dict__.setdefault("running", [])
        return stacks

    def install(self) -> None:
        """Follow the cells of the shell, starting with the running one."""
        self._shell.events.register("pre_execute", self._begin)
        self._shell.events.register("post_execute", self._end)
        self._begin()

    def uninstall(self) -> None:
        """Leave all contexts, and stop following the cells."""
        self._shell.events.unregister("pre_execute", self._begin)
        self._shell.events.unregister("post_execute", self._end)
        while self._running:
            self._end()

    def enter(self, context: AbstractContextManager[None]) -> None:
        """Enter `context`, and leave it when the running cell ends."""
        if not self._running:
            raise usage_error("no-cell")
        self._running[-1].enter_context(context)

    def _begin(self) -> None:
        self._running.append(ExitStack())
        self.enter(self._around())

    def _end(self) -> None:
        if not self._is_end_of_blank_cell() and self._running:
            self._running.pop().close()

    def _is_end_of_blank_cell(self) -> bool:
        """Whether the event belongs to a blank cell: for those IPython triggers ``post_execute`` only."""
        result = self._shell.last_execution_result
        if result is None or result is self._last_blank or not result.info or result.info.raw_cell.strip():
            return False
        self._last_blank = result  # a cell that is interrupted early leaves the result of the cell before
        return True


_WAKE_INTERVAL = 0.2
_IMPORT_TIME = 5.0
_TOTAL_SECONDS = 2
_MAX_NAMES = 3


@contextmanager
def cancel_on_interrupt(shell: InteractiveShell, cluster: RunningCluster, record: CellRecord) -> Iterator[None]:
    """If the cell is interrupted, cancel its unfinished tasks and stop those that are running.

    Finished results and the tasks of earlier cells are kept. A note under the cell names tasks that did not stop.
    """
    client = cluster.client
    before = set(client.futures)
    counted: list[int | None] = []

    def count() -> None:
        from ..client.calls import announce_cancellation

        counted.append(announce_cancellation(client, before))

    # `compute` releases its futures before the cell ends, and the scheduler then forgets their tasks.
    client.on_interrupt = count
    with _responsive_event_loop(), _Interrupts(), _short_tracebacks(shell):
        try:
            yield
        finally:
            client.on_interrupt = None
            if was_interrupted(shell):
                from ..client.calls import cancel_unfinished

                if not counted:
                    count()
                record.cancelled = counted[-1] or 0
                # Without tasks, workers that are busy with the end of a query of Polars are not asked again.
                is_done = counted[-1] == 0 and record.polars_queries
                stuck = [] if is_done else cancel_unfinished(client, before)
                stuck += client.stuck_workers
                client.stuck_workers.clear()
                for worker in stuck:
                    show_note(shell, describe_stuck_worker(worker, cluster.ready.gpus))


def describe_stuck_worker(worker: StuckWorker, gpus: Sequence[GpuState]) -> str:
    """Say in a few sentences which task did not stop, and what was done to its worker."""
    index = next((gpu.index for gpu in gpus if gpu.uuid == worker.name), None)
    where = f"worker {worker.name}" if index is None else f"GPU {index}"
    if worker.outcome == "ending":
        return f"The query of Polars on {where} has not ended yet; if it takes seconds more, its worker is restarted."
    more = f" and {len(worker.tasks) - 1} more" if len(worker.tasks) > 1 else ""
    text = f"The task {worker.tasks[0]}{more} on {where} did not stop within {_TOTAL_SECONDS} s; "
    if worker.outcome == "busy":
        return f"{text}it ends when it returns to Python, and the other tasks of its worker continue."
    if worker.outcome == "silent":
        text += "its worker does not respond, and will be restarted if it stays unresponsive."
    else:
        text += "its worker was restarted."
    if worker.recomputed:
        text += " Its results will be recomputed when they are needed."
    if worker.lost:
        names = ", ".join(worker.lost[:_MAX_NAMES]) + (" and others" if len(worker.lost) > _MAX_NAMES else "")
        text += f" Lost, because they cannot be recomputed: {names}."
    return text


class _Interrupts:
    """Interrupts the cell a moment later if an interrupt comes where it would be lost, or leave a module half set up.

    Finalizers and callbacks of weak references ignore errors, and a large query, or graph, spends much of its time in
    them. A module whose import is interrupted can make each later import of it fail: an import is interrupted after
    `_IMPORT_TIME` seconds, or when the user interrupts again. Used in a ``with`` block.
    """

    def __enter__(self) -> None:
        self._timers: list[threading.Timer] = []
        self._end = 0.0  # when an interrupt does not wait any more for an import; 0 without one
        self._is_repeated = False
        self._report, self._interrupt = self.report, self.interrupt  # as they are compared below
        self._hook, sys.unraisablehook = sys.unraisablehook, self._report
        self._handler = signal.getsignal(signal.SIGINT)
        self._is_main = threading.current_thread() is threading.main_thread()  # that of a subshell of a kernel is not
        if self._is_main and callable(self._handler):
            signal.signal(signal.SIGINT, self._interrupt)

    def __exit__(self, *_: object) -> None:
        for timer in self._timers:
            timer.cancel()
        if sys.unraisablehook is self._report:
            sys.unraisablehook = self._hook
        if self._is_main and signal.getsignal(signal.SIGINT) is self._interrupt:
            signal.signal(signal.SIGINT, self._handler)

    def report(self, unraisable: Any) -> None:
        """Called by Python for an error that it ignores."""
        if issubclass(unraisable.exc_type, KeyboardInterrupt):
            self._repeat()  # not at once: the error would be raised in this function
        else:
            self._hook(unraisable)

    def interrupt(self, number: int, frame: FrameType | None) -> None:
        """Called by Python for SIGINT."""
        from ..client.calls import imports_module

        now = time.monotonic()
        if not self._end:
            self._end = now + _IMPORT_TIME
        elif not self._is_repeated:
            self._end = now
        self._is_repeated = False
        if now < self._end and imports_module(frame):
            self._repeat()
        else:
            self._end = 0.0
            assert callable(self._handler)
            self._handler(number, frame)

    def _repeat(self) -> None:
        self._timers.append(threading.Timer(_WAKE_INTERVAL, self._send))
        self._timers[-1].start()

    def _send(self) -> None:
        self._is_repeated = True
        main = threading.main_thread().ident
        assert main is not None
        signal.pthread_kill(main, signal.SIGINT)


@contextmanager
def _short_tracebacks(shell: InteractiveShell) -> Iterator[None]:
    """Let the traceback of an interrupt end at the line of the user that has called Dask."""
    if shell.custom_exceptions:  # of the user
        yield
        return
    shell.set_custom_exc((KeyboardInterrupt,), _show_interrupt)
    try:
        yield
    finally:
        shell.set_custom_exc((), None)


def _show_interrupt(
    shell: InteractiveShell,
    kind: type[BaseException],
    error: BaseException,
    traceback: Any,
    tb_offset: int | None = None,
) -> None:
    last = traceback
    outside = ("dask", "distributed", __name__.partition(".")[0])
    while last.tb_next is not None:
        if str(last.tb_next.tb_frame.f_globals.get("__name__")).partition(".")[0] in outside:
            last.tb_next = None
        else:
            last = last.tb_next
    shell.showtraceback((kind, error, traceback), tb_offset=tb_offset)


@contextmanager
def _responsive_event_loop() -> Iterator[None]:
    """Wake the kernel's event loop regularly while a cell uses ``await``.

    On an interrupt the kernel cancels the cell's task from a signal handler, which does not wake an event loop that
    waits for its next event; the cell would continue until there is one.
    """
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        yield
        return
    handle: asyncio.TimerHandle

    def wake() -> None:
        nonlocal handle
        handle = loop.call_later(_WAKE_INTERVAL, wake)

    wake()
    try:
        yield
    finally:
        handle.cancel()
