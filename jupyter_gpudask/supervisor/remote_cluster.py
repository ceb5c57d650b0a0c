"""A Dask cluster whose scheduler runs elsewhere, such as one of dask-gateway: start, use, scale and stop it."""

from __future__ import annotations

import asyncio
import inspect
import logging
import os
import secrets
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from importlib.metadata import version
from types import SimpleNamespace
from typing import Any

from distributed.deploy.adaptive import Adaptive

from .. import _version
from ..errors import ClusterLostError, ClusterStartError, GpuDaskError, SpecError
from ..machine.plan import Plan
from ..protocol.engines import Engine, has_gpus
from ..protocol.messages import REMOTE_DASHBOARD, Progress, Ready, gateway_dashboard
from ..protocol.spec import ClusterClass
from ..protocol.state import ClusterState, JobState, describe_jobs
from ..protocol.verbs import Start
from ..scheduler.workers import worker_addresses
from .engines import GATEWAY_CLUSTER, first_line, import_class, parameters_of
from .scaling import check_limit
from .supervised import Status, SupervisedCluster, read_state, register_plugins, without_gpus

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
            cpu_reason=without_gpus(self._request.spec),
            address=self._cluster.scheduler_address,
            credentials=self._credentials(),
            dashboard_port=None,
            gpus=(),
            workers=self._wanted,
            pid=os.getpid(),
            limits={
                "dashboard": gateway_dashboard(self._cluster.dashboard_link)
                if self._class.path == GATEWAY_CLUSTER
                else REMOTE_DASHBOARD
            },
        )

    def _what_is_missing(self, *, has_scheduler: bool) -> str:
        """What a start waits for, with the address of the Gateway, if one starts the cluster."""
        gateway = getattr(self._cluster, "gateway", None)
        origin = self._class.path if gateway is None else f"{self._class.path} at {gateway.address}"
        if has_scheduler:
            return f"none has reached the scheduler that {origin} has started"
        return f"{origin} has not started a scheduler that responds"

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
        options = {name: value for name, value in self._class.options.items() if name != "n_workers"}
        if self._class.path != KUBE_CLUSTER:
            return options | ({"n_workers": self._wanted} if "n_workers" in parameters_of(class_) else {})
        name = f"jupyter-gpudask-{secrets.token_hex(5)}"
        return kube_options(options, name, self._wanted, gpu=has_gpus(self._engine))

    async def _connect(self) -> None:
        from distributed import Client

        address, security = self._cluster.scheduler_address, getattr(self._cluster, "security", None)
        try:
            self._client = await Client(address, security=security, asynchronous=True, set_as_default=False)
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
    return await result if inspect.isawaitable(result) else result


# What follows runs in the process of the scheduler.


def versions() -> dict[str, str]:
    """The versions that must be the same as here."""
    return {"dask": version("dask"), "jupyter_gpudask": _version.__version__}


async def state_of(
    engine: Engine, status: Status, wanted: int, start_timeout: float, dask_scheduler: Any
) -> ClusterState:
    """The state of the cluster."""
    cluster = SimpleNamespace(scheduler=dask_scheduler, workers={}, plan=range(wanted))
    plan = Plan(engine, workers=wanted)
    return await read_state(cluster, plan, status, start_timeout=start_timeout)


logger = logging.getLogger(__name__)


KUBE_CLUSTER = "dask_kubernetes.operator.KubeCluster"

_GPU = "nvidia.com/gpu"
_DESCRIBED = frozenset({"image", "resources", "env", "worker_command", "scheduler_service_type", "idle_timeout"})
"""The options of the class that `cluster_resource` puts into the resource."""


def kube_options(options: Mapping[str, Any], name: str, workers: int, *, gpu: bool) -> dict[str, Any]:
    """The arguments of ``KubeCluster``.

    - `options`: the administrator's options, which are those of the class.
    - `name`: the name of the cluster, unless the options have one.
    - `gpu`: whether each worker has a GPU.

    Raises `SpecError` if an option is missing, or has an invalid value.
    """
    given = {key: value for key, value in options.items() if key not in _DESCRIBED and key != "n_workers"}
    if "custom_cluster_spec" not in given:
        described = {key: options[key] for key in _DESCRIBED & options.keys()}
        given["custom_cluster_spec"] = cluster_resource(given.pop("name", name), workers, gpu=gpu, **described)
    return {"create_mode": "CREATE_ONLY", **given, "shutdown_on_close": True, "quiet": True}


