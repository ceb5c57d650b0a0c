"""The Jupyter server extension: it connects settings, clusters, handlers and the kernels' socket."""

from __future__ import annotations

import os
from collections.abc import Generator
from pathlib import Path
from typing import Any

from jupyter_server.extension.application import ExtensionApp
from jupyter_server.serverapp import ServerApp
from prometheus_client import REGISTRY

from ..machine.lease_registry import LEASE_DIRECTORY_VARIABLE
from ..machine.unix_socket import socket_path
from ..protocol.rest import LIVE_OUTPUT, CellBand
from ..protocol.state import CellRun
from .cluster import KernelCluster
from .dashboard_proxy import DASHBOARD, JOINED_DASHBOARD, DashboardClient
from .history import Archive, History
from .kernel_socket import KernelSocket
from .kernels import ServerKernels
from .manager import ClusterManager, KernelEventListener
from .monitor import Monitor
from .prometheus import PrometheusMetrics
from .rest import HANDLERS, OPENAPI
from .settings import Policy, ServerSettings, overridable_limits
from .stream import STREAM, Broadcaster


class GpuDaskExtension(ExtensionApp):
    """Dask on the GPUs of this machine: one cluster for each kernel that asks for one."""

    name = "jupyter_gpudask"
    description = "A Jupyter server with Dask on the GPUs of this machine, and the administrator's commands."
    subcommand_description = "Type `jupyter gpudask SUBCOMMAND`, with `--help` for its options."  # not its name, {app}
    load_other_extensions = True
    classes = [ServerApp, ServerSettings]  # noqa: RUF012 - as ExtensionApp declares it; `--help-all` lists these
    subcommands = {  # noqa: RUF012 - the same
        "exporter": ("jupyter_gpudask.server.commands.ExporterApp", "Serve metrics of the machine."),
        "usage": ("jupyter_gpudask.server.commands.UsageApp", "Show the GPU hours of each user of the machine."),
    }

    manager: ClusterManager
    _socket: KernelSocket | None = None

    def emit_help(self, classes: bool = False) -> Generator[str, None, None]:  # noqa: FBT002 - as its parent
        """The lines of the help; with ``--help-all`` the settings of this package come first."""
        if classes:
            yield ServerSettings.class_get_help()
            yield ""
        yield from super().emit_help(classes=classes)

    def initialize_settings(self) -> None:
        """Create the manager of clusters, and subscribe to kernel events and to saves of notebooks."""
        app = self.serverapp
        assert app is not None
        kernels = ServerKernels(app.kernel_manager, app.session_manager)
        settings = ServerSettings(parent=self)
        policy = Policy(settings)
        policy.validate_settings()
        files = dict.fromkeys([*app.loaded_config_files, *self.loaded_config_files])
        for sentence in overridable_limits(files, app.config_file_paths, app.cli_config.get("GpuDask", ())):
            self.log.warning(sentence)
        if settings.lease_directory:  # kernels inherit it, and the supervisors from these
            os.environ[LEASE_DIRECTORY_VARIABLE] = settings.lease_directory
        self.manager = ClusterManager(kernels, policy)
        self._kernel_events = KernelEventListener(self.manager, app.kernel_manager, app.event_logger)
        self._monitor = Monitor(self.manager)
        archive = Archive(Path(app.runtime_dir) / "gpudask-history")
        interval = settings.metrics_interval
        self._history = History(round(settings.history_seconds / interval), archive)
        self._broadcaster = Broadcaster(self.manager, self._monitor, self._history, interval)
        self._prometheus = PrometheusMetrics(self.manager, self._monitor, REGISTRY)
        self.settings["gpudask_manager"] = self.manager
        self.settings["gpudask_monitor"] = self._monitor
        self.settings["gpudask_broadcaster"] = self._broadcaster
        self.settings["gpudask_history"] = self._history
        self._dashboard_client = self.settings["gpudask_dashboard_client"] = DashboardClient()
        app.contents_manager.register_pre_save_hook(remove_widget_views)
        # Else the body of these cells has no syntax colors in an export.
        languages = app.config.HighlightMagicsPreprocessor.setdefault("languages", {})
        if not isinstance(languages, str):  # of the command line, not parsed yet
            languages.update({"%%gpudask": "python3"})

    async def _start_jupyter_server_extension(self, _: Any) -> None:
        """Open the kernels' socket; Jupyter calls this once the event loop is running."""
        app = self.serverapp
        assert app is not None
        path = socket_path(Path(app.runtime_dir), os.getpid())
        self._socket = KernelSocket(self.manager, self._monitor, path, app.base_url, on_cell=self._on_cell)
        await self._socket.open()
        self._broadcaster.record()
        self.manager.hand_over.start()

    async def _on_cell(self, cluster: KernelCluster, cell: CellRun) -> None:
        self._prometheus.count_cell(cluster, cell.fallback_blocks)
        notebooks = (await self.manager.kernels.notebooks()).get(cluster.kernel_id, ())
        band = CellBand(**dict(cell), kernel_id=cluster.kernel_id, notebook=next(iter(notebooks), ""))
        self._history.add_cell(band)

    def initialize_handlers(self) -> None:
        """Register the handlers."""
        self.handlers.extend([*HANDLERS, *OPENAPI, *STREAM, *DASHBOARD, *JOINED_DASHBOARD])

    async def stop_extension(self) -> None:
        """Close all clusters."""
        self._prometheus.close()
        self._kernel_events.stop()
        await self._broadcaster.stop()
        self._dashboard_client.close()
        if self._socket is not None:
            await self._socket.close()
        await self.manager.close_all()

    def current_activity(self) -> Any:
        """The number of running clusters: Jupyter does not shut down a server that has any as idle."""
        return sum(cluster.alive for cluster in self.manager.clusters.values()) or None


main = GpuDaskExtension.launch_instance


_WIDGET_VIEW = "application/vnd.jupyter.widget-view+json"


def remove_widget_views(model: dict[str, Any], **_: Any) -> None:
    """Remove the widget views of live outputs that also have HTML; `ContentsManager` calls this to save `model`.

    A front end prefers a widget view to HTML, and shows an error where the widget has no kernel. Outputs without
    content, which lines of progress leave at their end, are removed, too.
    """
    if model.get("type") != "notebook":
        return
    for cell in model["content"].get("cells", ()):
        if "outputs" in cell:
            cell["outputs"] = [each for each in cell["outputs"] if each.get("data") != {}]
        for output in cell.get("outputs", ()):
            if LIVE_OUTPUT in output.get("metadata", {}) and "text/html" in output.get("data", {}):
                output["data"].pop(_WIDGET_VIEW, None)
