"""The cpu engine, the CPU stand-in: a `LocalCluster` of worker processes without a GPU."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dask.system import CPU_COUNT
from distributed import LocalCluster

if TYPE_CHECKING:
    from ...machine.plan import Plan
    from ...protocol import ClusterSpec


def make_cluster(spec: ClusterSpec, plan: Plan, common: dict[str, Any]) -> Any:
    """A `distributed.LocalCluster` for `plan`; see `create_cluster`."""
    if common["memory_limit"] == "auto":  # given explicitly, it would be a share for each thread of a worker
        common = {name: value for name, value in common.items() if name != "memory_limit"}
    return LocalCluster(
        n_workers=plan.workers,
        threads_per_worker=spec.threads or max(1, CPU_COUNT // plan.workers),
        processes=True,
        **common,
    )
