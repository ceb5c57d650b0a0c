"""The plan of a cluster: the engine, GPUs, workers and memory pools that a spec means on this machine."""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from ..errors import GpuPackagesMissingError, GpuUnavailableError
from ..installation import pip_install
from . import gpus
from .gpu_choice import bytes_of, check_memory, select_unleased_gpus

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..protocol import ClusterSpec, GpuState
    from .leases import Lease

_GPU_PACKAGES = {
    "dask_cuda": "dask-cuda",
    "cupy": "CuPy",
    "cudf": "cuDF",
    "dask_cudf": "dask-cudf",
    "rmm": "RMM",
}


@dataclass(frozen=True)
class Plan:
    """How a cluster will be created.

    Attributes
    ----------
    engine
        ``cuda`` or ``cpu``.
    gpus
        One for each worker; empty on the CPU.
    workers
        The number of workers.
    stand_in
        Why the CPU stands in for GPUs; else empty.
    pool, spill_threshold
        In bytes, for each GPU; `None` for none.
    """

    engine: Literal["cuda", "cpu"]
    workers: int
    gpus: tuple[GpuState, ...] = ()
    stand_in: str = ""
    pool: int | None = None
    spill_threshold: int | None = None


def make_plan(spec: ClusterSpec, leases: Sequence[Lease] = ()) -> Plan:
    """Plan the cluster of `spec`; nothing is started.

    Parameters
    ----------
    spec
        The options of the cluster.
    leases
        The leases of other clusters.

    Raises
    ------
    GpuHeldError
        Other clusters hold the GPUs.
    GpuUnavailableError
        GPUs were requested by engine, count or name and do not exist.
    GpuPackagesMissingError
        There is a GPU, and the environment lacks the packages that use it.
    """
    if spec.engine == "cpu":
        return _cpu_plan(spec)
    try:
        chosen = select_unleased_gpus(spec, gpus.require_gpus(), leases)
    except GpuUnavailableError as error:
        if not spec.requires_gpus:
            return _cpu_plan(spec, stand_in=error.reason)
        raise
    _check_packages()
    return Plan(
        engine="cuda",
        workers=len(chosen),
        gpus=tuple(chosen),
        pool=bytes_of(spec.pool, chosen),
        spill_threshold=bytes_of(spec.spill_threshold, chosen) if spec.spilling == "dask" else None,
    )


def check_pool_fits(plan: Plan) -> None:
    """Check that each GPU has enough free memory for its pool.

    `make_plan` does not, because a cluster that will be replaced still uses that memory.

    Raises
    ------
    GpuUnavailableError
        A GPU has less free memory.
    """
    check_memory(plan.pool, plan.gpus)


def _cpu_plan(spec: ClusterSpec, stand_in: str = "") -> Plan:
    from dask.system import CPU_COUNT  # those that this process may use, by its affinity and its control group

    return Plan(engine="cpu", workers=spec.workers or max(1, min(4, CPU_COUNT // 2)), stand_in=stand_in)


def has_usable_gpus() -> bool:
    """Whether there are a GPU and the packages that use it."""
    try:
        return bool(gpus.visible_gpus()) and not _missing_packages()
    except GpuUnavailableError:
        return False


def _missing_packages() -> list[str]:
    return [name for module, name in _GPU_PACKAGES.items() if importlib.util.find_spec(module) is None]


def _check_packages() -> None:
    missing = _missing_packages()
    if missing:
        raise GpuPackagesMissingError(
            packages=", ".join(missing), install=pip_install("cu13" if gpus.cuda_driver_version() >= 13 else "cu12")
        )
