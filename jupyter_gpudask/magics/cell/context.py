"""Everything that is around the body of a ``%%gpudask`` cell."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from IPython.core.displayhook import DisplayHook

from ..views.base import show_note
from .footer import Footer
from .interrupt import take_back_if_interrupted
from .report import report_to

if TYPE_CHECKING:
    from collections.abc import Iterator

    from IPython.core.interactiveshell import InteractiveShell

    from ...session.running_cluster import RunningCluster
    from ...session.session import Session
    from ..arguments import CellArguments

_ORIGIN = {
    "cupy": "This error comes from CuPy, which does not do all that NumPy does.",
    "cudf": "This error comes from cuDF, which does not do all that pandas does.",
    "result": "A result on the GPU does not become a NumPy array by itself.",
}
_WAY_OUT = {
    "cupy": "To run the cell with NumPy, type: %%gpudask --array numpy",
    "cudf": "To run the cell with pandas, type: %%gpudask --dataframe pandas",
    "result": "For a CuPy array, write x.get(); for all results as NumPy and pandas, type: %%gpudask --to-host",
}


@contextmanager
def cell_context(
    shell: InteractiveShell,
    session: Session,
    cluster: RunningCluster,
    arguments: CellArguments,
    source: str,
    *,
    footer: bool,
) -> Iterator[None]:
    """Run a cell on `cluster`, as `arguments` say.

    Parameters
    ----------
    shell
        Where the cell runs.
    session, cluster
        The kernel's cluster.
    arguments
        Of the ``%%gpudask`` line. On the CPU stand-in there are no GPU backends to switch to, nor anything to move.
    source
        The code of the cell.
    footer
        Whether a line under the cell is wanted.
    """
    # Here and not above, for the start of the cluster imports Dask meanwhile.
    from ...overlay.cell_record import Watch
    from ...switch.context import switched_to
    from ...switch.default_client import default_client
    from ...switch.moving import host_collections, moved

    on_gpus = cluster.ready.engine == "cuda"
    backends = (arguments.array, arguments.dataframe) if on_gpus else ("numpy", "pandas")
    outside = host_collections(source, shell.user_ns, backends) if on_gpus else {}
    watch = Watch(to_host=arguments.to_host)
    with ExitStack() as stack:
        stack.enter_context(default_client.computing_on(cluster.client))
        line = None
        if footer and not DisplayHook.semicolon_at_end_of_expression(source):
            line = Footer(shell, session, cluster, backends, watch.on_host)
            stack.enter_context(line)
        stack.enter_context(_advice(shell))
        if arguments.report is not None:
            stack.enter_context(report_to(arguments.report))
        stack.enter_context(take_back_if_interrupted(shell, cluster))
        stack.enter_context(switched_to(*backends, watch))
        if on_gpus:
            gone = stack.enter_context(moved(arguments.move, shell.user_ns, mentioned=list(outside)))
            watch.on_host.update({name: line for name, line in outside.items() if name not in gone})
        if line is not None:
            stack.enter_context(line.live())  # ends first: what an interrupt takes back is not done
        yield


@contextmanager
def _advice(shell: InteractiveShell) -> Iterator[None]:
    """Under an error that comes from a GPU library, say how to do without the library."""
    from ...inspection.error_origin import library_behind

    try:
        yield
    finally:
        result = shell.last_execution_result
        library = library_behind(result.error_in_exec) if result is not None else None
        if library is not None:
            show_note(shell, f"{_ORIGIN[library]} {_WAY_OUT[library]}")
