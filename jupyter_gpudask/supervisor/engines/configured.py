"""Clusters of a class in the administrator's configuration, with the scheduler in this process."""

from __future__ import annotations

import importlib
import inspect
from typing import TYPE_CHECKING, Any

from distributed import LocalCluster, Scheduler, SpecCluster
from distributed.deploy.cluster import Cluster

from ...errors import ClusterStartError, GpuDaskError, OptionConflictError
from ...installation import pip_install
from . import jobs, ssh

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from ...protocol import ClusterClass, ClusterSpec

_EXTRAS = {"dask_jobqueue": "slurm", "dask_gateway": "gateway", "dask_kubernetes": "kubernetes"}
"""The extra of this package that installs a package of cluster classes."""

GATEWAY_CLUSTER = "dask_gateway.GatewayCluster"


def has_remote_scheduler(cluster_class: ClusterClass) -> bool:
    """Whether the scheduler of the clusters of a class runs elsewhere; see `RemoteCluster`.

    That is so for Dask's base class of clusters, except for `distributed.SpecCluster`, which mostly starts its
    scheduler in this process; and for dask-gateway, whose class has no base class.
    """
    if cluster_class.path == GATEWAY_CLUSTER:
        return True
    try:
        class_ = import_class(cluster_class)
    except Exception:  # noqa: BLE001 - the start imports it again, and reports it
        return False
    return isinstance(class_, type) and issubclass(class_, Cluster) and not issubclass(class_, SpecCluster)


def import_class(cluster_class: ClusterClass) -> Any:
    """The class, or the function, that a cluster profile names.

    Raises
    ------
    ClusterStartError
        It cannot be imported.
    """
    module, _, name = cluster_class.path.rpartition(".")
    try:
        return getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError) as error:
        extra = _EXTRAS.get((getattr(error, "name", None) or "").partition(".")[0])
        raise ClusterStartError(
            "class-installable" if extra else "class-missing",
            class_=cluster_class.path,
            error=error,
            install=pip_install(extra or ""),
        ) from None


def make_cluster(
    cluster_class: ClusterClass,
    spec: ClusterSpec,
    common: dict[str, Any],
    shared_directory: Callable[[str], Path],
    logs: Path,
) -> Any:
    """Create a cluster of `cluster_class`; see `create_cluster`.

    The configured options take precedence over those that are `common` to all engines. A class without an argument
    ``security`` has no TLS, except by its own options.

    Raises
    ------
    ClusterStartError
        The class cannot be imported, fails, or does not create a suitable cluster.
    """
    class_, options = import_class(cluster_class), cluster_class.options
    try:
        if jobs.is_job_queue(class_):
            return jobs.make_cluster(class_, options, spec, common, shared_directory)
        if ssh.is_ssh_cluster(class_):
            return ssh.make_cluster(options, spec, common, logs)
        cluster = _make_other(class_, options, spec, common)
    except GpuDaskError:
        raise
    except Exception as error:  # noqa: BLE001 - the class can raise anything
        raise ClusterStartError(
            "class-failed", class_=cluster_class.path, error=f"{type(error).__name__}: {first_line(error)}"
        ) from None
    if not isinstance(cluster, SpecCluster) or not _has_scheduler_here(cluster):
        raise ClusterStartError("scheduler-elsewhere", class_=cluster_class.path, known=GATEWAY_CLUSTER)
    return cluster


def first_line(error: BaseException) -> str:
    """The first line of the message of an error of a class; the others may list all its options, with secrets."""
    lines = str(error).strip().splitlines()
    return lines[0].rstrip(" .:") if lines else type(error).__name__


def _make_other(class_: Any, options: dict[str, Any], spec: ClusterSpec, common: dict[str, Any]) -> Any:
    is_local = isinstance(class_, type) and issubclass(class_, LocalCluster)
    # Options for this machine would prevent workers on other machines from reaching their scheduler.
    ours = common.keys() if is_local else ("asynchronous", "security", "dashboard_address")
    parameters = parameters_of(class_)
    taken = common.keys() if is_local else parameters
    defaults = {name: common[name] for name in ours if name in taken}
    if options.get("processes") is False:  # else the preload would run in this process
        defaults.pop("preload", None)
    if spec.workers is None:
        return class_(**(defaults | options))
    if "n_workers" not in parameters:
        raise OptionConflictError("with-profile", option="--workers", profile=spec.profile, field="workers")
    return class_(**(defaults | options | {"n_workers": spec.workers}))


def parameters_of(class_: Any) -> set[str]:
    """The names of the arguments that a class accepts, including those that it passes on to its bases."""
    names: set[str] = set()
    for base in inspect.getmro(class_) if isinstance(class_, type) else (class_,):
        parameters = inspect.signature(base).parameters.values()
        names |= {parameter.name for parameter in parameters}
        if all(parameter.kind is not parameter.VAR_KEYWORD for parameter in parameters):
            break
    return names


def _has_scheduler_here(cluster: SpecCluster) -> bool:
    class_ = (cluster.scheduler_spec or {}).get("cls")
    return isinstance(class_, type) and issubclass(class_, Scheduler)
