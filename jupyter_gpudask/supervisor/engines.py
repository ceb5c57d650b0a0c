"""Create the Dask cluster of a plan: on GPUs, on the CPU, or by a class of the configuration."""

from __future__ import annotations

import os
from importlib import import_module
from typing import TYPE_CHECKING, Any

import dask.config

from ..comm.unix import SCHEME, host_of
from ..machine.plan import has_usable_gpus
from .dashboard import routes_without_proxy

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable
    from pathlib import Path

    from ..machine.plan import Plan
    from ..protocol import ClusterClass, ClusterSpec


def make_cuda_cluster(spec: ClusterSpec, plan: Plan, common: dict[str, Any]) -> Any:
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


_NEVER = "10000 days"


def import_what_clusters_need(*, dashboard: bool) -> None:
    """Import the modules of a scheduler and its nannies early: half a second, and as much for the dashboard."""
    from distributed.utils import get_mp_context

    if has_usable_gpus():
        import_dask_cuda()
    for name in (*routes_without_proxy(), *(["distributed.dashboard.scheduler"] if dashboard else [])):
        import_module(name)
    with dask.config.set({"distributed.worker.multiprocessing-method": "forkserver"}):
        get_mp_context()  # imports pandas and others the first time


def create_cluster(
    spec: ClusterSpec,
    plan: Plan,
    security: Any,
    directory: Path,
    cluster_class: ClusterClass | None = None,
    *,
    sockets: Path | None,
    shared_directory: Callable[[str], Path],
    logs: Path,
    dashboard: bool = True,
) -> Any:
    """Create the cluster of `plan`.

    - `spec`, `plan`: the options of the cluster, and what they mean on this machine.
    - `security`: a `distributed.Security`, or `None` for a protocol without TLS.
    - `directory`: the directory of the workers' scratch space.
    - `cluster_class`: a cluster class of the administrator; used instead of an engine.
    - `sockets`: the directory of the Unix sockets; `None` for the other protocols.
    - `shared_directory`: creates a directory for files that jobs on other machines read, in the given directory or a
      default one.
    - `dashboard`: whether to load Dask's dashboard, which takes half a second.

    The cluster is asynchronous; awaiting it starts it.
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
        # Tasks that request a GPU as a Dask resource run one at a time on each worker, on the stand-in too.
        "resources": {"GPU": 1} | spec.resources,
        "memory_limit": "auto" if spec.memory_limit == "auto" else spec.memory_limit or 0,
    }
    if sockets is not None:
        common |= {"protocol": SCHEME, "host": host_of(sockets)}
    elif spec.protocol == "ucx" and plan.engine == "cuda" and cluster_class is None:
        common["protocol"] = "ucx"
    if plan.engine == "cpu":
        # Dask would report metrics of the first GPU, which is not the workers', and would fail if CUDA_VISIBLE_DEVICES
        # has a value that CUDA accepts and NVML does not, such as -1.
        dask.config.set({"distributed.diagnostics.nvml": False})
    if cluster_class is not None:
        from .configured import make_cluster as make_configured

        return _with_persistent_nannies(make_configured(cluster_class, spec, common, shared_directory, logs))
    if plan.engine == "cuda":
        return _with_persistent_nannies(make_cuda_cluster(spec, plan, common))
    return _with_persistent_nannies(_make_cpu_cluster(spec, plan, common))


def _make_cpu_cluster(spec: ClusterSpec, plan: Plan, common: dict[str, Any]) -> Any:
    """The CPU stand-in: a `LocalCluster` of worker processes without a GPU."""
    from dask.system import CPU_COUNT
    from distributed import LocalCluster

    if common["memory_limit"] == "auto":  # given explicitly, it would be a share for each thread of a worker
        common = {name: value for name, value in common.items() if name != "memory_limit"}
    threads = spec.threads or max(1, CPU_COUNT // plan.workers)
    return LocalCluster(n_workers=plan.workers, threads_per_worker=threads, processes=True, **common)


def worker_names(cluster: Any, entry: Hashable) -> list[str]:
    """The names of the workers of an entry of the specification of a `distributed.SpecCluster`.

    An entry is a worker, or a job or a host with a group of workers, whose names end differently.
    """
    return [f"{entry}{suffix}" for suffix in cluster.worker_spec.get(entry, {}).get("group", ("",))]


def _with_persistent_nannies(cluster: Any) -> Any:
    """Let nannies restart their workers however often they die, and `JobQueue` decide about jobs that have ended.

    Dask gives up a worker that is missing 15 s after an exit, even if it is being restarted after another exit.
    """
    from distributed import LocalCluster

    from .configured import is_job_queue
    from .ssh import HostsCluster

    if isinstance(cluster, LocalCluster | HostsCluster) or is_job_queue(type(cluster)):
        dask.config.set({"distributed.deploy.lost-worker-timeout": _NEVER})
    return cluster
