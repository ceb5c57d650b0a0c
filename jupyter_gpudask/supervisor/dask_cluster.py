"""The Dask cluster inside the supervisor: made from a spec, scaled, emptied, looked at and closed."""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import dask.config
from distributed.protocol.pickle import dumps

from ..errors import ClusterStartError, GpuUnavailableError, LimitError, ProfileNotFoundError
from ..machine.leases import HeldLease, LeaseFolder
from ..machine.plan import Plan, check_pool_fits, make_plan
from ..protocol import ClusterState, Progress, Ready, Start, TlsCredentials
from ..scheduler.graph_router import GraphRouter
from ..scheduler.import_path import SchedulerPathPlugin
from ..scheduler.log_lengths import shorten_logs
from ..scheduler.retention import SpanRetentionPlugin
from ..scheduler.worker_failures import WorkerFailuresPlugin
from ..worker.exit_report import EXIT_REPORT_PLUGIN, ExitReportPlugin
from ..worker.interruption import INTERRUPTION_PLUGIN, InterruptionPlugin
from ..worker.materialize import MATERIALIZE, MaterializePlugin
from ..worker.patching import PATCH_PLUGIN, PatchPlugin
from ..worker.preload import LOGS_VARIABLE, PATH_PLUGIN, PathPlugin
from ..worker.retention import RETENTION_PLUGIN, MetricsRetentionPlugin
from .dashboard import check_guard, guard_by_header, guard_by_token
from .engines import open_cluster
from .metrics import Status, read_state
from .reset import reset
from .worker_startup import wait_for_workers

if TYPE_CHECKING:
    from collections.abc import Callable

    from distributed import WorkerPlugin

    from ..machine.directories import ClusterDirectory

logger = logging.getLogger(__name__)


