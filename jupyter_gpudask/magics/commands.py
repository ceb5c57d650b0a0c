"""The commands of ``%gpudask``: what each does and shows."""

from __future__ import annotations

import gc
import os
from dataclasses import dataclass
from html import escape
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from ..errors import GpuUnavailableError
from ..fallback.log import fallback_log
from ..quantities import format_bytes
from .arguments import usage_error
from .cell_transform import describe_on
from .cluster import ClusterView
from .declarations import commands_help, start_help
from .output import Note, Text, View, format_table, html_table, show_note
from .status import GpusView, LogsView, StatusView

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from IPython.core.interactiveshell import InteractiveShell

    from ..client.calls import HeldReport
    from ..protocol import WorkerState
    from ..session.session import Session
    from .arguments import LineArguments
    from .cluster import ClusterAccess
    from .settings import MagicsSettings

_HELD_HEADS = ("variable", "results", "size")
_REST = "(no variable)"
_RESPONSE_TIMEOUT = 20.0
_FALLBACK_HEADS = ("operation", "line", "blocks", "seconds", "what the library said")


class Commands:
    """Runs the commands; there is a method for each of `magics.declarations.COMMANDS`."""

    def __init__(
        self, shell: InteractiveShell, session: Session, access: ClusterAccess, settings: MagicsSettings
    ) -> None:
        self._shell, self._session, self._access, self._settings = shell, session, access, settings

    def run(self, arguments: LineArguments) -> View:
        """Run a command, and return what it shows."""
        command: Callable[[LineArguments], View] = getattr(self, f"_{arguments.command}")
        return command(arguments)

    def _help(self, _: LineArguments) -> View:
        return Text(f"{commands_help()}\n\nOptions of start and restart:\n{start_help()}")

    def _version(self, _: LineArguments) -> View:
        return Note(", ".join(f"{name} {version(name)}" for name in ("jupyter_gpudask", "dask", "distributed")))

    def _start(self, arguments: LineArguments) -> View:
        cluster, new = self._access.launch(arguments.options)
        return ClusterView(cluster, None if new else self._session.state())

    def _connect(self, arguments: LineArguments) -> View:
        return ClusterView(self._session.connect(arguments.options, lambda: None))

    def _disconnect(self, _: LineArguments) -> View:
        address = self._session.disconnect()
        if address:
            return Note(f"Disconnected from {address}.")
        return Note("This kernel is not connected to a cluster of somebody else.")

    def _stop(self, _: LineArguments) -> View:
        self._session.require_owned("stop")
        return Note("The cluster is closed." if self._session.stop() else "There was no cluster.")

    def _restart(self, arguments: LineArguments) -> View:
        options = self._session.restart_options(arguments.options)
        self._session.stop()
        return ClusterView(self._access.launch(options)[0])

    def _scale(self, arguments: LineArguments) -> View:
        assert arguments.number is not None
        return StatusView(self._session.require().scale(arguments.number))

    def _adapt(self, arguments: LineArguments) -> View:
        assert arguments.number is not None
        assert arguments.maximum is not None
        cluster = self._session.require()
        return StatusView(cluster.ask(cluster.process.adapt, arguments.number, arguments.maximum))

    def _on(self, arguments: LineArguments) -> View:
        self._settings.on_options, self._settings.on = arguments.cell, True
        return Note(describe_on(arguments.cell))

    def _off(self, _: LineArguments) -> View:
        was_on, self._settings.on = self._settings.on, False
        return Note("Cells run as usual." if was_on else "%gpudask was not on.")

    def _accelerate(self, _: LineArguments) -> View:
        from .accelerate import accelerate

        return accelerate(self._shell, self._session)

    def _status(self, _: LineArguments) -> View:
        if self._settings.on:
            show_note(self._shell, describe_on(self._settings.on_options))
        state = self._session.state()
        if not hasattr(self._shell, "kernel"):
            return StatusView(state)
        from .status import LiveStatusView

        return LiveStatusView(state, self._session.state)

    def _gpus(self, _: LineArguments) -> View:
        from ..machine.gpus import list_gpus
        from ..machine.leases import LeaseFolder, holders_of

        cluster = self._session.cluster
        supervisor = None if cluster is None else cluster.ready.pid
        try:
            gpus = list_gpus()
        except GpuUnavailableError as error:  # an answer, which does not end "Run all"
            return Note(str(error))
        return GpusView(gpus, holders_of(LeaseFolder().read(), own=(os.getpid(), supervisor)))

    def _doctor(self, _: LineArguments) -> View:
        from .doctor import examine

        return examine(self._session.reconnect())

    def _held(self, arguments: LineArguments) -> View:
        """List the results, after the given variables are deleted, together with what IPython keeps of them."""
        from ..client.calls import report_variables, wait_until_released
        from ..polars.choice import kept_bytes

        gpus = {worker.name: worker.gpu_index for worker in self._session.state().workers}
        client = self._session.require().client
        variables = self._shell.user_ns
        missing = [name for name in arguments.release if name not in _user_variables(variables)]
        if missing:
            raise usage_error("no-variable", name=missing[0])
        if arguments.release:
            before = set(client.futures)
            for name in arguments.release:
                self._shell.del_var(name)  # as %xdel does: also from Out, _ and __
            gc.collect()
            wait_until_released(client, before)
        held = report_variables(client, _user_variables(variables))
        return HeldView(held, gpus, arguments.release, polars=kept_bytes(client))

    def _keep(self, _: LineArguments) -> View:
        cluster = self._session.require()
        wanted_by = cluster.ask(cluster.process.keep)
        kept = "The cluster keeps its GPUs; its idle time begins anew."
        return Note(f"{kept} They are wanted by {wanted_by}." if wanted_by else kept)

    def _free(self, _: LineArguments) -> View:
        from ..client.calls import run_on_workers
        from ..gpu_libraries import release_memory
        from ..polars.choice import leave

        cluster = self._session.cluster
        freed: dict[str, int] = {}
        workers: tuple[WorkerState, ...] = ()
        if cluster is not None and cluster.ready.has_gpus:
            leave(cluster.client)
            names = run_on_workers(cluster.client, _name_of, _RESPONSE_TIMEOUT)
            released = run_on_workers(cluster.client, release_memory, _RESPONSE_TIMEOUT)
            workers = self._session.state().workers
            sizes = {names.get(address, address): size for address, size in released.items()}
            has_hosts = not cluster.is_owned or len({worker.host for worker in workers}) > 1
            for worker in workers:  # several workers of somebody else may share a GPU
                gpu = f"{worker.host} GPU {worker.gpu_index}" if has_hosts else f"GPU {worker.gpu_index}"
                freed[gpu] = freed.get(gpu, 0) + sizes.get(worker.name, 0)
        freed["kernel"] = release_memory()
        return FreeView(freed, workers, pool=cluster is not None and cluster.spec.pool is not None)

    def _fallbacks(self, _: LineArguments) -> View:
        rows = [
            FallbackRow(place.operation, place.line, blocks, fallback_log.seconds[place], place.reason)
            for place, blocks in fallback_log.blocks.copy().items()
        ]
        if not rows:
            return Note("Nothing has run on the CPU because CuPy or cuDF lack it.")
        return FallbacksView(sorted(rows, key=lambda row: -row.seconds))

    def _logs(self, arguments: LineArguments) -> View:
        return LogsView(self._session.require().log(arguments.lines))


