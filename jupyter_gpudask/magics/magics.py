"""``%gpudask`` and ``%%gpudask``."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

from IPython.core.async_helpers import _should_be_async
from IPython.core.error import UsageError
from IPython.core.magic import Magics, cell_magic, line_magic, magics_class, no_var_expand, output_can_be_silenced
from IPython.display import display

from ..errors import GpuDaskError
from ..session.session import process_session
from .arguments import CellArguments, LineArguments, parse_cell, parse_line
from .cell.context import cell_context
from .cell.transform import Cells
from .compare.run import compare_runs
from .completion import make_matcher
from .settings import MagicsSettings
from .views.base import ClusterView, GpusView, LogsView, Note, StatusView, View, describe_cluster
from .views.start_progress import StartDisplay

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from IPython.core.interactiveshell import InteractiveShell

    from ..session.running_cluster import RunningCluster


@contextmanager
def _as_usage_errors() -> Iterator[None]:
    """Show our errors as one sentence, without a traceback of our code."""
    try:
        yield
    except GpuDaskError as error:
        raise UsageError(str(error)) from None


@magics_class
class GpuDaskMagics(Magics):
    """The magics of one shell, and its cluster."""

    def __init__(self, shell: InteractiveShell) -> None:
        super().__init__(shell)
        self._shell = shell
        self.session = process_session()
        self.cells = Cells(shell, "_gpudask_cell")
        self.settings = MagicsSettings(parent=shell)
        self.matcher = make_matcher(shell.user_ns)

    @no_var_expand
    @line_magic("gpudask")  # type: ignore[arg-type]
    def gpudask_line(self, line: str) -> View:
        """Start, stop and look at this kernel's cluster of GPU workers.

        ::

            %gpudask start                     all GPUs; without a GPU, the CPU stand-in
            %gpudask start --gpus 2            the two with the most free memory
            %gpudask start --gpus 0,3          those two
            %gpudask start --pool 0.8          reserve 80 % of each GPU's memory at the start
            %gpudask start --cpu               the CPU stand-in; --cpu 4 for four workers
            %gpudask status                    what each worker is doing
            %gpudask scale 2                   have two workers
            %gpudask gpus                      the machine's GPUs, and who holds them
            %gpudask logs                      the last lines that the workers logged; --lines 100 for more
            %gpudask free                      give back device memory that is held without need
            %gpudask doctor                    check driver, packages, GPUs and workers
            %gpudask restart                   a new cluster with the same options, or with those given
            %gpudask stop                      close it and free the GPUs

        Options of start and restart
        ----------------------------
        --gpus WHICH           all (the default), a count, or indices and UUIDs with commas: 0,3 or GPU-5a0c...
        --cpu [N]              the CPU stand-in, with N workers
        --pool AMOUNT          device memory that RMM reserves on each GPU: a fraction, a size such as 20GB, or
                               none (the default: nothing is reserved, the pool grows as needed)
        --spilling WHO         who moves data off a full GPU: dask (the default), cudf or off
        --spill-threshold AMOUNT
                               device memory above which results move to the host (0.8); it is no cap
        --memory-limit AMOUNT  host memory of each worker: auto (the default), a fraction, a size or none
        --share yes            let other clusters that share too hold the same GPUs
        --threads N            threads of each worker (1 on a GPU)
        --protocol NAME        tcp (the default, with TLS) or ucx (NVLink and InfiniBand, without TLS)
        --resources NAME=N     Dask resources of each worker, such as GPU=1
        --environment NAME=VALUE
                               a variable of each worker
        --start-timeout SECONDS
                               in which all workers must be up (120)
        --engine NAME          auto (the default), cuda or cpu
        --dashboard            show Dask's dashboard where no Jupyter server does, at an address with a token
        --profile NAME         what the administrator of the Jupyter server has set up under that name

        The value of ``start`` has the Dask client as ``client``; it is also Dask's default.
        """
        arguments = parse_line(line)
        run: Callable[[LineArguments], View] = getattr(self, f"_{arguments.command}")
        with _as_usage_errors():
            return run(arguments)

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

        What Dask creates in the cell is made of CuPy arrays and cuDF frames. Everything else is as in any cell. A
        cluster is started if the kernel has none. Where there is no GPU the cell runs on NumPy and pandas, and
        says so.

        Options
        -------
        --array NAME      cupy (the default) or numpy
        --dataframe NAME  cudf (the default) or pandas
        --move NAMES      collections from outside the cell that are moved to the GPUs for it: x,df or all
        --to-host         results come as NumPy and pandas
        --compare         run the cell on the CPU too, in copies of the variables, and compare times and results
        --report FILE     write Dask's performance report of the cell, as HTML
        """
        # Reached only where `Cells.rewrite` was not: in an exported script, and where other code runs the magic.
        if parse_cell(line).compare:
            raise UsageError("--compare works in a cell of a notebook or of IPython alone.")
        with ExitStack() as stack:
            with _as_usage_errors():
                stack.enter_context(self._cell_context(parse_cell(line), self._shell.transform_cell(cell)))
            result = self._shell.run_cell(cell)
        result.raise_error()

    @no_var_expand
    @line_magic("_gpudask_cell")  # type: ignore[arg-type]
    def enter_cell(self, line: str) -> None:
        """Switch the running cell to the GPUs; what a ``%%gpudask`` line is turned into."""
        with _as_usage_errors():
            _, source = self.cells.show_as_written(line)
            self.cells.enter(self._cell_context(parse_cell(line), source))

    @no_var_expand
    @line_magic("_gpudask_compare")  # type: ignore[arg-type]
    def compare_cell(self, text: str) -> Any:
        """Run a cell on the CPU and on the GPUs; what a ``%%gpudask --compare`` cell is turned into.

        Returns
        -------
        View or coroutine
            A coroutine of it if the cell awaits something.
        """
        __tracebackhide__ = True
        arguments, _, body = text.partition("\n")
        file, source = self.cells.show_as_written(arguments, body)
        with _as_usage_errors():
            parsed = parse_cell(arguments)
            cluster = self._cluster_for_cell()
            comparing = compare_runs(self._shell, self.session, cluster, parsed, source, file=file)
            if _should_be_async(body):
                return comparing
            try:
                comparing.send(None)
            except StopIteration as done:
                return done.value
            raise AssertionError("nothing in it awaits anything")

    @contextmanager
    def _cell_context(self, arguments: CellArguments, source: str) -> Iterator[None]:
        cluster = self._cluster_for_cell()
        on_gpus = cluster.ready.engine == "cuda"
        if not on_gpus and not cluster.stand_in_told:
            cluster.stand_in_told = True
            why = cluster.ready.stand_in or "The CPU stand-in was asked for."
            display(Note(f"{why} Cells run on the CPU stand-in, with NumPy and pandas."))
        with cell_context(self._shell, self.session, cluster, arguments, source, footer=self.settings.footer):
            yield

    def _cluster_for_cell(self) -> RunningCluster:
        if self.session.is_untouched:  # one that the Jupyter server has is found by the start
            return self._launch({})[0]
        running = self.session.reconnect()
        if running is not None:
            return running
        loss = self.session.take_loss()
        if loss is None:
            return self._launch({})[0]
        error, options = loss
        display(Note(f"{error.reason} A new cluster is started."))
        return self._launch(options)[0]

    def _launch(self, options: dict[str, Any]) -> tuple[RunningCluster, bool]:
        progress = StartDisplay(self._shell)
        try:
            cluster, new = self.session.start(options, progress.on_progress, progress.refresh)
        except BaseException:
            progress.abandon()
            raise
        if new or progress.is_shown:
            progress.finish(f"{'Started' if new else 'Found'}: {describe_cluster(cluster.ready)}")
        return cluster, new

    def _start(self, arguments: LineArguments) -> View:
        cluster, new = self._launch(arguments.options)
        return ClusterView(cluster, None if new else self.session.state())

    def _stop(self, _: LineArguments) -> View:
        return Note("The cluster is closed." if self.session.stop() else "There was no cluster.")

    def _restart(self, arguments: LineArguments) -> View:
        options = self.session.options_of_restart(arguments.options)
        self.session.stop()
        return ClusterView(self._launch(options)[0])

    def _scale(self, arguments: LineArguments) -> View:
        assert arguments.number is not None
        return StatusView(self.session.scale(arguments.number))

    def _status(self, _: LineArguments) -> View:
        state = self.session.state()
        if not hasattr(self._shell, "kernel"):
            return StatusView(state)
        from .views.live_status import LiveStatusView

        return LiveStatusView(state, self.session.state)

    def _gpus(self, _: LineArguments) -> View:
        from ..machine.gpus import list_gpus
        from ..machine.leases import LeaseFolder, holders_of

        cluster = self.session.cluster
        supervisor = None if cluster is None else cluster.ready.pid
        return GpusView(list_gpus(), holders_of(LeaseFolder().read(), supervisor=supervisor))

    def _doctor(self, _: LineArguments) -> View:
        from .commands.doctor import examine

        return examine(self.session.reconnect())

    def _free(self, _: LineArguments) -> View:
        from .commands.free import free

        return free(self.session)

    def _logs(self, arguments: LineArguments) -> View:
        return LogsView(self.session.log(max(1, min(arguments.lines, 10_000))))
