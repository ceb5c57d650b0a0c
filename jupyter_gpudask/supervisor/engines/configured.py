"""The engine that the administrator has configured: any class of Dask clusters whose scheduler is made here."""

from __future__ import annotations

import importlib
import inspect
from typing import TYPE_CHECKING, Any

from distributed import LocalCluster, Scheduler, SpecCluster

from ...errors import ClusterStartError

if TYPE_CHECKING:
    from ...protocol import ClusterClass


def make_cluster(cluster_class: ClusterClass, common: dict[str, Any]) -> Any:
    """The cluster of a profile, not awaited yet.

    What the administrator has given goes before what is `common` to all engines. A class that takes no ``security``
    has no TLS, or that of the administrator.

    Raises
    ------
    ClusterStartError
        There is no such class, or it makes what cannot be held here.
    """
    class_ = _find(cluster_class)
    is_local = isinstance(class_, type) and issubclass(class_, LocalCluster)
    # What concerns this machine would keep workers on others from their scheduler.
    ours = common.keys() if is_local else ("asynchronous", "security", "dashboard_address")
    try:
        taken = common.keys() if is_local else _parameters(class_)
        defaults = {name: common[name] for name in ours if name in taken}
        if cluster_class.options.get("processes") is False:  # or the preload would run in this process
            defaults.pop("preload", None)
        cluster = class_(**(defaults | cluster_class.options))
    except Exception as error:  # noqa: BLE001 - whatever the class raises: it is not ours
        raise ClusterStartError(f"{cluster_class.path} does not start: {type(error).__name__}: {error}.") from None
    if not isinstance(cluster, SpecCluster) or not _has_scheduler_here(cluster):
        raise ClusterStartError(
            f"{cluster_class.path} makes a cluster whose scheduler is elsewhere.",
            "Profiles can name classes with a scheduler in the supervisor, such as those of dask-jobqueue.",
        )
    return cluster


def _find(cluster_class: ClusterClass) -> Any:
    module, _, name = cluster_class.path.rpartition(".")
    try:
        return getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise ClusterStartError(
            f"The class {cluster_class.path} of this profile is not in the kernel's environment: {error}.",
            "Ask the administrator of the server.",
        ) from None


def _parameters(class_: Any) -> set[str]:
    """The names of the arguments that a class takes, those included that it passes on to its bases."""
    names: set[str] = set()
    for base in inspect.getmro(class_) if isinstance(class_, type) else (class_,):
        parameters = inspect.signature(base).parameters.values()
        names |= {parameter.name for parameter in parameters}
        if all(parameter.kind is not parameter.VAR_KEYWORD for parameter in parameters):
            break
    return names


def _has_scheduler_here(cluster: SpecCluster) -> bool:
    class_ = cluster.scheduler_spec.get("cls")
    return isinstance(class_, type) and issubclass(class_, Scheduler)
