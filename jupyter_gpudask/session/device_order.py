"""Choose the GPU of the kernel itself: CuPy and cuDF use device 0, the first in ``CUDA_VISIBLE_DEVICES``."""

from __future__ import annotations

import ctypes
import os
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import AccelerationError, GpuHeldError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ..machine.leases import Lease, OwnLease
    from ..protocol.state import GpuState

_NOT_INITIALIZED = 3  # CUDA_ERROR_NOT_INITIALIZED


def set_first_device(gpus: Sequence[str]) -> None:
    """Make the first of `gpus`, by UUID, device 0 of this process, unless CUDA is initialized already.

    Results that are moved to the kernel are then on a GPU that its cluster holds, and not on a GPU that another cluster
    holds. All other GPUs stay visible.
    """
    if not gpus:
        return
    from ..machine.gpus import visible_gpus

    visible = [gpu.uuid for gpu in visible_gpus()]
    first = [uuid for uuid in gpus if uuid in visible][:1]
    if first and first != visible[:1] and not _is_initialized():
        os.environ["CUDA_VISIBLE_DEVICES"] = ",".join([*first, *(uuid for uuid in visible if uuid not in first)])


@contextmanager
def lease_first_device(visible: Sequence[GpuState], kernel_id: str, supervisor: int | None) -> Iterator[GpuState]:
    """Make a GPU device 0 of this process that no cluster of another kernel holds, and hold it as long as this lives.

    If the body raises, the lease is released.

    `kernel_id`, `supervisor`: this kernel, and the pid of its supervisor if it has a cluster. A GPU of this cluster is
    preferred; otherwise it is the free GPU with the most free memory. Raises `GpuHeldError` if other clusters hold all
    of them, or the one that this process already uses. Raises `AccelerationError` if the lease cannot be written.
    """
    from ..machine.leases import LeaseFolder

    folder = LeaseFolder()
    lease: OwnLease | None = None
    try:
        with folder.lock() as leases:
            first = _set_first_unleased_device(visible, leases, kernel_id, supervisor)
            if not any(each.is_of_this_process for each in leases):
                notebook = Path(os.environ.get("JPY_SESSION_NAME", "")).name or f"process {os.getpid()}"
                holder = f"{notebook} (accelerated)"
                uuids = (first.uuid,)
                lease = folder.take(uuids, holder=holder, kernel_id=kernel_id, share=False, accelerates=True)
    except OSError as error:
        raise AccelerationError("gpu-lease-not-written", folder=folder.place_of(error), error=error.strerror) from None
    try:
        yield first
    except BaseException:
        if lease is not None:
            lease.release()
        raise


def _set_first_unleased_device(
    visible: Sequence[GpuState], leases: Sequence[Lease], kernel_id: str, supervisor: int | None
) -> GpuState:
    from ..machine.gpus import visible_gpus
    from ..machine.leases import holders_of
    from ..machine.plan import select_unleased_gpus
    from ..protocol.spec import ClusterSpec

    own = [
        lease
        for lease in leases
        if lease.is_of_this_process or lease.pid == supervisor or (kernel_id and lease.kernel_id == kernel_id)
    ]
    own_gpus = {uuid for lease in own for uuid in lease.gpus}
    candidates = [gpu for gpu in visible if gpu.uuid in own_gpus]
    if not candidates:
        try:
            candidates = select_unleased_gpus(ClusterSpec.parse({"gpus": 1}), visible, leases)
        except GpuHeldError as error:
            raise GpuHeldError("no-gpu-to-accelerate", **error.fields, held_gpus=error.held_gpus) from None
    set_first_device([candidates[0].uuid])
    first = visible_gpus()[0]
    holders = holders_of(leases).get(first.uuid, [])
    if first.uuid not in own_gpus and holders:  # CUDA is initialized, and keeps its device
        raise GpuHeldError("first-gpu-held", gpu=first.index, holders=" and ".join(holders))
    return first


def _is_initialized() -> bool:
    """Whether CUDA is initialized in this process; from then on it ignores changes of ``CUDA_VISIBLE_DEVICES``.

    Source: CUDA Driver API, "Initialization": before, all other functions return ``CUDA_ERROR_NOT_INITIALIZED``.
    """
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return False
    return int(driver.cuDeviceGetCount(ctypes.byref(ctypes.c_int()))) != _NOT_INITIALIZED
