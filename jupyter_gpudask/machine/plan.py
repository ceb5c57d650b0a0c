"""The plan of a cluster: the engine, GPUs, workers and memory pools that a spec means on this machine."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from ..errors import GpuPackagesMissingError, GpuReservedError, GpuUnavailableError, LimitError
from ..installation import pip_install
from ..protocol.engines import Engine, engine_with, has_gpus
from ..protocol.spec import ClusterSpec
from ..protocol.state import GpuState
from ..quantities import format_bytes
from . import gpus
from .leases import Lease, LeaseFolder, holders_of, leases_of_others


def select_unleased_gpus(spec: ClusterSpec, visible: Sequence[GpuState], leases: Iterable[Lease]) -> list[GpuState]:
    """Select the GPUs that `spec` requests, without those of other clusters, unless both clusters share them.

    Raises `GpuReservedError` if other clusters have reserved them; the message names these. Raises
    `GpuUnavailableError` if there are no such GPUs.
    """
    leases = [lease for lease in leases if not (spec.share and lease.share)]
    holders = holders_of(leases)
    free = [gpu for gpu in visible if gpu.uuid not in holders]
    if spec.gpus == "free" and free:
        return free
    if isinstance(spec.gpus, int) and len(free) >= spec.gpus:
        return gpus.select_gpus(spec.gpus, free)
    chosen = gpus.select_gpus("all" if spec.gpus == "free" else spec.gpus, visible)
    # If there are fewer free GPUs than the requested count, name the holders of all GPUs.
    concerned = visible if isinstance(spec.gpus, int) else chosen
    leased = [gpu for gpu in concerned if gpu.uuid in holders]
    if leased:
        by_holder: dict[str, list[int]] = {}
        for gpu in leased:
            by_holder.setdefault(" and ".join(holders[gpu.uuid]), []).append(gpu.index)
        in_the_way = [lease for lease in leases if any(gpu.uuid in lease.gpus for gpu in concerned)]
        code = "gpus-reserved" if free else "all-gpus-reserved"
        if all(lease.accelerates for lease in in_the_way):  # kernels share with no cluster
            code = "gpus-accelerated"
        said = ", ".join(f"{_list_gpus(indices)} reserved by {holder}" for holder, indices in by_holder.items())
        raise GpuReservedError(code, gpus=said, reserved_gpus=(gpu.uuid for gpu in leased))
    return chosen


def _list_gpus(indices: Sequence[int]) -> str:
    """Such as "GPUs 0, 1, 5 are", as in the panel."""
    numbered = enumerate(sorted(indices))
    runs = [[index for _, index in run] for _, run in groupby(numbered, lambda pair: pair[1] - pair[0])]
    texts = [f"{run[0]}\N{EN DASH}{run[-1]}" if len(run) > 2 else ", ".join(map(str, run)) for run in runs]
    return f"GPU{'s' * (len(indices) > 1)} {', '.join(texts)} {'are' if len(indices) > 1 else 'is'}"


def wanted_gpus(spec: ClusterSpec, visible: Sequence[GpuState]) -> list[GpuState]:
    """The GPUs any of which `spec` could get: those that it names, or all if it gives a number or takes free ones."""
    is_any = isinstance(spec.gpus, int) or spec.gpus == "free"
    return gpus.select_gpus("all" if is_any else spec.gpus, visible)


def bytes_of(amount: int | float | None, chosen: Sequence[GpuState]) -> int | None:
    """An amount of device memory in bytes; a fraction refers to the smallest GPU, so that it fits on each."""
    if not isinstance(amount, float):
        return amount
    totals = [gpu.memory_total for gpu in chosen if gpu.memory_total]
    return int(min(totals) * amount) if totals else None


def check_memory(pool: int | None, chosen: Iterable[GpuState]) -> None:
    """Check that each GPU has `pool` bytes free; raises `GpuUnavailableError` if a GPU has less free memory."""
    for gpu in chosen:
        if pool is None or gpu.memory_total is None or gpu.memory_used is None:
            continue
        free = gpu.memory_total - gpu.memory_used
        if pool > free:
            raise GpuUnavailableError(
                "pool-too-large",
                pool=format_bytes(pool),
                gpu=gpu.index,
                free=format_bytes(free),
                total=format_bytes(gpu.memory_total),
            )


def check_gpus_of_user(
    chosen: Iterable[GpuState], folder: LeaseFolder, limit: int | None, *, without: int | None = None
) -> None:
    """Check that a user does not reserve more GPUs than the administrator allows.

    - `limit`: the largest number of GPUs of all clusters of a user together; `None` for no limit.
    - `without`: the pid of the supervisor whose cluster the new one replaces.

    Raises `LimitError` if the user would reserve more.
    """
    if limit is None:
        return
    new = {gpu.uuid for gpu in chosen}
    others = folder.gpus_of_user(without=without) - new
    if new and len(new) + len(others) > limit:
        raise LimitError("too-many-gpus", limit=limit, needed=len(new), others=len(others))


def check_replacement(
    spec: ClusterSpec,
    supervisor: int,
    environment: Mapping[str, str] | None = None,
    max_gpus: int | None = None,
    *,
    kernel_id: str = "",
) -> None:
    """Check that there will be GPUs for `spec` when it replaces the cluster of a supervisor; this blocks.

    - `supervisor`: the pid of the supervisor whose cluster is replaced.
    - `environment`: environment variables of the kernel, by default those of this process.
    - `max_gpus`: the largest number of GPUs of a user; `None` for no limit.
    - `kernel_id`: the kernel of the cluster; empty if this process is the kernel.

    Raises `GpuReservedError` or `GpuUnavailableError` if there will not be enough GPUs, or starts that wait in line
    would get them. Raises `LimitError` if the user would reserve too many.
    """
    if spec.preset or not spec.may_use_gpus:
        return
    try:
        visible = gpus.require_gpus(environment)
    except GpuUnavailableError:
        if not spec.requires_gpus:
            return
        raise
    folder = LeaseFolder()
    leases = folder.read()
    others = [lease for lease in leases_of_others(leases, kernel_id) if lease.pid != supervisor]
    chosen = select_unleased_gpus(spec, visible, others)
    if waiting := folder.wanted_before(None, (gpu.uuid for gpu in wanted_gpus(spec, visible))):
        try:
            chosen = select_unleased_gpus(spec, visible, [*others, *waiting])
        except GpuReservedError:
            raise GpuReservedError("others-wait-for-restart", waiting=waiting[0].holder) from None
    check_gpus_of_user(chosen, folder, max_gpus, without=supervisor)
    freed = {uuid for lease in leases if lease.pid == supervisor for uuid in lease.gpus}
    after = [_without_session(gpu, supervisor) if gpu.uuid in freed else gpu for gpu in chosen]
    check_memory(bytes_of(spec.pool, chosen), after)


def _without_session(gpu: GpuState, session: int) -> GpuState:
    """The GPU as it will be when a session has ended; all of its memory is free if NVML lists no processes."""
    sizes = [process.memory for process in gpu.processes if _session_of(process.pid) == session]
    known = [size for size in sizes if size is not None]
    used = (gpu.memory_used or 0) - sum(known) if sizes and len(known) == len(sizes) else 0
    return gpu.model_copy(update={"memory_used": max(0, used)})


def _session_of(pid: int) -> int | None:
    try:
        return os.getsid(pid)
    except OSError:  # it has ended, or runs in another container
        return None


_GPU_PACKAGES = {"dask_cuda": "dask-cuda", "cupy": "CuPy", "cudf": "cuDF", "dask_cudf": "dask-cudf", "rmm": "RMM"}


@dataclass(frozen=True)
class Plan:
    """How a cluster will be created.

    - `engine`: ``cuda`` or ``cpu``.
    - `gpus`: one for each worker; empty on the CPU.
    - `cpu_reason`: why ``auto`` uses the CPU; else empty.
    - `pool`, `spill_threshold`: in bytes, for each GPU; `None` for none.
    """

    engine: Engine
    workers: int
    gpus: tuple[GpuState, ...] = ()
    cpu_reason: str = ""
    pool: int | None = None
    spill_threshold: int | None = None

    @property
    def has_gpus(self) -> bool:
        """Whether each worker has a GPU."""
        return has_gpus(self.engine)


def make_plan(spec: ClusterSpec, leases: Sequence[Lease] = ()) -> Plan:
    """Plan the cluster of `spec`; nothing is started.

    `spec`: the options of the cluster. `leases`: the leases of other clusters. Raises `GpuReservedError` if other
    clusters have reserved the GPUs. Raises `GpuUnavailableError` if GPUs were requested by engine, count or name and do
    not exist. Raises `GpuPackagesMissingError` if there is a GPU, and the environment lacks the packages that use it.
    """
    if not spec.may_use_gpus:
        return _cpu_plan(spec)
    try:
        chosen = select_unleased_gpus(spec, gpus.require_gpus(), leases)
    except GpuUnavailableError as error:
        if not spec.requires_gpus:
            return _cpu_plan(spec, cpu_reason=error.reason)
        raise
    _check_packages()
    return Plan(
        engine=engine_with(gpus=True),
        workers=len(chosen),
        gpus=tuple(chosen),
        pool=bytes_of(spec.pool, chosen),
        spill_threshold=bytes_of(spec.spill_threshold, chosen) if spec.spilling == "dask" else None,
    )


def _cpu_plan(spec: ClusterSpec, cpu_reason: str = "") -> Plan:
    from dask.system import CPU_COUNT  # those that this process may use, by its affinity and its control group

    workers = spec.workers or max(1, min(4, CPU_COUNT // 2))
    return Plan(engine=engine_with(gpus=False), workers=workers, cpu_reason=cpu_reason)


def engine_of(spec: ClusterSpec) -> Engine:
    """The engine of the cluster of `spec`, unless its start will fail."""
    return engine_with(gpus=spec.may_use_gpus and has_usable_gpus())


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
        raise GpuPackagesMissingError(packages=", ".join(missing), install=pip_install(gpus.extra_for_gpus()))
