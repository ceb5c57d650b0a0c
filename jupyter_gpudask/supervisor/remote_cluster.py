"""A Dask cluster whose scheduler runs elsewhere, such as one of dask-gateway: start, use, scale and stop it."""

from __future__ import annotations

import asyncio
import inspect
import os
import secrets
from contextlib import suppress
from importlib.metadata import version
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from distributed.deploy.adaptive import Adaptive

from .. import _version
from ..errors import ClusterLostError, ClusterStartError, GpuDaskError
from ..machine.plan import Plan
from ..protocol import ClusterClass, ClusterState, Progress, Ready, Start
from ..protocol.engines import has_gpus
from ..protocol.messages import REMOTE_DASHBOARD, gateway_dashboard
from ..protocol.state import describe_jobs
from .engines import GATEWAY_CLUSTER, first_line, import_class, parameters_of
from .kubernetes import KUBE_CLUSTER, Pods, kube_options
from .scaling import check_limit
from .supervised import Status, SupervisedCluster, read_state, register_plugins

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..protocol import JobState
    from ..protocol.engines import Engine

_RESPONSE_TIMEOUT = 10.0
_WATCH_INTERVAL = 2.0
_WATCH_FAILURES = 3
_PODS_INTERVAL = 0.5


class RemoteCluster(SupervisedCluster):
    """A cluster of a class whose scheduler runs elsewhere; the scheduler is reached by a Dask client."""

    def __init__(self, request: Start, cluster_class: ClusterClass) -> None:
        self._request, self._class = request, cluster_class
        self._adaptive: Any = None
        self._client: Any = None
        self._wanted = request.spec.workers or cluster_class.options.get("n_workers", 1)
        self._engine = request.spec.class_engine
        self._range: tuple[int, int] | None = None
        self._pods: Pods | None = None
        self._missing: tuple[JobState, ...] = ()

    async def open(self, on_progress: Callable[[Progress], None]) -> Ready:
        """Start the cluster, and wait until one worker is up; the others may come later.

        Raises `ClusterStartError` if the cluster was refused, no worker was up in time, or its scheduler cannot run
        this package. Raises `LimitError` if the administrator allows fewer workers.
        """
        adaptive = self._request.spec.adapt
        check_limit(max((self._wanted, *(adaptive or ()))), self._request.max_workers)
        progress = Progress(engine=self._engine, ready=0, total=self._wanted)
        on_progress(progress)
        limit = self._request.spec.start_timeout
        watching: asyncio.Task[None] | None = None
        has_scheduler = False
        try:
            async with asyncio.timeout(limit):
                watching = asyncio.create_task(self._report_pods(on_progress, progress))
                await self._start()
                await self._connect()
                has_scheduler = True
                await _await_if_needed(self._cluster.scale(self._wanted))
                while not (ready := len(await self.on_scheduler(worker_addresses))):
                    await asyncio.sleep(0.1)
        except TimeoutError:
            pods = "; ".join(state.description for state in self._missing)
            raise ClusterStartError(
                "no-worker", limit=limit, waiting=pods or self._what_is_missing(has_scheduler=has_scheduler)
            ) from None
        finally:
            if watching is not None:
                watching.cancel()
        on_progress(progress.model_copy(update={"ready": ready}))
        await self.on_scheduler(register_plugins, self._request.path, self._engine, self._request.spec.threads)
        if adaptive is not None:
            await self.adapt(*adaptive)
        return Ready(
            engine=self._engine,
            stand_in="" if has_gpus(self._engine) else f"Clusters of the profile {self._profile} have no GPUs.",
            address=self._cluster.scheduler_address,
            credentials=self._credentials(),
            dashboard_port=None,
            gpus=(),
            workers=self._wanted,
            pid=os.getpid(),
            limits={"dashboard": self._why_no_dashboard()},
        )

    def _what_is_missing(self, *, has_scheduler: bool) -> str:
        """What a start waits for, with the address of the Gateway, if one starts the cluster."""
        gateway = getattr(self._cluster, "gateway", None)
        origin = self._class.path if gateway is None else f"{self._class.path} at {gateway.address}"
        if has_scheduler:
            return f"none has reached the scheduler that {origin} has started"
        return f"{origin} has not started a scheduler that responds"

    def _why_no_dashboard(self) -> str:
        if self._class.path == GATEWAY_CLUSTER:
            return gateway_dashboard(self._cluster.dashboard_link)
        return REMOTE_DASHBOARD

    async def _report_pods(self, on_progress: Callable[[Progress], None], progress: Progress) -> None:
        """Report which pods a start waits for, whenever that changes."""
        known: tuple[str, ...] = ()
        while True:
            await self._read_pods()
            notes = describe_jobs(self._missing)
            if notes != known:
                known = notes
                on_progress(progress.model_copy(update={"notes": notes}))
            await asyncio.sleep(_PODS_INTERVAL)

    async def _read_pods(self) -> None:
        if self._class.path == KUBE_CLUSTER and self._cluster is not None:
            self._pods = self._pods or Pods(self._cluster)
            self._missing = await self._pods.states()

    async def _start(self) -> None:
        class_ = import_class(self._class)
        try:
            self._cluster = class_(**self._options(class_), asynchronous=True)
            await self._cluster
        except GpuDaskError:
            raise
        except Exception as error:  # noqa: BLE001 - the class can raise anything
            raise ClusterStartError("class-failed", class_=self._class.path, error=first_line(error)) from None

    def _options(self, class_: Any) -> dict[str, Any]:
        """The arguments of the class."""
        options = {name: value for name, value in self._class.options.items() if name != "n_workers"}
        if self._class.path != KUBE_CLUSTER:
            return options | ({"n_workers": self._wanted} if "n_workers" in parameters_of(class_) else {})
        name = f"jupyter-gpudask-{secrets.token_hex(5)}"
        return kube_options(options, name, self._wanted, gpu=has_gpus(self._engine))

    async def _connect(self) -> None:
        from distributed import Client

        address = self._cluster.scheduler_address
        try:
            self._client = await Client(address, security=self._security, asynchronous=True, set_as_default=False)
        except OSError as error:
            raise ClusterStartError(
                "scheduler-unreachable", class_=self._class.path, address=address, error=str(error).rstrip(".")
            ) from None
        here = versions()
        try:
            there = await self.on_scheduler(versions)
        except (ImportError, AttributeError) as error:
            raise ClusterStartError(
                "scheduler-without-package", class_=self._class.path, error=error, version=here["jupyter_gpudask"]
            ) from None
        for name, own in here.items():
            if there[name] != own:
                raise ClusterStartError(
                    "scheduler-version", name=name, here=own, class_=self._class.path, there=there[name]
                )

    async def state(self, status: Status) -> ClusterState:
        """The current state of the cluster."""
        state: ClusterState = await self.on_scheduler(
            state_of, self._engine, status, self._wanted, self._request.spec.start_timeout
        )
        await self._read_pods()
        return state.model_copy(update={"adaptive_range": self._range, "jobs": self._missing})

    async def scale(self, workers: int) -> None:
        """Scale to `workers` workers, which ends `adapt`; new ones start later."""
        check_limit(workers, self._request.max_workers)
        self._stop_adapting()
        await self._ask(_await_if_needed(self._cluster.scale(workers)))
        self._wanted, self._range = workers, None

    async def adapt(self, minimum: int, maximum: int) -> None:
        """Let the number of workers follow the work, within a range."""
        check_limit(maximum, self._request.max_workers)
        self._stop_adapting()
        self._adaptive = await self._ask(_await_if_needed(self._cluster.adapt(minimum=minimum, maximum=maximum)))
        self._wanted, self._range = minimum, (minimum, maximum)

    def _stop_adapting(self) -> None:
        """End the adaptation of Dask's base class, which runs in this process; other classes end theirs themselves."""
        if isinstance(self._adaptive, Adaptive):
            self._adaptive.stop()

    async def worker_log(self, worker: str, lines: int) -> str:
        """The last lines of the log that a worker keeps in memory; empty if there is no such worker."""
        address = (await self.on_scheduler(worker_addresses)).get(worker)
        if address is None:
            return ""
        logs = await self._ask(self._client.get_worker_logs(n=lines, workers=[address]))
        return "\n".join(text for _, text in reversed(logs[address]))

    async def wait_for_end(self) -> None:
        """Wait until the scheduler has ended or does not respond, and raise `ClusterLostError`."""
        failures = 0
        while failures < _WATCH_FAILURES:
            await asyncio.sleep(_WATCH_INTERVAL)
            try:
                await self.on_scheduler(worker_addresses)
            except ClusterLostError:
                failures += 1
            else:
                failures = 0
        raise self._lost()

    async def close(self, grace: float) -> None:
        """Stop the cluster; raises if that takes longer than `grace` seconds."""
        async with asyncio.timeout(grace):
            if self._client is not None:
                with suppress(OSError, TimeoutError):
                    await self._client.close(timeout=grace / 2)
            if self._cluster is not None:
                await _await_if_needed(self._cluster.close())

    @property
    def _profile(self) -> str:
        return self._request.spec.profile

    @property
    def _security(self) -> Any:
        return getattr(self._cluster, "security", None)  # clusters of Kubernetes have none

    async def on_scheduler(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Call a function in the process of the scheduler, which it gets as ``dask_scheduler``."""
        return await self._ask(self._client.run_on_scheduler(function, *arguments))

    async def _ask(self, question: Any) -> Any:
        try:
            async with asyncio.timeout(_RESPONSE_TIMEOUT):
                return await question
        except (OSError, TimeoutError):
            raise self._lost() from None

    def _lost(self) -> ClusterLostError:
        return ClusterLostError("class-silent", class_=self._class.path)


async def _await_if_needed(result: Any) -> Any:
    """The result of a method that is asynchronous in some classes only."""
    return await result if inspect.isawaitable(result) else result


# What follows runs in the process of the scheduler.


def versions() -> dict[str, str]:
    """The versions that must be the same as here."""
    return {"dask": version("dask"), "jupyter_gpudask": _version.__version__}


def worker_addresses(dask_scheduler: Any) -> dict[str, str]:
    """The addresses of the workers, by name."""
    return {str(worker.name): address for address, worker in dask_scheduler.workers.items()}


async def state_of(
    engine: Engine, status: Status, wanted: int, start_timeout: float, dask_scheduler: Any
) -> ClusterState:
    """The state of the cluster."""
    cluster = SimpleNamespace(scheduler=dask_scheduler, workers={}, plan=range(wanted))
    plan = Plan(engine, workers=wanted)
    return await read_state(cluster, plan, status, start_timeout=start_timeout, gpu_metrics=False)
