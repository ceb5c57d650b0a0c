"""The names of the workers of a Dask cluster, from its specification."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Hashable


def worker_names(cluster: Any, entry: Hashable) -> list[str]:
    """The names of the workers of an entry of the specification of a `distributed.SpecCluster`.

    An entry is a worker, or a job or a host with a group of workers, whose names end differently.
    """
    suffixes = cluster.worker_spec.get(entry, {}).get("group", ("",))
    return [f"{entry}{suffix}" for suffix in suffixes]
