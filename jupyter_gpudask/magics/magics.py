"""The magics ``%gpudask`` and ``%%gpudask``."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from IPython.core.async_helpers import _should_be_async
from IPython.core.interactiveshell import InteractiveShell
from IPython.core.magic import Magics, cell_magic, line_magic, magics_class, no_var_expand, output_can_be_silenced
from IPython.display import display

from ..errors import GpuDaskError, NotOwnedError
from ..session.session import process_session
from .arguments import CellArguments, as_usage_error, cell_help, check_on_options, parse_cell, usage_error
from .cell_context import CellContextStack, cell_context, ordinary_cell
from .cell_transform import AutomaticCells, CellTransformer, is_value_dropped, restore_source, source_of_cell
from .cluster import ClusterAccess
from .commands import Commands, commands_help, make_matcher, parse_line, start_help
from .output import Note, View
from .settings import MagicsSettings


def _line_help() -> str:
    text = inspect.cleandoc(GpuDaskMagics.gpudask_line.__doc__ or "")
    commands = f"Commands\n--------\n{commands_help()}"
    return f"{text}\n\n{commands}\n\nOptions of start and restart\n----------------------------\n{start_help()}"


def _cell_help() -> str:
    text = inspect.cleandoc(GpuDaskMagics.gpudask_cell.__doc__ or "")
    return f"{text}\n\nOptions\n-------\n{cell_help()}"


@contextmanager
def _as_usage_errors() -> Iterator[None]:
    """Show errors of this package as one sentence, without a traceback."""
    try:
        yield
    except GpuDaskError as error:
        raise as_usage_error(error) from None


@magics_class
class GpuDaskMagics(Magics):
    """The magics of one shell."""

    def __init__(self, shell: InteractiveShell) -> None:
        super().__init__(shell)
        self._shell = shell
        self.session = process_session()
        self.transformer = CellTransformer(shell)
        self.settings = MagicsSettings(parent=shell)
        self.contexts = CellContextStack(shell, lambda: ordinary_cell(shell, self.session, self.settings))
        self.automatic = AutomaticCells(shell, self.settings)
        self.session.optimize(on=self.settings.optimize)
        self.settings.observe(lambda change: self.session.optimize(on=change["new"]), "optimize")
        self.session.report_automatic(on=self.settings.on)
        self.settings.observe(lambda change: self.session.report_automatic(on=change["new"]), "on")
        self.matcher = make_matcher(shell.user_ns)
        self._access = ClusterAccess(shell, self.session)
        self._commands = Commands(shell, self.session, self._access, self.settings)

    @no_var_expand
    @line_magic("gpudask")  # type: ignore[arg-type]
    def gpudask_line(self, line: str) -> View:
        """Start, stop and inspect this kernel's cluster of GPU workers.

        ::

            %gpudask start               on all GPUs; without a GPU, a CPU cluster
            %gpudask start --gpus 2      on the two GPUs with the most free memory
            %gpudask start --gpus 0,3    on these two GPUs
            %gpudask start --pool 0.8    reserve 80 % of each GPU's memory at the start
            %gpudask start --cpu         the CPU cluster; --cpu 4 for four workers
            %gpudask on --results gpu    every cell that uses Dask, with an option of %%gpudask
            %gpudask stop

        The value of ``start`` has the Dask client as ``client``; it is also Dask's default client.
        """
        __tracebackhide__ = True
        name, arguments = parse_line(line)
        with _as_usage_errors():
            view = self._commands.run(name, arguments)
        # A table, in the middle of a cell; a start has shown its line already.
        is_table = not isinstance(view, Note) and name not in {"start", "restart", "connect"}
        if is_table and is_value_dropped(self._shell.user_ns):
            display(view)
        return view

    gpudask_line.getdoc = _line_help  # type: ignore[assignment]  # IPython calls it for ``%gpudask?``

    @no_var_expand
    @output_can_be_silenced
    @cell_magic("gpudask")  # type: ignore[arg-type]
    def gpudask_cell(self, line: str, cell: str) -> None:
        """Run a cell that was written for NumPy and pandas on the GPU workers, with CuPy and cuDF.

        ::

            %%gpudask
            import dask.array as da
            x = da.random.random((100_000, 100_000))
            x.mean().compute()

        Dask arrays and dataframes that the cell creates consist of CuPy arrays and cuDF dataframes; everything else
        works as in any cell. If the kernel has no cluster, one is started. Without a GPU the cell runs with NumPy and
        pandas on the CPU cluster, and a note says so.
        """
        # Only for cells that `CellTransformer` has not rewritten: in an exported script, or run by other code.
        if parse_cell(line).compare:
            raise usage_error("compare-in-cell")
        with ExitStack() as stack:
            with _as_usage_errors():
                stack.enter_context(self._cell_context(parse_cell(line), self._shell.transform_cell(cell)))
            result = self._shell.run_cell(cell)
        result.raise_error()

    gpudask_cell.getdoc = _cell_help  # type: ignore[assignment]  # as for the line magic

    @no_var_expand
    @line_magic("_gpudask_cell")  # type: ignore[arg-type]
    def enter_cell(self, line: str) -> None:
        """Enter the context of a ``%%gpudask`` cell; `CellTransformer` puts this in place of the first line."""
        with _as_usage_errors():
            _, source = restore_source(self._shell.user_ns, line)
            self.contexts.enter(self._cell_context(parse_cell(line), source))

    @no_var_expand
    @line_magic("_gpudask_compare")  # type: ignore[arg-type]
    def compare_cell(self, text: str) -> Any:
        """Run a cell on the CPU and on the GPUs, for `CellTransformer`; a coroutine if the cell uses ``await``."""
        __tracebackhide__ = True
        arguments, _, body = text.partition("\n")
        file, source = restore_source(self._shell.user_ns, arguments, body)
        with _as_usage_errors():
            parsed = parse_cell(arguments)
            cluster = self._access.for_cell()
            from .compare_runs import compare_runs, refuse  # here, as the start imports Dask in the background

            cluster.check_libraries(parsed.libraries)
            record = self.settings.record_of(parsed)
            refuse(cluster.ready, source, file, self._shell.user_ns)
            comparing = compare_runs(self._shell, cluster, parsed, source, file=file, record=record)
            if _should_be_async(body):
                return comparing
            try:
                comparing.send(None)
            except StopIteration as done:
                return done.value
            raise AssertionError("the cell does not use await")

    @no_var_expand
    @line_magic("_gpudask_on")  # type: ignore[arg-type]
    def enter_automatic_cell(self, _: str) -> None:
        """Switch the running cell if it can use Dask; `AutomaticCells` adds this call to cells."""
        if "dask" not in sys.modules or not self.settings.on:
            return
        from ..overlay import current_overlay

        if current_overlay() is not None:  # `%%gpudask` itself, or a cell inside another one
            return
        with _as_usage_errors():
            check_on_options(self.settings.on_options)
            source = source_of_cell(self._shell.user_ns)
            self.contexts.enter(self._cell_context(parse_cell(self.settings.on_options), source))

    @contextmanager
    def _cell_context(self, arguments: CellArguments, source: str) -> Iterator[None]:
        cluster = self._access.for_cell()
        if not cluster.is_owned and (arguments.report is not None or arguments.profile):
            option = "--profile" if arguments.profile else "--report"
            raise NotOwnedError(
                address=cluster.ready.address, why=f"{option} would measure the tasks of all its users."
            )
        on_gpus = cluster.ready.has_gpus
        if on_gpus:
            cluster.check_libraries(arguments.libraries)
        elif not cluster.cpu_announced:
            cluster.cpu_announced = True
            why = cluster.ready.cpu_reason or "The CPU cluster was requested."
            where = "on the CPU cluster, " if cluster.is_owned else ""
            display(Note(f"{why} Cells run {where}with NumPy and pandas."))
        with cell_context(self._shell, self.session, cluster, arguments, source, settings=self.settings):
            yield
