"""The server extension: settings and wiring, no work."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from jupyter_server.extension.application import ExtensionApp
from jupyter_server.serverapp import ServerApp

from ..protocol.unix_socket import socket_path
from .api.dashboard_proxy import DASHBOARD
from .api.handlers import HANDLERS
from .api.stream import STREAM
from .clusters.kernel_events import KernelFollower
from .clusters.kernels import ServerKernels
from .clusters.manager import ClusterManager
from .clusters.policy import Policy
from .kernel_socket import KernelSocket
from .metrics.broadcaster import Watch
from .pre_save_hook import leave_out_widgets
from .settings import ServerSettings


class GpuDaskExtension(ExtensionApp):
    """Dask on the GPUs of this machine: one cluster for each kernel that asks for one."""

    name = "jupyter_gpudask"
    load_other_extensions = True
    classes = [ServerApp, ServerSettings]  # noqa: RUF012 - as ExtensionApp declares it; `--help-all` lists these

    manager: ClusterManager
    _socket: KernelSocket | None = None

    def initialize_settings(self) -> None:
        """Make the manager, have it follow the server's kernels, and have widgets left out of saved notebooks."""
        app = self.serverapp
        assert app is not None
        kernels = ServerKernels(app.kernel_manager, app.session_manager)
        settings = ServerSettings(parent=self)
        policy = Policy(settings)
        policy.validate_settings()
        self.manager = ClusterManager(kernels, policy)
        self._follower = KernelFollower(self.manager, app.kernel_manager, app.event_logger)
        self._watch = Watch(self.manager, settings.history_seconds)
        self.settings["gpudask_watch"] = self._watch
        self.settings["gpudask_manager"] = self.manager
        app.contents_manager.register_pre_save_hook(leave_out_widgets)

    async def _start_jupyter_server_extension(self, _: Any) -> None:
        """Listen for kernels; called when the server's loop runs."""
        app = self.serverapp
        assert app is not None
        self._socket = KernelSocket(self.manager, self._watch, socket_path(Path(app.runtime_dir), os.getpid()))
        await self._socket.open()

    def initialize_handlers(self) -> None:
        """Say which requests are answered."""
        self.handlers.extend([*HANDLERS, *STREAM, *DASHBOARD])

    async def stop_extension(self) -> None:
        """Close every cluster."""
        self._follower.stop()
        await self._watch.stop()
        if self._socket is not None:
            await self._socket.close()
        await self.manager.close_all()

    def current_activity(self) -> Any:
        """How many clusters there are: a server that has some is not idle."""
        return sum(cluster.alive for cluster in self.manager.clusters.values()) or None


main = GpuDaskExtension.launch_instance