class HeldView(View):
    """The results on the workers.

    - `total`: their size in bytes, each counted once.
    - `workers`: their size on each worker in bytes, by the worker's name in Dask.
    - `variables`: the size of the results that each variable holds, in bytes.
    - `polars`: the device memory that Polars' engine keeps, in bytes; `None` without an engine.
    """

    def __init__(
        self,
        report: HeldReport,
        gpus: Mapping[str, int | None],
        deleted: Sequence[str],
        *,
        polars: int | None = None,
    ) -> None:
        self.polars = polars
        self.total = report.total
        order = [*gpus, *report.workers]  # a worker may have been added since
        self.workers = {name: report.workers[name] for name in dict.fromkeys(order) if name in report.workers}
        rows = sorted(((name, *counts) for name, counts in report.counts.items() if counts[0]), key=lambda row: -row[2])
        self.variables = {name: size for name, _, size in rows if name}
        self._rows = [(name or _REST, f"{number:,}", format_bytes(size)) for name, number, size in rows]
        self._before = [f"Deleted: {', '.join(deleted)}."] if deleted else []
        self._before.append(self._describe(gpus))
        names = ",".join(list(self.variables)[:2])
        self._after = [f"To release results, type: %gpudask held --release {names}"] if names else []
        if report.counts.get("", (0, 0))[0]:
            self._after.append("Values of earlier cells may hold the others. To delete them, type: %reset -f out")
        if polars is not None:
            kept = "no device memory" if not polars else f"{format_bytes(polars)} of device memory"
            self._after.append(f"Polars' engine keeps {kept}. To end it, type: %gpudask free")

    def __str__(self) -> str:
        table = [format_table(_HELD_HEADS, self._rows)] if self._rows else []
        return "\n".join((*self._before, *table, *self._after))

    def to_html(self) -> str:
        """The lines and the table."""
        table = html_table(_HELD_HEADS, self._rows, align="left") if self._rows else ""
        return _divs(self._before) + table + _divs(self._after)

    def _describe(self, gpus: Mapping[str, int | None]) -> str:
        if not self.total:
            return "The workers hold no results."
        names = {name: f"worker {name}" if gpus.get(name) is None else f"GPU {gpus[name]}" for name in self.workers}
        places = [f"{names[name]} {format_bytes(size)}" for name, size in self.workers.items() if size]
        return f"The workers hold {format_bytes(self.total)} of results: {', '.join(places)}."


