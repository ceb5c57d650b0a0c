"""The Dask cluster of a supervisor: choose its GPUs, start it with its plugins, scale, reset and close it."""

from __future__ import annotations

import asyncio
import inspect
import logging
import os
import platform
import secrets
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dask.config

from ..comm.unix import can_listen
from ..errors import ClusterLostError, ClusterStartError, ProfileNotFoundError
from ..machine.directories import LOGS_VARIABLE, ClusterDirectory, tail, worker_log
from ..machine.leases import LeaseFolder, OwnLease
from ..machine.plan import Plan, make_plan
from ..protocol import ClusterState, Progress, Ready, Start
from ..scheduler.settings import shorten_logs
from .configured import is_job_queue
from .dashboard import check_guard, guard_by_header, guard_by_token, routes_without_proxy
from .engines import create_cluster, import_what_clusters_need
from .job_queue import JobQueue
from .scaling import Scaling, check_limit, plan_and_lease
from .supervised import Status, SupervisedCluster, read_state, register_plugins
from .workers import limit_logs, log_limit, wait_for_workers

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..protocol import TlsCredentials
    from .fork_server import ForkServer

logger = logging.getLogger(__name__)


class DaskCluster(SupervisedCluster):
    """A Dask cluster whose scheduler and nannies run in this process."""

    def __init__(self, request: Start, directory: ClusterDirectory, fork_server: ForkServer | None = None) -> None:
        self._request = request
        self._directory = directory
        self._fork_server = fork_server
        self._plan: Plan
        self._lease: OwnLease | None = None
        self._security: Any = None
        self._sockets: Path | None = None
        self._scaling: Scaling
        self._jobs: JobQueue | None = None
        self._shared: ClusterDirectory | None = None

    async def open(self, on_progress: Callable[[Progress], None]) -> Ready:
        """Start the cluster, and wait until all workers are up.

        Raises `GpuHeldError`, `GpuUnavailableError`, `GpuPackagesMissingError` or `LimitError` if a cluster with these
        options is not possible. Raises `ClusterStartError` if a worker did not start.
        """
        spec = self._request.spec
        plan, self._lease = await self._plan_and_lease(on_progress)
        self._plan = plan
        progress = Progress(engine=plan.engine, gpus=tuple(gpu.uuid for gpu in plan.gpus), ready=0, total=plan.workers)
        on_progress(progress)
        os.environ[LOGS_VARIABLE] = str(self._directory.logs)
        limit_logs(self._directory.logs, log_limit(spec.environment))
        os.environ.update(spec.environment)  # Dask prefers these to those of its configuration
        environment = dask.config.get("distributed.nanny.pre-spawn-environ") | spec.environment
        dask.config.set(
            {
                "distributed.nanny.pre-spawn-environ": environment,
                "distributed.scheduler.http.routes": routes_without_proxy(),
                "temporary-directory": str(self._directory.path),
            }
        )
        shorten_logs()
        self._sockets = self._directory_of_sockets()
        if spec.protocol != "ucx" and self._sockets is None:
            from distributed import Security

            self._security = Security.temporary()
        token = self._protect_dashboard()
        if self._fork_server is not None:
            checking = asyncio.create_task(self._fork_server.check(plan.engine, spec.start_timeout / 2))
            await asyncio.sleep(0)  # a thread waits for the fork server
            import_what_clusters_need(dashboard=self._has_dashboard)
            await checking
        opening = asyncio.create_task(self._open())
        await asyncio.sleep(0)
        if self._cluster is None:
            await opening  # it has failed, and raises the error
        plan = self._plan

        def on_ready(ready: int, notes: tuple[str, ...] = ()) -> None:
            on_progress(progress.model_copy(update={"ready": ready, "total": plan.workers, "notes": notes}))

        if self._jobs is None:
            await wait_for_workers(
                self._cluster,
                opening,
                plan.workers,
                limit=spec.start_timeout,
                on_progress=on_ready,
                logs=self._directory.logs,
            )
        else:
            on_ready(0)
            await self._jobs.wait_for_first_worker(opening, limit=spec.start_timeout, on_progress=on_ready)
        self._scaling = Scaling(self._cluster, plan, self._request.max_workers, self._jobs)
        scheduler = self._cluster.scheduler
        await self.on_scheduler(register_plugins, self._request.path, plan.engine)
        if spec.adapt is not None:
            await self.adapt(*spec.adapt)
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
        """The current state of the cluster."""
        state = await read_state(
            self._cluster,
            self._plan,
            status,
            start_timeout=self._request.spec.start_timeout,
            gpu_metrics=self._request.gpu_metrics,
        )
        jobs = () if self._jobs is None else self._jobs.states()
        wanted = state.workers_wanted - self._scaling.leaving
        return state.model_copy(
            update={"jobs": jobs, "adaptive_range": self._scaling.range, "workers_wanted": max(0, wanted)}
        )

    async def scale(self, workers: int) -> None:
        """Scale to `workers` workers; see `Scaling.scale`."""
        await self._scaling.scale(workers)

    async def adapt(self, minimum: int, maximum: int) -> None:
        """Scale as the work requires; see `Scaling.adapt`."""
        await self._scaling.adapt(minimum, maximum)

    async def worker_log(self, worker: str, lines: int) -> str:
        """The last lines of the log of a worker, or of a job by its id."""
        if self._jobs is not None:
            return self._jobs.log(worker, lines)
        name = worker
        if not worker_log(self._directory.logs, name).exists():  # one log for all workers of a host
            name = worker.rpartition("-")[0]
        return tail(worker_log(self._directory.logs, name), lines)

    async def on_scheduler(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Call a function with the scheduler, which runs in this process."""
        result = function(*arguments, dask_scheduler=self._cluster.scheduler)
        return await result if inspect.isawaitable(result) else result

    def rename(self, holder: str) -> None:
        """Change the name under which the GPUs are held; a warning is logged if the lease cannot be written."""
        if self._lease is None:
            return
        try:
            with LeaseFolder().lock():
                self._lease.rename(holder)
        except OSError as error:
            logger.warning("The lease on the GPUs cannot be renamed to %s: %s", holder, error)

    async def wait_for_end(self) -> None:
        """Wait for the end of the scheduler or of all jobs.

        Always raises `ClusterLostError`, with the reason.
        """
        waits = [self._cluster.scheduler.finished(), *([] if self._jobs is None else [self._jobs.watch()])]
        tasks = [asyncio.ensure_future(each) for each in waits]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            self._scaling.close()
            for task in tasks:
                task.cancel()
        raise ClusterLostError("shut-down")

    async def wait_for_clients(self, limit: float) -> None:
        """Wait at most `limit` seconds until the clients have left.

        A kernel that reads why the cluster ends disconnects its client, and its cell shows that reason. If the
        scheduler closes the connection first, the cell shows only that it was lost.
        """
        with suppress(TimeoutError):
            async with asyncio.timeout(limit):
                while self._cluster.scheduler.client_comms:
                    await asyncio.sleep(0.05)

    async def close(self, grace: float) -> None:
        """Close the cluster; raises if that takes longer than `grace` seconds."""
        if hasattr(self, "_scaling"):  # it has started
            self._scaling.close()
        try:
            if self._cluster is not None:
                async with asyncio.timeout(grace):
                    if self._jobs is not None:
                        await self._jobs.cancel()
                    await self._cluster.close(timeout=grace)
        finally:
            if self._fork_server is not None:
                self._fork_server.close()

    async def abandon(self, grace: float) -> None:
        """Leave the processes of this machine to be killed, which is faster, and close a cluster of a class.

        That may run elsewhere; raises if closing it takes longer than `grace` seconds.
        """
        if self._request.cluster_class is not None:
            await self.close(grace)

    def end(self, reason: str) -> None:
        """Cancel the jobs that are left, and release the lease on its GPUs, after all its processes have ended."""
        if self._jobs is not None:
            self._jobs.cancel_blocking()
        shared, self._shared = self._shared, None
        if shared is not None:
            shared.remove()
        lease, self._lease = self._lease, None
        if lease is not None:
            lease.release(reason)

    async def _plan_and_lease(self, on_progress: Callable[[Progress], None]) -> tuple[Plan, OwnLease | None]:
        """Plan the cluster, and take the lease on its GPUs."""
        request = self._request
        if request.cluster_class is not None:
            is_cuda = request.spec.engine == "cuda"
            why = "" if is_cuda else f"Clusters of the profile {request.spec.profile} have no GPUs."
            return Plan("cuda" if is_cuda else "cpu", workers=0, stand_in=why), None
        if request.spec.profile:
            raise ProfileNotFoundError("no-profiles", name=repr(request.spec.profile))
        if request.spec.engine == "cpu":
            plan = make_plan(request.spec)
            check_limit(plan.workers, request.max_workers)
            return plan, None
        return await plan_and_lease(
            request, lambda note: on_progress(Progress(engine="cuda", ready=0, total=0, notes=(note,)))
        )

    def _directory_of_sockets(self) -> Path | None:
        """The directory of Unix sockets; `None` if the cluster does not use them, or the file system has none."""
        if self._request.spec.protocol != "unix" or self._request.cluster_class is not None:
            return None
        return self._directory.sockets if can_listen(self._directory.sockets) else None

    @property
    def _has_dashboard(self) -> bool:
        return self._request.dashboard_secret is not None or self._request.spec.dashboard

    def _protect_dashboard(self) -> str:
        """Restrict Dask's dashboard to the Jupyter server or to browsers with a token, or disable it; the token."""
        secret = self._request.dashboard_secret
        if secret is None and self._request.spec.dashboard:
            token = secrets.token_hex(24)
            guard_by_token(token)
            return token
        guard_by_header(secret or secrets.token_hex(24))
        return ""

    def _share_directory(self, place: str) -> Path:
        """Create the directory that jobs on other machines read, by default in the home directory; its path."""
        folder = Path(os.path.expandvars(place)) if place else Path("~/.cache/jupyter_gpudask")
        try:
            folder = folder.expanduser()
            folder.mkdir(parents=True, exist_ok=True)
            self._shared = ClusterDirectory(folder, platform.node())
        except (OSError, RuntimeError) as error:
            raise ClusterStartError("shared-directory", folder=folder, error=error) from None
        return self._shared.path

    async def _open(self) -> None:
        request = self._request
        # Created and awaited without a pause: work that dask-cuda schedules on creation needs what awaiting sets up.
        cluster = create_cluster(
            request.spec,
            self._plan,
            self._security,
            self._directory.path,
            request.cluster_class,
            sockets=self._sockets,
            shared_directory=self._share_directory,
            logs=self._directory.logs,
            dashboard=self._has_dashboard,
        )
        if request.cluster_class is not None:
            self._plan = replace(self._plan, workers=len(cluster.plan))
            check_limit(self._plan.workers, request.max_workers)
        if is_job_queue(type(cluster)):
            self._jobs = JobQueue(cluster)
        self._cluster = cluster
        if self._fork_server is not None:
            self._fork_server.use()
        await cluster

    def _credentials(self) -> TlsCredentials | None:
        return super()._credentials() if self._cluster.scheduler_address.startswith("tls://") else None
