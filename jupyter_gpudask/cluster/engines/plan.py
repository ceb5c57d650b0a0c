"""What a spec means on this machine: which engine, which GPUs, how many workers. Nothing is started here."""

from __future__ import annotations

import importlib.util
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from ... import gpus
from ...errors import GpuHeldError, GpuPackagesMissingError, GpuUnavailableError
from ...quantities import format_bytes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...models import ClusterSpec, GpuState
    from ..leases import Lease

_GPU_PACKAGES = {
    "dask_cuda": "dask-cuda",
    "cupy": "CuPy",
    "cudf": "cuDF",
    "dask_cudf": "dask-cudf",
    "rmm": "RMM",
}


@dataclass(frozen=True)
class Plan:
    """How a cluster will be made.

    Attributes
    ----------
    engine
        ``cuda`` or ``cpu``.
    gpus
        One for each worker; empty on the CPU.
    workers
        How many.
    stand_in
        Why the CPU stands in, where GPUs would have been taken; else empty.
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
    """Decide what `spec` means here.

    Parameters
    ----------
    spec
        What was asked for.
    leases
        Who holds which GPUs already.

    Raises
    ------
    GpuHeldError
        GPUs that were asked for are held by other clusters.
    GpuUnavailableError
        GPUs were asked for by engine or by name and are not there.
    GpuPackagesMissingError
        There is a GPU and the environment cannot use it.
    """
    if spec.engine == "cpu":
        return _cpu_plan(spec)
    try:
        visible = gpus.visible_gpus()
        if not visible and spec.engine == "auto" and spec.gpus == "all":
            return _cpu_plan(spec, stand_in="No GPU is visible to this kernel.")
        chosen = _choose(spec, visible, [lease for lease in leases if not (spec.share and lease.share)])
    except GpuUnavailableError as error:
        if spec.engine == "auto" and spec.gpus == "all":
            return _cpu_plan(spec, stand_in=error.reason)
        raise
    _check_packages()
    return Plan(
        engine="cuda",
        workers=len(chosen),
        gpus=tuple(chosen),
        pool=_bytes_of(spec.pool, chosen),
        spill_threshold=_bytes_of(spec.spill_threshold, chosen) if spec.spilling == "dask" else None,
    )


def _choose(spec: ClusterSpec, visible: Sequence[GpuState], leases: Sequence[Lease]) -> list[GpuState]:
    holders: dict[str, list[str]] = {}
    for lease in leases:
        for uuid in lease.gpus:
            holders.setdefault(uuid, []).append(lease.holder)
    if isinstance(spec.gpus, int):
        free = [gpu for gpu in visible if gpu.uuid not in holders]
        if len(free) >= spec.gpus:
            return gpus.choose_gpus(spec.gpus, free)
    chosen = gpus.choose_gpus(spec.gpus, visible)
    # A count that the free GPUs cannot meet concerns whoever holds any of them.
    concerned = visible if isinstance(spec.gpus, int) else chosen
    held = [f"GPU {gpu.index} is held by {' and '.join(holders[gpu.uuid])}" for gpu in concerned if gpu.uuid in holders]
    if held:
        free_count = sum(gpu.uuid not in holders for gpu in visible)
        others = f"take free ones with --gpus {free_count}, " if free_count else ""
        raise GpuHeldError(f"{', '.join(held)}.", f"Type %gpudask stop there, {others}or --share yes in both.")
    return chosen


def check_pool_fits(plan: Plan) -> None:
    """See that each GPU has as much free memory as its pool needs; apart, for who stops a cluster frees memory.

    Raises
    ------
    GpuUnavailableError
        One has not; the message has the figures.
    """
    for gpu in plan.gpus:
        if plan.pool is None or gpu.memory_total is None or gpu.memory_used is None:
            continue
        free = gpu.memory_total - gpu.memory_used
        if plan.pool > free:
            raise GpuUnavailableError(
                f"--pool asks for {format_bytes(plan.pool)} on each GPU, and GPU {gpu.index} has {format_bytes(free)} "
                f"free of {format_bytes(gpu.memory_total)}.",
                "Give less, or free it: %gpudask gpus shows who holds it.",
            )


def _cpu_plan(spec: ClusterSpec, stand_in: str = "") -> Plan:
    cores = os.cpu_count() or 1
    return Plan(engine="cpu", workers=spec.workers or max(1, min(4, cores // 2)), stand_in=stand_in)


def has_usable_gpus() -> bool:
    """Whether there is a GPU, and the packages that use it."""
    try:
        return bool(gpus.visible_gpus()) and not _missing_packages()
    except GpuUnavailableError:
        return False


def _missing_packages() -> list[str]:
    return [name for module, name in _GPU_PACKAGES.items() if importlib.util.find_spec(module) is None]


def _check_packages() -> None:
    missing = _missing_packages()
    if missing:
        raise GpuPackagesMissingError(missing, extra="cu13" if gpus.cuda_driver_version() >= 13 else "cu12")


def _bytes_of(amount: int | float | None, chosen: list[GpuState]) -> int | None:
    """An amount in bytes; a fraction is one of the smallest GPU, so that it fits each."""
    if not isinstance(amount, float):
        return amount
    totals = [gpu.memory_total for gpu in chosen if gpu.memory_total]
    return int(min(totals) * amount) if totals else None