class DaskCluster:
    """A Dask cluster in this process, and its workers under it.

    Parameters
    ----------
    order
        What to make.
    directory
        Where its workers keep scratch space and logs.
    """

    def __init__(self, order: Start, directory: ClusterDirectory) -> None:
        self._order = order
        self._directory = directory
        self._plan: Plan
        self._lease: HeldLease | None = None
        self._cluster: Any = None
        self._security: Any = None
        self._failures: WorkerFailuresPlugin

    async def open(self, on_progress: Callable[[Progress], None]) -> Ready:
        """Make it, and wait until all workers are up.

        Raises
        ------
        GpuHeldError, GpuUnavailableError, GpuPackagesMissingError, LimitError
            It cannot be had.
        ClusterStartError
            A worker did not come up.
        """
        spec = self._order.spec
        self._plan = plan = self._choose()
        progress = Progress(engine=plan.engine, gpus=tuple(gpu.uuid for gpu in plan.gpus), ready=0, total=plan.workers)
        on_progress(progress)
        os.environ[LOGS_VARIABLE] = str(self._directory.logs)
        environment = dask.config.get("distributed.nanny.pre-spawn-environ") | spec.environment
        dask.config.set(
            {"distributed.nanny.pre-spawn-environ": environment, "temporary-directory": str(self._directory.path)}
        )
        shorten_logs()
        if spec.protocol == "tcp":
            from distributed import Security

            self._security = Security.temporary()
        token = self._guard_dashboard()
        opening = asyncio.create_task(self._open())
        await asyncio.sleep(0)
        if self._cluster is None:
            await opening  # which raises
        plan = self._plan
        await wait_for_workers(
            self._cluster,
            opening,
            plan.workers,
            limit=spec.start_timeout,
            on_progress=lambda ready: on_progress(progress.model_copy(update={"ready": ready, "total": plan.workers})),
            logs=self._directory.logs,
        )
        scheduler = self._cluster.scheduler
        self._failures = WorkerFailuresPlugin(scheduler)
        scheduler.add_plugin(self._failures)
        scheduler.add_plugin(SpanRetentionPlugin(scheduler))
        await scheduler.register_scheduler_plugin(SchedulerPathPlugin(self._order.path), idempotent=True)
        plugins: dict[str, WorkerPlugin] = {
            PATH_PLUGIN: PathPlugin(self._order.path),
            PATCH_PLUGIN: PatchPlugin(),
            INTERRUPTION_PLUGIN: InterruptionPlugin(),
            RETENTION_PLUGIN: MetricsRetentionPlugin(),
        }
        if plan.engine == "cuda":
            plugins[MATERIALIZE] = MaterializePlugin()
            GraphRouter(scheduler).install()
        for name, plugin in plugins.items():
            await scheduler.register_worker_plugin(comm=None, plugin=dumps(plugin), name=name, idempotent=True)
        await scheduler.register_nanny_plugin(
            comm=None, plugin=dumps(ExitReportPlugin()), name=EXIT_REPORT_PLUGIN, idempotent=True
        )
        http_server = scheduler.http_server
        if http_server is not None:
            await check_guard(http_server.address, http_server.port)
        return Ready(
            engine=plan.engine,
            stand_in=plan.stand_in,
            address=self._cluster.scheduler_address,
            credentials=self._credentials(),
            dashboard_port=http_server.port if http_server is not None and self._has_dashboard else None,
            dashboard_token=token,
            gpus=plan.gpus,
            workers=plan.workers,
            pid=os.getpid(),
        )

    async def state(self, status: Status) -> ClusterState:
        """What its workers do now."""
        return await read_state(self._cluster, self._plan, status, self._failures, gpu_metrics=self._order.gpu_metrics)

    def scale(self, workers: int) -> None:
        """Have `workers` workers from now on; those that are new come later.

        Raises
        ------
        GpuUnavailableError
            The cluster does not hold so many GPUs.
        LimitError
            The administrator allows less.
        """
        self._check_limit(workers)
        held = len(self._plan.gpus)
        if self._plan.gpus and workers > held:
            raise GpuUnavailableError(
                f"{workers} workers need {workers} GPUs, and this cluster holds {held}.",
                f"Give at most {held}, or restart the cluster with more GPUs.",
            )
        self._cluster.scale(workers)

    async def reset(self) -> None:
        """Forget every result, task, actor and name, and keep the workers."""
        await reset(self._cluster.scheduler)

    def rename(self, holder: str) -> None:
        """From now on `holder` holds its GPUs, in the words that others are told, if that can be written."""
        if self._lease is None:
            return
        try:
            with LeaseFolder().locked():
                self._lease.rename(holder)
        except OSError as error:
            logger.warning("Others are not told that %s holds the GPUs now: %s", holder, error)

    async def finished(self) -> None:
        """Wait until a client has shut it down."""
        await self._cluster.scheduler.finished()

    async def close(self, grace: float) -> None:
        """Close it within `grace` seconds; raises if it does not."""
        if self._cluster is not None:
            await asyncio.wait_for(self._cluster.close(timeout=grace), grace)

    def release(self) -> None:
        """Give its GPUs back, now that no process of it is left."""
        lease, self._lease = self._lease, None
        if lease is not None:
            lease.release()

    def _choose(self) -> Plan:
        """Decide on the GPUs, and hold them."""
        order, folder = self._order, LeaseFolder()
        if order.cluster_class is not None:
            is_cuda = order.spec.engine == "cuda"
            why = "" if is_cuda else f"Clusters of the profile {order.spec.profile} have no GPUs."
            return Plan("cuda" if is_cuda else "cpu", workers=0, stand_in=why)
        if order.spec.profile:
            raise ProfileNotFoundError(order.spec.profile, ())
        if order.spec.engine == "cpu":
            plan = make_plan(order.spec)
            self._check_limit(plan.workers)
            return plan
        try:
            with folder.locked() as leases:
                plan = make_plan(order.spec, leases)
                self._check_limit(plan.workers)
                check_pool_fits(plan)
                if plan.gpus:
                    self._lease = self._hold(plan, folder)
        except OSError as error:
            plan = make_plan(order.spec)
            if plan.gpus:  # what others cannot see would not keep them off these GPUs
                raise ClusterStartError(
                    f"No lease of the GPUs can be written in {folder.path}: {error.strerror}.", "Free some space there."
                ) from None
        return plan

    def _hold(self, plan: Plan, folder: LeaseFolder) -> HeldLease:
        order = self._order
        uuids = [gpu.uuid for gpu in plan.gpus]
        return folder.take(uuids, holder=order.holder, kernel_id=order.kernel_id, share=order.spec.share)

    @property
    def _has_dashboard(self) -> bool:
        return self._order.dashboard_secret is not None or self._order.spec.dashboard

    def _guard_dashboard(self) -> str:
        """Close it to all but the Jupyter server, or who has the token that this gives, or to everybody."""
        secret = self._order.dashboard_secret
        if secret is None and self._order.spec.dashboard:
            token = secrets.token_hex(24)
            guard_by_token(token)
            return token
        guard_by_header(secret or secrets.token_hex(24))
        return ""

    def _check_limit(self, workers: int) -> None:
        limit = self._order.max_workers
        if limit is not None and workers > limit:
            raise LimitError(
                f"{workers} workers were asked for, and this server allows {limit}.", "Ask for fewer GPUs or workers."
            )

    async def _open(self) -> None:
        order = self._order
        # Made and awaited in one go: dask-cuda schedules work while it is made that needs what awaiting sets up.
        cluster = open_cluster(
            order.spec,
            self._plan,
            self._security,
            self._directory.path,
            order.cluster_class,
            dashboard=self._has_dashboard,
        )
        if order.cluster_class is not None:
            self._plan = replace(self._plan, workers=len(cluster.plan))
            self._check_limit(self._plan.workers)
        self._cluster = cluster
        await cluster

    def _credentials(self) -> TlsCredentials | None:
        if not self._cluster.scheduler_address.startswith("tls://"):
            return None
        security = self._cluster.security  # ours, unless the class that makes the cluster has others
        return TlsCredentials(
            ca=security.tls_ca_file, certificate=security.tls_client_cert, key=security.tls_client_key
        )
