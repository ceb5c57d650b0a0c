"""The GPUs of this machine, as NVML tells of them: which there are, what they are doing, and who holds them.

NVML reads all of it without a CUDA context. Its numbers follow the PCI bus, as CUDA's do under
``CUDA_DEVICE_ORDER=PCI_BUS_ID``. Source: NVIDIA Management Library API reference.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, TypeVar

import pynvml

from ..errors import GpuUnavailableError
from ..protocol import GpuProcess, GpuState
from .nvml import open_nvml

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

_T = TypeVar("_T")

# NVLink's are in KiB, and summed over all links by that scope. Source: nvml.h, "Field Identifiers". PCIe's, in bytes,
# have no name in older releases of pynvml.
_ALL_LINKS = 2**32 - 1
_NVLINK = (
    (pynvml.NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX, _ALL_LINKS),
    (pynvml.NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_RX, _ALL_LINKS),
)
_PCIE = (197, 198)
_LONG = (pynvml.NVML_VALUE_TYPE_UNSIGNED_LONG, pynvml.NVML_VALUE_TYPE_UNSIGNED_LONG_LONG)


def list_gpus() -> list[GpuState]:
    """All GPUs of the machine; a GPU that is cut into MIG instances is listed as those.

    Returns
    -------
    list of GpuState
        In the order of the PCI bus; a metric that a GPU does not tell is `None`. One that does not tell its UUID, by
        which it would be chosen and held, is left out as one that does not answer.

    Raises
    ------
    GpuUnavailableError
        NVML cannot be asked; the message says why.
    """
    with open_nvml() as nvml:
        gpus: list[GpuState] = []
        for index in range(pynvml.nvmlDeviceGetCount()):
            handle = _ask(pynvml.nvmlDeviceGetHandleByIndex, index)
            parts = [] if handle is None else _mig_instances(handle) or [handle]
            found = [gpu for part in parts if (gpu := _read(index, part)) is not None]
            if len(found) < max(1, len(parts)):  # one that comes back is seen by NVML that was opened since
                nvml.close_soon()
            gpus.extend(found)
        return gpus


def read_use(gpus: Iterable[GpuState]) -> list[GpuState]:
    """Memory and utilization of these GPUs now, and nothing else of them, for each metric takes NVML its time.

    Returns
    -------
    list of GpuState
        In the same order; all other metrics are `None`, and those too of a GPU that no longer answers.

    Raises
    ------
    GpuUnavailableError
        NVML cannot be asked; the message says why.
    """
    with open_nvml():
        return [_read_use(gpu) for gpu in gpus]


def visible_gpus(environment: Mapping[str, str] | None = None) -> list[GpuState]:
    """The GPUs that a CUDA program started with `environment` may use, in the order in which it would number them.

    Parameters
    ----------
    environment
        Variables of the program, by default those of this process. ``CUDA_VISIBLE_DEVICES`` names GPUs by number
        or by the start of a UUID; as in CUDA, what comes after the first unknown name is ignored. What the numbers
        mean ``CUDA_DEVICE_ORDER`` says.

    Raises
    ------
    GpuUnavailableError
        NVML cannot be asked, or what the numbers mean cannot be known.
    """
    environment = os.environ if environment is None else environment
    gpus = list_gpus()
    devices = environment.get("CUDA_VISIBLE_DEVICES")
    if devices is None:
        return gpus
    names = [part.strip() for part in devices.split(",")]
    by_bus = environment.get("CUDA_DEVICE_ORDER") == "PCI_BUS_ID"
    if not by_bus and any(name.isdecimal() for name in names) and len({gpu.name for gpu in gpus}) > 1:
        # Else CUDA puts the fastest first, by its own estimate. Source: CUDA C++ Programming Guide, CUDA_DEVICE_ORDER.
        raise GpuUnavailableError(
            f"CUDA_VISIBLE_DEVICES is {devices}, and this machine has GPUs of several kinds, which CUDA numbers as it "
            "likes.",
            "Set CUDA_DEVICE_ORDER=PCI_BUS_ID too, or name the GPUs by UUID.",
        )
    visible: list[GpuState] = []
    for name in names:
        gpu = _find(gpus, int(name) if name.isdecimal() else name)
        if gpu is None or gpu in visible:
            break
        visible.append(gpu)
    return visible


def choose_gpus(wanted: str | int | Sequence[int | str], visible: Sequence[GpuState]) -> list[GpuState]:
    """Those of the `visible` GPUs that are wanted.

    Parameters
    ----------
    wanted
        ``"all"``; a count, for the GPUs with the most free memory; or indices and UUIDs.
    visible
        What there is to choose from.

    Returns
    -------
    list of GpuState
        At least one; a count keeps the order of `visible`.

    Raises
    ------
    GpuUnavailableError
        There are fewer, or one of those named is not among them.
    """
    available = ", ".join(f"{gpu.index} ({gpu.name})" for gpu in visible) or "none"
    if not visible:
        raise GpuUnavailableError(
            "No GPU is visible to this kernel.", "Look at CUDA_VISIBLE_DEVICES, or start with --cpu."
        )
    if wanted == "all":
        return list(visible)
    if isinstance(wanted, int):
        if wanted > len(visible):
            raise GpuUnavailableError(
                f"--gpus {wanted} asks for more GPUs than there are: {available}.",
                f"Give at most {len(visible)}.",
            )
        freest = sorted(visible, key=lambda gpu: -_free(gpu))[:wanted]
        return [gpu for gpu in visible if gpu in freest]
    chosen = []
    for name in wanted:
        gpu = _find(visible, name)
        if gpu is None:
            raise GpuUnavailableError(f"--gpus names GPU {name}, which is not one of: {available}.")
        if gpu in chosen:
            raise GpuUnavailableError(f"--gpus names GPU {gpu.index} twice.", "Name each GPU once.")
        chosen.append(gpu)
    return chosen


def cuda_driver_version() -> int:
    """The newest version of CUDA that the driver knows, such as 13 for CUDA 13.0.

    Raises
    ------
    GpuUnavailableError
        NVML cannot be asked.
    """
    with open_nvml():
        return int(pynvml.nvmlSystemGetCudaDriverVersion()) // 1000


def driver_version() -> str:
    """The version of the driver, such as ``580.65.06``.

    Raises
    ------
    GpuUnavailableError
        NVML cannot be asked.
    """
    with open_nvml():
        return str(pynvml.nvmlSystemGetDriverVersion())


def _ask(function: Callable[..., _T], *arguments: Any) -> _T | None:
    """What NVML answers, or `None` where this GPU, driver or user has no such metric."""
    try:
        return function(*arguments)
    except pynvml.NVMLError:
        return None


def _mig_instances(handle: Any) -> list[Any]:
    mode = _ask(pynvml.nvmlDeviceGetMigMode, handle)
    if mode is None or mode[0] != pynvml.NVML_DEVICE_MIG_ENABLE:
        return []
    count = _ask(pynvml.nvmlDeviceGetMaxMigDeviceCount, handle) or 0
    instances = (_ask(pynvml.nvmlDeviceGetMigDeviceHandleByIndex, handle, number) for number in range(count))
    return [instance for instance in instances if instance is not None]


def _read(index: int, handle: Any) -> GpuState | None:
    uuid = _ask(pynvml.nvmlDeviceGetUUID, handle)
    if uuid is None:
        return None
    memory = _ask(pynvml.nvmlDeviceGetMemoryInfo, handle)
    utilization = _ask(pynvml.nvmlDeviceGetUtilizationRates, handle)
    power = _ask(pynvml.nvmlDeviceGetPowerUsage, handle)
    nvlink, pcie = _traffic(handle)
    return GpuState(
        index=index,
        uuid=uuid,
        name=_ask(pynvml.nvmlDeviceGetName, handle) or "NVIDIA GPU",
        memory_total=None if memory is None else memory.total,
        memory_used=None if memory is None else memory.used,
        utilization=None if utilization is None else utilization.gpu,
        temperature=_ask(pynvml.nvmlDeviceGetTemperature, handle, pynvml.NVML_TEMPERATURE_GPU),
        power=None if power is None else power / 1000,
        nvlink_bytes=nvlink,
        pcie_bytes=pcie,
        processes=tuple(
            GpuProcess(pid=process.pid, memory=process.usedGpuMemory)
            for process in _ask(pynvml.nvmlDeviceGetComputeRunningProcesses, handle) or ()
        ),
    )


def _read_use(gpu: GpuState) -> GpuState:
    handle = _ask(pynvml.nvmlDeviceGetHandleByUUID, gpu.uuid)
    memory = None if handle is None else _ask(pynvml.nvmlDeviceGetMemoryInfo, handle)
    utilization = None if handle is None else _ask(pynvml.nvmlDeviceGetUtilizationRates, handle)
    return GpuState(
        index=gpu.index,
        uuid=gpu.uuid,
        name=gpu.name,
        memory_total=None if memory is None else memory.total,
        memory_used=None if memory is None else memory.used,
        utilization=None if utilization is None else utilization.gpu,
    )


def _traffic(handle: Any) -> tuple[int | None, int | None]:
    """Bytes that went over NVLink and over PCIe so far: counters, for to be told PCIe's speed one waits 20 ms.

    A counter of 32 bits, as that of PCIe is on an H200 with driver 580, begins anew several times a second.
    """
    values = _ask(pynvml.nvmlDeviceGetFieldValues, handle, [*_NVLINK, *_PCIE])
    if values is None:
        return None, None
    sent, received, sent_by_pcie, received_by_pcie = (
        value.value.ullVal if value.nvmlReturn == pynvml.NVML_SUCCESS and value.valueType in _LONG else None
        for value in values
    )
    nvlink = None if sent is None or received is None else (sent + received) * 1024
    pcie = None if sent_by_pcie is None or received_by_pcie is None else sent_by_pcie + received_by_pcie
    return nvlink, pcie


def _find(gpus: Sequence[GpuState], name: int | str) -> GpuState | None:
    if isinstance(name, int):
        return next((gpu for gpu in gpus if gpu.index == name), None)
    if not name.startswith(("GPU-", "MIG-")):
        return None
    matches = [gpu for gpu in gpus if gpu.uuid.startswith(name)]
    return matches[0] if len(matches) == 1 else None


def _free(gpu: GpuState) -> int:
    return (gpu.memory_total or 0) - (gpu.memory_used or 0)
