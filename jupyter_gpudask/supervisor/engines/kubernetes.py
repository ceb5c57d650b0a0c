"""Clusters of Dask's operator for Kubernetes, from a cluster profile of `dask_kubernetes.operator.KubeCluster`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...errors import SpecError

if TYPE_CHECKING:
    from collections.abc import Mapping

KUBE_CLUSTER = "dask_kubernetes.operator.KubeCluster"

_GPU = "nvidia.com/gpu"
_DESCRIBED = frozenset({"image", "resources", "env", "worker_command", "scheduler_service_type", "idle_timeout"})
"""The options of the class that `cluster_resource` puts into the resource."""


def kube_options(options: Mapping[str, Any], name: str, workers: int, *, gpu: bool) -> dict[str, Any]:
    """The arguments of ``KubeCluster``.

    Parameters
    ----------
    options
        The administrator's options, which are those of the class.
    name
        The name of the cluster, unless the options have one.
    workers
        The number of workers.
    gpu
        Whether each worker has a GPU.

    Raises
    ------
    SpecError
        An option is missing, or has an invalid value.
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

    Parameters
    ----------
    name, workers
        The name of the cluster, and the number of its workers.
    gpu
        Whether each worker has a GPU: one, unless the limits say otherwise.
    image
        The image of the scheduler and the workers, with jupyter_gpudask.
    resources
        Limits and requests of the worker's container; those of the scheduler are the same without GPUs.
    worker_command
        The command of a worker, by default ``python -m jupyter_gpudask worker``.
    others
        ``env``, ``idle_timeout`` and ``scheduler_service_type``, as ``KubeCluster`` takes them.

    Raises
    ------
    SpecError
        There is no image, or more than one GPU for each worker.
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
