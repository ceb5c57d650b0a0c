"""Preparation of a supervisor before its first command: on GPUs, the fork server."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from ..machine.directories import ClusterDirectory
from ..machine.lifeline import on_forced_exit
from .fork_server import ForkServer, engine_of_forks, may_fork_gpu_workers

if TYPE_CHECKING:
    from ..protocol import Start


class Preparation:
    """The directory of the cluster, and the process from which its workers can be forked."""

    def __init__(self) -> None:
        self._directory: ClusterDirectory | None = None
        self._fork_server: ForkServer | None = None

    def prepare_gpu_workers(self) -> None:
        """Let the fork server import cuDF and others now, if there are GPUs.

        In the main thread, see `ForkServer.start`. On the CPU workers import little, and are forked only if Dask is
        configured so.
        """
        if may_fork_gpu_workers():
            with suppress(OSError):  # which the start of the cluster raises, too
                self._directory = _new_directory()
                self._fork_server = ForkServer.start("cuda", {}, self._directory)

    def take_directory(self) -> ClusterDirectory:
        """The directory of the cluster; removed if this process is ended by force.

        Raises
        ------
        OSError
            It cannot be created.
        """
        directory, self._directory = self._directory, None
        return directory or _new_directory()

    def take_fork_server(self, request: Start, directory: ClusterDirectory) -> ForkServer | None:
        """The fork server of a cluster in that directory; `None` if its workers are not forked."""
        server, self._fork_server = self._fork_server, None
        if server is not None:
            if server.suits(engine_of_forks(request, default="forkserver"), request.spec.environment):
                return server
            server.close()
        engine = engine_of_forks(request)
        return None if engine is None else ForkServer.start(engine, request.spec.environment, directory)

    def close(self) -> None:
        """Remove what no cluster has taken."""
        if self._fork_server is not None:
            self._fork_server.close()
        if self._directory is not None:
            self._directory.remove()


def _new_directory() -> ClusterDirectory:
    directory = ClusterDirectory()
    on_forced_exit(directory.remove)
    return directory
