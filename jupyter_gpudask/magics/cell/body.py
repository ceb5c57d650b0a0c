"""The context in which the body of a ``%%gpudask`` cell runs."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from IPython.core.displayhook import DisplayHook

from ...errors import BrokenContextError
from ...fallback.log import fallback_log
from ..views.base import show_note
from .footer import Footer
from .interrupt import Interruption, cancel_on_interrupt
from .price import Price
from .report import report_to

if TYPE_CHECKING:
    from collections.abc import Iterator

    from IPython.core.interactiveshell import InteractiveShell

    from ...session.running_cluster import RunningCluster
    from ...session.session import Session
    from ..arguments import CellArguments
    from ..settings import MagicsSettings

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
    """Switch Dask to the GPU backends and to `cluster` while a cell runs, and show what the cell did.

    Parameters
    ----------
    shell
        The shell that runs the cell.
    session, cluster
        The kernel's cluster. On the CPU stand-in the backends are NumPy and pandas, and nothing is moved.
    arguments
        The arguments of ``%%gpudask``.
    source
        The code of the cell.
    settings
        Whether to show a line under the cell, with which price, where results are, and what happens to operations that
        the GPU libraries lack.
    """
    # Imported here, because the start of the cluster imports Dask in the background.
    from ...switch.context import switched_to
    from ...switch.default_client import default_client
    from ...switch.moving import host_collections, moved

    on_gpus = cluster.ready.engine == "cuda"
    backends = (arguments.array, arguments.dataframe) if on_gpus else ("numpy", "pandas")
    outside = host_collections(source, shell.user_ns, backends) if on_gpus else {}
    record = settings.record_of(arguments, on_gpus=on_gpus)
    with ExitStack() as stack:
        stack.callback(_report_end, session, record.id)  # called last, when the fallbacks of the cell are counted
        stack.enter_context(default_client.computing_on(cluster.client))
        line, interruption = None, Interruption()
        if settings.footer and not DisplayHook.semicolon_at_end_of_expression(source):
            price = Price.of(settings, cluster.ready)
            line = Footer(shell, session, cluster, backends, record, interruption=interruption, price=price)
            stack.enter_context(line)
        stack.enter_context(_hint(shell))
        if arguments.profile:
            from .profiling import profiled

            stack.enter_context(profiled(shell, cluster, arguments.move))
        if arguments.report is not None:
            stack.enter_context(report_to(arguments.report))
        stack.enter_context(cancel_on_interrupt(shell, cluster, interruption))
        stack.enter_context(switched_to(*backends, record))
        if on_gpus:
            gone = stack.enter_context(moved(arguments.move, shell.user_ns, mentioned=list(outside)))
            record.on_host.update({name: line for name, line in outside.items() if name not in gone})
        if line is not None:
            stack.enter_context(line.live())  # left first, so that cancelled tasks do not count as done
        yield


def _report_end(session: Session, cell: str) -> None:
    cluster = session.cluster
    if cluster is not None:
        cluster.notify(cluster.process.report_cell, sum(fallback_log.blocks_of(cell).values()))


@contextmanager
def _hint(shell: InteractiveShell) -> Iterator[None]:
    """Under an error that comes from a GPU library, show how to run the cell without the library."""
    from ...inspection.error_origin import library_behind
    from ...switch.context import check_context

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
