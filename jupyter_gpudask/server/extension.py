"""The server extension: settings and wiring, no work."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, cast

from jupyter_server.extension.application import ExtensionApp
from traitlets import Bool, Dict, Enum, Float, Int, TraitError, Unicode

from ..errors import GpuDaskError
from ..protocol.unix_socket import socket_path
from .api.dashboard_proxy import DASHBOARD
from .api.handlers import HANDLERS, NOTHING
from .api.openapi import describe_api
from .api.stream import STREAM
from .clusters.kernel_events import KernelFollower
from .clusters.kernels import ServerKernels
from .clusters.manager import ClusterManager
from .clusters.policy import Policy, RestartPolicy
from .kernel_socket import KernelSocket
from .metrics.broadcaster import Watch
from .pre_save_hook import leave_out_widgets


class GpuDask(ExtensionApp):
    """Dask on the GPUs of this machine: one cluster for each kernel that asks for one."""

    name = "jupyter_gpudask"
    load_other_extensions = True

    default_spec = Dict(
        help="""The options of a cluster for which nothing else is said, such as {'gpus': 1, 'pool': 0.5}, or
        {'profile': 'small'} for those of a profile."""
    ).tag(config=True)
    profiles = Dict(
        value_trait=Dict(),
        key_trait=Unicode(),
        help="""Options of clusters by a name that users can choose, such as
        {'small': {'title': 'One GPU', 'gpus': 1}}; or a class of Dask clusters and its options, such as
        {'queue': {'class': 'dask_jobqueue.SLURMCluster', 'options': {'n_workers': 4}, 'engine': 'cuda'}}, where engine
        says whether its workers have GPUs. Users choose a name; nobody but the administrator names a class.""",
    ).tag(config=True)
    idle_timeout = Float(
        0.0,
        min=0.0,
        help="Seconds after which a cluster without work, of a kernel that is not busy, is closed; 0 for never.",
    ).tag(config=True)
    restart_policy = Enum(
        ("keep", "renew", "stop"),
        "keep",
        help="""What becomes of the cluster of a kernel that is restarted: 'keep' empties it and keeps its workers,
        'renew' starts another, 'stop' closes it.""",
    ).tag(config=True)
    share_gpus = Bool(
        default_value=False,
        help="Whether clusters that do not say otherwise let others hold the same GPUs.",
    ).tag(config=True)
    allow_ucx = Bool(
        default_value=True,
        help="Whether clusters may talk by UCX, which lets in every user of this machine who finds a port.",
    ).tag(config=True)
    standby = Bool(
        default_value=False,
        help="""Whether a supervisor waits for the next cluster, with its imports done; it takes no GPU.
        It is for kernels with the interpreter and the variables of the kernel that was started last.""",
    ).tag(config=True)
    max_clusters = Int(None, allow_none=True, min=0, help="How many clusters there may be at a time.").tag(config=True)
    max_workers = Int(None, allow_none=True, min=1, help="How many workers a cluster may have.").tag(config=True)
    history_seconds = Int(900, min=0, help="How many seconds of metrics are kept for browsers that come later.").tag(
        config=True
    )

    manager: ClusterManager
    _socket: KernelSocket | None = None

    def initialize_settings(self) -> None:
        """Make the manager, have it follow the server's kernels, and have widgets left out of saved notebooks."""
        app = self.serverapp
        assert app is not None
        self.manager = ClusterManager(ServerKernels(app.kernel_manager, app.session_manager), self._policy())
        self._follower = KernelFollower(self.manager, app.kernel_manager, app.event_logger)
        self._watch = Watch(self.manager, self.history_seconds)
        self.settings["gpudask_watch"] = self._watch
        self.settings["gpudask_manager"] = self.manager
        self.settings["gpudask_api"] = describe_api(app.base_url)
        app.contents_manager.register_pre_save_hook(leave_out_widgets)

    async def _start_jupyter_server_extension(self, _: Any) -> None:
        """Listen for kernels; called when the server's loop runs."""
        app = self.serverapp
        assert app is not None
        self._socket = KernelSocket(self.manager, self._watch, socket_path(Path(app.runtime_dir), os.getpid()))
        await self._socket.open()

    def initialize_handlers(self) -> None:
        """Say which requests are answered."""
        self.handlers.extend([*HANDLERS, *STREAM, *NOTHING, *DASHBOARD])

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

    def _policy(self) -> Policy:
        policy = Policy(
            default_spec=self.default_spec,
            profiles=self.profiles,
            idle_timeout=self.idle_timeout,
            restart=cast("RestartPolicy", self.restart_policy),
            share=self.share_gpus,
            ucx=self.allow_ucx,
            standby=self.standby,
            max_clusters=self.max_clusters,
            max_workers=self.max_workers,
        )
        try:
            policy.spec({})
            policy.listed_profiles()
        except GpuDaskError as error:
            raise TraitError(f"The configuration of GpuDask cannot be used: {error}") from None
        return policy


main = GpuDask.launch_instance
