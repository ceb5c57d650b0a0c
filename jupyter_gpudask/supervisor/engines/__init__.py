"""Engines: what makes a cluster. The plan says which engine, GPUs and workers; `open_cluster` makes it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import dask.config

from ...machine.plan import has_usable_gpus

if TYPE_CHECKING:
    from pathlib import Path

    from ...machine.plan import Plan
    from ...protocol import ClusterClass, ClusterSpec

_NEVER = "10000 days"


def warm_up() -> None:
    """Import what making a cluster takes, before there is an order for one."""
    from . import cpu  # noqa: F401

    if has_usable_gpus():
        from .cuda import import_dask_cuda

        import_dask_cuda()


def open_cluster(
    spec: ClusterSpec,
    plan: Plan,
    security: Any,
    directory: Path,
    cluster_class: ClusterClass | None = None,
    *,
    dashboard: bool = True,
) -> Any:
    """Make the cluster of `plan`, not awaited yet.

    Parameters
    ----------
    spec, plan
        What was asked for, and what that means on this machine.
    security
        A `distributed.Security`, or `None` for a protocol without TLS.
    directory
        Where workers keep their scratch space.
    cluster_class
        The class that the administrator has configured, if that makes it.
    dashboard
        Whether Dask's dashboard is loaded, which takes half a second.

    Returns
    -------
    distributed.SpecCluster
        Asynchronous; awaiting it starts it.
    """
    common: dict[str, Any] = {
        "asynchronous": True,
        "security": security,
        "host": "127.0.0.1",
        "scheduler_port": 0,
        "dashboard_address": "127.0.0.1:0",
        "scheduler_kwargs": {"dashboard": dashboard},
        "worker_dashboard_address": None,
        "local_directory": str(directory),
        "preload": ["jupyter_gpudask.worker.preload"],
        # What asks for a GPU by Dask's resources runs one at a time on each, and on the stand-in too.
        "resources": {"GPU": 1} | spec.resources,
        "memory_limit": "auto" if spec.memory_limit == "auto" else spec.memory_limit or 0,
    }
    if cluster_class is not None:
        from .configured import make_cluster as make_configured

        return _that_starts_workers_again(make_configured(cluster_class, common))
    if plan.engine == "cuda":
        from .cuda import make_cluster
    else:
        from .cpu import make_cluster
    return _that_starts_workers_again(make_cluster(spec, plan, common))


def _that_starts_workers_again(cluster: Any) -> Any:
    """The same cluster; if its workers are on this machine, their nannies start them again whenever they die.

    Dask gives a worker up that is not there 15 s after a death, also if it has died again since and is just being
    started.
    """
    from distributed import LocalCluster

    if isinstance(cluster, LocalCluster):
        dask.config.set({"distributed.deploy.lost-worker-timeout": _NEVER})
    return cluster