def _divs(lines: Sequence[str]) -> str:
    return "".join(f"<div>{escape(line)}</div>" for line in lines)


def _user_variables(variables: Mapping[str, Any]) -> dict[str, Any]:
    """The variables of the user, without what IPython keeps."""
    return {name: value for name, value in variables.items() if not name.startswith("_") and name not in ("In", "Out")}


class FreeView(View):
    """How much device memory was released, by GPU of a worker and for the kernel, and how much is still in use."""

    def __init__(self, freed: dict[str, int], workers: tuple[WorkerState, ...], *, pool: bool) -> None:
        self.freed = freed
        self._workers = workers
        self._pool = pool

    def __str__(self) -> str:
        lines = [f"{format_bytes(sum(self.freed.values()))} of device memory freed."]
        lines += [f"  {name}: {format_bytes(freed)}" for name, freed in self.freed.items() if freed]
        in_use = sum(worker.pool_used or 0 for worker in self._workers)
        if in_use:
            lines.append(
                f"{format_bytes(in_use)} is in use by results on the workers. "
                "To see which variables hold them, type: %gpudask held"
            )
        if self._pool:
            lines.append("The pool stays reserved. To release it, type: %gpudask restart --pool none")
        return "\n".join(lines)

    def to_html(self) -> str:
        """The lines, with their indentation."""
        return f'<div style="white-space: pre-wrap">{escape(str(self))}</div>'


def _name_of(dask_worker: Any) -> str:
    return str(dask_worker.name)


@dataclass(frozen=True)
class FallbackRow:
    """An operation that ran on the CPU."""

    operation: str  # the name of the function
    line: int  # the line of its cell; 0 if it is not known
    blocks: int  # the number of blocks or partitions
    seconds: float  # the sum of the times of the blocks, with the copies of the data
    reason: str  # the error in which CuPy or cuDF said that they lack it


class FallbacksView(View):
    """The operations as a table, those with the longest time first."""

    def __init__(self, fallbacks: Sequence[FallbackRow]) -> None:
        self.fallbacks = tuple(fallbacks)

    def __str__(self) -> str:
        return format_table(_FALLBACK_HEADS, self._rows())

    def to_html(self) -> str:
        """The table."""
        return html_table(_FALLBACK_HEADS, self._rows(), align="left")

    def _rows(self) -> list[tuple[str, ...]]:
        return [
            (row.operation, str(row.line or ""), f"{row.blocks:,}", f"{row.seconds:.2f}", row.reason)
            for row in self.fallbacks
        ]
