"""The cuda engine: dask-cuda's `LocalCUDACluster`, with one worker for each GPU."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ...machine.plan import Plan
    from ...protocol import ClusterSpec


def make_cluster(spec: ClusterSpec, plan: Plan, common: dict[str, Any]) -> Any:
    """A `dask_cuda.LocalCUDACluster` for `plan`; see `create_cluster`."""
    class_ = import_dask_cuda()
    if spec.protocol != "ucx":  # UCX does not start without a device
        # Without a visible device this process cannot create a CUDA context; dask-cuda gives each worker its device.
        os.environ["CUDA_VISIBLE_DEVICES"] = ""
    return class_(
        CUDA_VISIBLE_DEVICES=[gpu.uuid for gpu in plan.gpus],
        n_workers=plan.workers,
        threads_per_worker=spec.threads or 1,
        device_memory_limit=plan.spill_threshold or 0,
        enable_cudf_spill=spec.spilling == "cudf",
        # One allocator for CuPy and cuDF: RMM's pool of the requested size, or CUDA's own: see `worker.memory`.
        rmm_pool_size=plan.pool,
        rmm_allocator_external_lib_list=["cupy"],
        pre_import="cupy,cudf,dask_cudf",
        **common,
    )


def import_dask_cuda() -> Any:
    """Import the class `dask_cuda.LocalCUDACluster`."""
    os.environ["CUDA_DEVICE_ORDER"] = "PCI_BUS_ID"
    os.environ["RAPIDS_NO_INITIALIZE"] = "True"
    from dask_cuda import LocalCUDACluster

    return LocalCUDACluster
