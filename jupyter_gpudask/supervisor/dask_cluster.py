"""The Dask cluster of a supervisor: choose its GPUs, start it with its plugins, scale, reset and close it.

A worker cannot cut its log itself: compiled code and child processes of tasks write to its log as well, and keep it
open. So a thread here limits the logs.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import os
import platform
import re
import secrets
import shutil
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import dask.config
from dask.utils import parse_bytes
from distributed.core import Status as WorkerStatus

from ..comm.unix import can_listen
from ..device_errors import is_device_error
from ..errors import ClusterLostError, ClusterStartError, GpuDaskError, PresetNotFoundError
from ..machine.directories import LOGS_VARIABLE, ClusterDirectory, older_log, tail, worker_log
from ..machine.leases import LeaseFolder, OwnLease
from ..machine.plan import Plan, make_plan
from ..protocol.engines import engine_with
from ..protocol.messages import Progress, Ready
from ..protocol.state import ClusterState, GpuState, TlsCredentials
from ..protocol.verbs import Start
from ..scheduler.settings import record_less
from .dashboard import check_guard, guard_by_header, guard_by_token, routes_without_proxy
from .engines import create_cluster, import_what_clusters_need, is_job_queue
from .fork_server import ForkServer
from .job_queue import JobQueue
from .scaling import Scaling, check_limit, plan_and_lease
from .supervised import Status, SupervisedCluster, read_devices, read_state, register_plugins, without_gpus

_LOG_LINES = 30
_DEVICES_AGE = 1.0
_DEAD = (WorkerStatus.failed, WorkerStatus.closed, WorkerStatus.closing)


async def wait_for_workers(
    cluster: Any, opening: asyncio.Task[None], total: int, limit: float, on_progress: Callable[[int], None]
) -> None:
    """Wait until `total` workers of `cluster` are up.

    - `opening`: the task that starts it; cancelled if the workers do not start.
    - `limit`: seconds to wait.
    - `on_progress`: called with the number of workers that are up, whenever it changes.

    Raises `ClusterStartError` if a worker died, or the limit was exceeded; with the end of that worker's log.
    """
    try:
        async with asyncio.timeout(limit):
            await _wait(cluster, opening, total, on_progress)
    except TimeoutError:
        ready = len(cluster.scheduler.workers)
        raise ClusterStartError(
            "workers-late", ready=ready, total=total, limit=limit, log=_log_of_missing_worker(cluster)
        ) from None
    except _WorkerDiedError as error:
        log = _log_of_missing_worker(cluster)
        why = _first_error(log) or error.why or "its log names no error"
        raise ClusterStartError(
            "worker-died-of-gpu" if is_device_error(log) else "worker-died", error=why, log=log
        ) from None
    finally:
        opening.cancel()


class _WorkerDiedError(Exception):
    def __init__(self, error: BaseException | None = None) -> None:
        self.why = f"{type(error).__name__}: {error}" if error is not None else ""
        super().__init__(self.why)


async def _wait(cluster: Any, opening: asyncio.Task[None], total: int, on_progress: Callable[[int], None]) -> None:
    known = 0
    while True:
        if opening.done() and (error := opening.exception()):
            if isinstance(error, GpuDaskError):
                raise error
            raise _WorkerDiedError(error)
        ready = len(cluster.scheduler.workers) if cluster.scheduler is not None else 0
        if ready != known:
            known = ready
            on_progress(ready)
        if opening.done() and ready >= total:
            return
        # Only this private list of Dask has the nannies whose workers did not start.
        if any(nanny.status in _DEAD for nanny in list(cluster._created)):  # noqa: SLF001
            raise _WorkerDiedError
        await asyncio.sleep(0.05)


def _first_error(log: str) -> str:
    """The first error in a traceback, which is the cause of the others."""
    match = re.search(r"^[\w.]+(?:Error|Exception|Exit|Interrupt)\b.*$", log, re.MULTILINE)
    return match[0].rstrip(".") if match else ""


def _log_of_missing_worker(cluster: Any) -> str:
    logs = Path(os.environ[LOGS_VARIABLE])
    up = {str(worker.name) for worker in cluster.scheduler.workers.values()} if cluster.scheduler else set()
    for name in cluster.worker_spec:
        if str(name) not in up and (text := tail(worker_log(logs, name), _LOG_LINES)):
            return f"Log of worker {name}:\n{text}"
    return ""


_SETTING = "jupyter-gpudask.log-limit"
_DEFAULT = "64 MiB"
_MINIMUM = 10**6
_INTERVAL = 0.5


def log_limit(environment: Mapping[str, str]) -> int:
    """How many bytes the log of a worker may take, as Dask's configuration has it.

    `environment`: environment variables, which may have that setting, besides those of this process. Raises
    `ClusterStartError` if what is set is not a size.
    """
    value = dask.config.get(_SETTING, _DEFAULT, config=dask.config.collect(env={**os.environ, **environment}))
    try:
        limit = int(parse_bytes(value))
    except (ValueError, AttributeError):
        limit = 0
    if limit < _MINIMUM:
        raise ClusterStartError("log-limit", setting=_SETTING, value=repr(value))
    return limit


def limit_logs(logs: Path, limit: int) -> None:
    """Keep the log of each worker in the directory `logs` below `limit` bytes, in a thread."""
    threading.Thread(target=_keep_below, args=(logs, limit), name="gpudask-log-limit", daemon=True).start()


def _keep_below(logs: Path, limit: int) -> None:
    while True:
        time.sleep(_INTERVAL)
        for log in logs.glob("*.log"):
            with suppress(OSError):
                cut(log, limit // 2)


def cut(log: Path, size: int) -> None:
    """Empty a log that is longer than `size` bytes, and keep that many of its last bytes in `older_log`.

    Its writers, which append, go on at its beginning. What they write between the copy and the cut is lost.
    """
    excess = log.stat().st_size - size
    if excess <= 0:
        return
    with suppress(OSError), log.open("rb") as source, older_log(log).open("wb") as copy:  # the disk may be full
        source.seek(excess)
        shutil.copyfileobj(source, copy)
    os.truncate(log, 0)


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
        self._devices: Mapping[str, GpuState] = {}
        self._devices_until = 0.0

    async def open(self, on_progress: Callable[[Progress], None]) -> Ready:
        """Start the cluster, and wait until all workers are up.

        Raises `GpuReservedError`, `GpuUnavailableError`, `GpuPackagesMissingError` or `LimitError` if a cluster with
        these options is not possible. Raises `ClusterStartError` if a worker did not start.
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
        record_less()
        uses_sockets = spec.protocol == "unix" and self._request.cluster_class is None
        if uses_sockets and can_listen(self._directory.sockets):  # some file systems have none
            self._sockets = self._directory.sockets
        elif spec.protocol != "ucx":
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

        def on_ready(ready: int, notes: tuple[str, ...] = ()) -> None:
            on_progress(progress.model_copy(update={"ready": ready, "total": self._plan.workers, "notes": notes}))

        if self._jobs is None:
            await wait_for_workers(self._cluster, opening, self._plan.workers, spec.start_timeout, on_ready)
        else:
            on_ready(0)
            await self._jobs.wait_for_first_worker(opening, limit=spec.start_timeout, on_progress=on_ready)
        plan = self._plan
        self._scaling = Scaling(self._cluster, plan, self._request.max_workers, self._jobs)
        scheduler = self._cluster.scheduler
        await self.on_scheduler(register_plugins, self._request.path, plan.engine, self._request.spec.threads)
        if spec.adapt is not None:
            await self.adapt(*spec.adapt)
        http_server = scheduler.http_server
        if http_server is not None:
            await check_guard(http_server.address, http_server.port)
        return Ready(
            engine=plan.engine,
            cpu_reason=plan.cpu_reason,
            address=self._cluster.scheduler_address,
            credentials=self._credentials(),
            dashboard_port=http_server.port if http_server is not None and self._has_dashboard else None,
            dashboard_token=token,
            gpus=plan.gpus,
            workers=plan.workers,
            pid=os.getpid(),
            scheduler_id=scheduler.id,
        )

    async def state(self, status: Status) -> ClusterState:
        """The current state of the cluster."""
        state = await read_state(
            self._cluster,
            self._plan,
            status,
            start_timeout=self._request.spec.start_timeout,
            devices=await self._read_devices(),
        )
        jobs = () if self._jobs is None else self._jobs.states()
        wanted = state.workers_wanted - self._scaling.leaving
        return state.model_copy(
            update={"jobs": jobs, "adaptive_range": self._scaling.range, "workers_wanted": max(0, wanted)}
        )

    async def _read_devices(self) -> Mapping[str, GpuState] | None:
        """The metrics of the GPUs in the last second, if they are wanted: each cell asks at its end, and waits."""
        if not (self._plan.has_gpus and self._request.gpu_metrics):
            return None
        if time.monotonic() > self._devices_until:
            self._devices = await asyncio.to_thread(read_devices, self._plan)
            self._devices_until = time.monotonic() + _DEVICES_AGE
        return self._devices

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
        """Change the name under which the GPUs are reserved; a warning is logged if the lease cannot be written."""
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
        request = self._request
        if request.cluster_class is not None:
            return Plan(request.spec.class_engine, workers=0, cpu_reason=without_gpus(request.spec)), None
        if request.spec.preset:
            raise PresetNotFoundError("no-presets", name=repr(request.spec.preset))
        if not request.spec.may_use_gpus:
            plan = make_plan(request.spec)
            check_limit(plan.workers, request.max_workers)
            return plan, None
        engine = engine_with(gpus=True)
        return await plan_and_lease(
            request,
            lambda note, place: on_progress(Progress(engine=engine, ready=0, total=0, notes=(note,), place=place)),
        )

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
