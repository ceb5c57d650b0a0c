"""The commands of ``%gpudask``: what each does and shows."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from ...errors import GpuUnavailableError
from ..cell.automatic import describe_on
from ..views.base import Note, View, show_note
from ..views.cluster import ClusterView
from ..views.tables import GpusView, LogsView, StatusView

if TYPE_CHECKING:
    from collections.abc import Callable

    from IPython.core.interactiveshell import InteractiveShell

    from ...session.session import Session
    from ..arguments import LineArguments
    from ..cluster_access import ClusterAccess
    from ..settings import MagicsSettings


class Commands:
    """Runs the commands; there is a method for each of `magics.declarations.COMMANDS`.

    Parameters
    ----------
    shell
        The shell in which they are typed.
    session, access
        The kernel's cluster, and how it is started.
    settings
        What ``%config GpuDask`` shows.
    """

    def __init__(
        self, shell: InteractiveShell, session: Session, access: ClusterAccess, settings: MagicsSettings
    ) -> None:
        self._shell, self._session, self._access, self._settings = shell, session, access, settings

    def run(self, arguments: LineArguments) -> View:
        """Run a command, and return what it shows."""
        command: Callable[[LineArguments], View] = getattr(self, f"_{arguments.command}")
        return command(arguments)

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
        from ..views.live_status import LiveStatusView

        return LiveStatusView(state, self._session.state)

    def _gpus(self, _: LineArguments) -> View:
        from ...machine.gpus import list_gpus
        from ...machine.leases import LeaseFolder, holders_of

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
        from .held import held

        return held(self._shell, self._session, arguments.release)

    def _keep(self, _: LineArguments) -> View:
        cluster = self._session.require()
        wanted_by = cluster.ask(cluster.process.keep)
        kept = "The cluster keeps its GPUs; its idle time begins anew."
        return Note(f"{kept} They are wanted by {wanted_by}." if wanted_by else kept)

    def _free(self, _: LineArguments) -> View:
        from .free import free

        return free(self._session)

    def _fallbacks(self, _: LineArguments) -> View:
        from .fallbacks import list_fallbacks

        return list_fallbacks()

    def _logs(self, arguments: LineArguments) -> View:
        return LogsView(self._session.require().log(arguments.lines))
