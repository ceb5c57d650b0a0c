"""The pending pods of a cluster of Dask's operator, with the reason that Kubernetes gives."""

from __future__ import annotations

import asyncio
import logging
import time
from typing import Any

from ...protocol import JobState

logger = logging.getLogger(__name__)

_INTERVAL = 2.0
_LIMIT = 5.0
_LONGEST_REASON = 200


class Pods:
    """The pods of one cluster, which are queried at most every 2 seconds.

    Parameters
    ----------
    cluster
        The ``dask_kubernetes.operator.KubeCluster``, which may still start.
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
