"""Which GPUs a cluster gets, beside the clusters that hold some; before one is closed for another, too."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from ..errors import GpuHeldError, GpuUnavailableError
from ..quantities import format_bytes
from . import gpus
from .leases import LeaseFolder, holders_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from ..protocol import ClusterSpec, GpuState
    from .leases import Lease


def choose_free(spec: ClusterSpec, visible: Sequence[GpuState], leases: Iterable[Lease]) -> list[GpuState]:
    """The GPUs that `spec` asks for, none of which another cluster holds, unless both share.

    Raises
    ------
    GpuHeldError
        Others hold them; the message says who.
    GpuUnavailableError
        There are no such GPUs.
    """
    holders = holders_of(lease for lease in leases if not (spec.share and lease.share))
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


def bytes_of(amount: int | float | None, chosen: Sequence[GpuState]) -> int | None:
    """An amount in bytes; a fraction is one of the smallest GPU, so that it fits each."""
    if not isinstance(amount, float):
        return amount
    totals = [gpu.memory_total for gpu in chosen if gpu.memory_total]
    return int(min(totals) * amount) if totals else None


def check_memory(pool: int | None, chosen: Iterable[GpuState]) -> None:
    """See that each GPU has so many bytes free.

    Raises
    ------
    GpuUnavailableError
        One has not; the message has the numbers.
    """
    for gpu in chosen:
        if pool is None or gpu.memory_total is None or gpu.memory_used is None:
            continue
        free = gpu.memory_total - gpu.memory_used
        if pool > free:
            raise GpuUnavailableError(
                f"--pool asks for {format_bytes(pool)} on each GPU, and GPU {gpu.index} has {format_bytes(free)} "
                f"free of {format_bytes(gpu.memory_total)}.",
                "Give less, or free it: %gpudask gpus shows who holds it.",
            )


def check_replacement(spec: ClusterSpec, supervisor: int, environment: Mapping[str, str] | None = None) -> None:
    """See that there will be GPUs for `spec` when the cluster of a supervisor is closed; it blocks.

    Parameters
    ----------
    spec
        What shall take its place.
    supervisor
        The pid of its supervisor.
    environment
        Of the kernel, by default this process's.

    Raises
    ------
    GpuHeldError, GpuUnavailableError
        There will not.
    """
    if spec.engine == "cpu" or spec.profile:
        return
    try:
        visible = gpus.visible_gpus(environment)
    except GpuUnavailableError:
        if spec.engine == "auto" and spec.gpus == "all":
            return
        raise
    if not visible and spec.engine == "auto" and spec.gpus == "all":
        return
    leases = LeaseFolder().read()
    chosen = choose_free(spec, visible, [lease for lease in leases if lease.pid != supervisor])
    freed = {uuid for lease in leases if lease.pid == supervisor for uuid in lease.gpus}
    after = [_without_session(gpu, supervisor) if gpu.uuid in freed else gpu for gpu in chosen]
    check_memory(bytes_of(spec.pool, chosen), after)


def _without_session(gpu: GpuState, session: int) -> GpuState:
    """The GPU when the processes of a session have ended; if NVML does not list them, all of it may be free then."""
    sizes = [process.memory for process in gpu.processes if _session_of(process.pid) == session]
    known = [size for size in sizes if size is not None]
    used = (gpu.memory_used or 0) - sum(known) if sizes and len(known) == len(sizes) else 0
    return gpu.model_copy(update={"memory_used": max(0, used)})


def _session_of(pid: int) -> int | None:
    try:
        return os.getsid(pid)
    except OSError:  # gone since, or of another container
        return None
