"""Dask's operator for Kubernetes: describe its pods, and why they are not up."""

from __future__ import annotations

import asyncio
import logging
import time
from typing import TYPE_CHECKING, Any

from ..errors import SpecError
from ..protocol import JobState

if TYPE_CHECKING:
    from collections.abc import Mapping

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
    without_nulls: dict[str, Any] = _without_nulls(resource)
    return without_nulls


def _without_nulls(value: Any) -> Any:
    """What Kubernetes makes of fields that are null."""
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