def cluster_resource(
    name: str,
    workers: int,
    *,
    gpu: bool,
    image: str = "",
    resources: Mapping[str, Any] | None = None,
    worker_command: str | list[str] | None = None,
    **others: Any,
) -> dict[str, Any]:
    """The ``DaskCluster`` of the operator.

    It is made by dask-kubernetes, except that the scheduler gets no GPU, and is started by ``dask scheduler``.

    - `gpu`: whether each worker has a GPU: one, unless the limits say otherwise.
    - `image`: the image of the scheduler and the workers, with jupyter_gpudask.
    - `resources`: limits and requests of the worker's container; those of the scheduler are the same without GPUs.
    - `worker_command`: the command of a worker, by default ``python -m jupyter_gpudask worker``.
    - `others`: ``env``, ``idle_timeout`` and ``scheduler_service_type``, as ``KubeCluster`` takes them.

    Raises `SpecError` if there is no image, or more than one GPU for each worker.
    """
    from dask_kubernetes.operator import make_cluster_spec

    if not image:
        raise SpecError("no-image")
    limits = dict((resources or {}).get("limits", {}))
    if gpu and str(limits.setdefault(_GPU, "1")) != "1":
        raise SpecError("gpus-of-pod", count=limits[_GPU])
    container = {**(resources or {}), "limits": limits}
    own = ["python", "-m", "jupyter_gpudask", "worker", "$(DASK_SCHEDULER_ADDRESS)", *([] if gpu else ["--cpu"])]
    resource: dict[str, Any] = make_cluster_spec(
        name, image=image, n_workers=workers, resources=container, worker_command=worker_command or own, **others
    )
    (scheduler,) = resource["spec"]["scheduler"]["spec"]["containers"]
    scheduler["args"] = ["dask", "scheduler", *scheduler["args"][1:]]  # there is no program dask-scheduler any more
    scheduler["resources"] = {
        kind: {what: amount for what, amount in amounts.items() if what != _GPU} for kind, amounts in container.items()
    }
    without_nulls: dict[str, Any] = _without_nulls(resource)  # as Kubernetes makes of such fields
    return without_nulls


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nulls(each) for key, each in value.items() if each is not None}
    return [_without_nulls(each) for each in value] if isinstance(value, list) else value


_INTERVAL = 2.0
_LIMIT = 5.0
_LONGEST_REASON = 200


class Pods:
    """The pods of one cluster, which are queried at most every 2 seconds.

    - `cluster`: the ``dask_kubernetes.operator.KubeCluster``, which may still start.
    """

    def __init__(self, cluster: Any) -> None:
        self._cluster = cluster
        self._states: tuple[JobState, ...] = ()
        self._asked = -_INTERVAL
        self._problem = ""

    async def states(self) -> tuple[JobState, ...]:
        """The pods that are not up; without an answer of Kubernetes those of the last one."""
        if time.monotonic() - self._asked >= _INTERVAL:
            self._asked = time.monotonic()
            try:
                async with asyncio.timeout(_LIMIT):
                    self._states = tuple(filter(None, map(pod_state, await self._read())))
            except Exception as error:  # noqa: BLE001 - whatever kr8s raises; the cluster does not depend on this
                if str(error) != self._problem:
                    logger.warning("The pods of the cluster cannot be read: %s", error)
                self._problem = str(error)
        return self._states

    async def _read(self) -> list[dict[str, Any]]:
        import kr8s.asyncio

        selector = f"dask.org/cluster-name={self._cluster.name}"
        found = kr8s.asyncio.get("pods", namespace=self._cluster.namespace, label_selector=selector)
        return [pod.raw async for pod in found]


def pod_state(pod: dict[str, Any]) -> JobState | None:
    """The state of a pod, as Kubernetes describes it; `None` if nothing keeps it from being up."""
    status = pod.get("status", {})
    reason = _why_not_scheduled(status) or _why_container_waits(status)
    if not reason and status.get("phase") != "Pending":
        return None
    name = pod["metadata"]["name"]
    return JobState(
        id=name,
        worker=_worker_name(pod) or name,
        system="Kubernetes",
        unit="pod",
        status="PENDING",
        reason=reason[:_LONGEST_REASON],
    )


def _why_not_scheduled(status: dict[str, Any]) -> str:
    for condition in status.get("conditions", ()):
        if condition.get("type") == "PodScheduled" and condition.get("status") == "False":
            # A second sentence says whether other pods could make room.
            message = condition.get("message", "").partition(". ")[0].rstrip(".")
            return ", ".join(filter(None, (condition.get("reason", ""), message)))
    return ""


def _why_container_waits(status: dict[str, Any]) -> str:
    waiting = (container.get("state", {}).get("waiting") for container in status.get("containerStatuses", ()))
    return next((str(state.get("reason", "")) for state in waiting if state), "")


def _worker_name(pod: dict[str, Any]) -> str:
    """The name that the operator gives the worker; empty for the scheduler."""
    variables = (
        variable for container in pod.get("spec", {}).get("containers", ()) for variable in container.get("env", ())
    )
    return next((str(each.get("value", "")) for each in variables if each.get("name") == "DASK_WORKER_NAME"), "")
