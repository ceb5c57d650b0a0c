"""The GPUs of this machine and their metrics, such as memory, utilization and temperature, read from NVML.

NVML needs no CUDA context. It numbers devices in PCI bus order, as CUDA does with ``CUDA_DEVICE_ORDER=PCI_BUS_ID``.
Source: NVIDIA Management Library API reference.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pynvml

from ..errors import GpuUnavailableError
from ..protocol.state import GpuProcess, GpuState
from .nvml import ask, is_in_mig_mode, open_nvml

# The NVLink counters are in KiB, and this scope sums them over all links. Source: nvml.h, "Field Identifiers". The PCIe
# counters are in bytes; older releases of pynvml have no names for them.
_ALL_LINKS = 2**32 - 1
_NVLINK = (
    (pynvml.NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX, _ALL_LINKS),
    (pynvml.NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_RX, _ALL_LINKS),
)
_PCIE = (197, 198)
_LONG = (pynvml.NVML_VALUE_TYPE_UNSIGNED_LONG, pynvml.NVML_VALUE_TYPE_UNSIGNED_LONG_LONG)


def list_gpus() -> list[GpuState]:
    """All GPUs of the machine; a GPU in MIG mode is listed as its MIG instances.

    The GPUs are in PCI bus order. A metric that a GPU does not report is `None`; a GPU that does not report its UUID is
    left out. Raises `GpuUnavailableError` if NVML is not available; the message says why.
    """
    with open_nvml() as nvml:
        gpus: list[GpuState] = []
        for index in range(pynvml.nvmlDeviceGetCount()):
            handle = ask(pynvml.nvmlDeviceGetHandleByIndex, index)
            parts = [] if handle is None else _mig_instances(handle) or [handle]
            found = [gpu for part in parts if (gpu := _read(index, part)) is not None]
            if len(found) < max(1, len(parts)):  # NVML sees a GPU that comes back only after it is opened again
                nvml.close_soon()
            gpus.extend(found)
        return gpus


def read_use(gpus: Iterable[GpuState]) -> list[GpuState]:
    """The current memory and utilization of these GPUs; reading only these is faster than `list_gpus`.

    The result has the same order. All other metrics are `None`, and so are these two of a GPU that no longer responds.
    Raises `GpuUnavailableError` if NVML is not available; the message says why.
    """
    with open_nvml():
        return [_read_use(gpu) for gpu in gpus]


def visible_gpus(environment: Mapping[str, str] | None = None) -> list[GpuState]:
    """The GPUs that are visible to a CUDA program, in its device order.

    `environment`: environment variables of the program, by default those of this process. ``CUDA_VISIBLE_DEVICES``
    lists GPUs by index or by a prefix of a UUID; as in CUDA, entries after the first unknown one are ignored.
    ``CUDA_DEVICE_ORDER`` determines what the indices mean. Raises `GpuUnavailableError` if NVML is not available, or it
    cannot be determined what the indices mean.
    """
    environment = os.environ if environment is None else environment
    gpus = list_gpus()
    devices = environment.get("CUDA_VISIBLE_DEVICES")
    if devices is None:
        return gpus
    names = [part.strip() for part in devices.split(",")]
    by_bus = environment.get("CUDA_DEVICE_ORDER") == "PCI_BUS_ID"
    if not by_bus and any(name.isdecimal() for name in names) and len({gpu.name for gpu in gpus}) > 1:
        # By default CUDA puts the fastest GPU first, by its own estimate. Source: CUDA C++ Programming Guide,
        # CUDA_DEVICE_ORDER.
        raise GpuUnavailableError("devices-ambiguous", devices=devices)
    visible: list[GpuState] = []
    for name in names:
        gpu = _find(gpus, int(name) if name.isdecimal() else name)
        if gpu is None or gpu in visible:
            break
        visible.append(gpu)
    return visible


def require_gpus(environment: Mapping[str, str] | None = None) -> list[GpuState]:
    """The GPUs of `visible_gpus`, at least one; raises the same errors, and `GpuUnavailableError` if there is none."""
    environment = os.environ if environment is None else environment
    visible = visible_gpus(environment)
    if not visible:
        if not (hidden := list_gpus()):
            raise GpuUnavailableError("no-gpu")
        raise GpuUnavailableError(
            "gpus-hidden", devices=environment.get("CUDA_VISIBLE_DEVICES", "").strip(), count=len(hidden)
        )
    return visible


def select_gpus(wanted: str | int | Sequence[int | str], visible: Sequence[GpuState]) -> list[GpuState]:
    """Select GPUs.

    `wanted`: ``"all"``; a count, for the GPUs with the most free memory; or indices and UUIDs. `visible`: the GPUs to
    select from, at least one. The result has at least one; with a count, in the order of `visible`. Raises
    `GpuUnavailableError` if there are fewer, or `visible` does not include one of them.
    """
    available = ", ".join(f"{gpu.index} ({gpu.name})" for gpu in visible)
    if wanted == "all":
        return list(visible)
    if isinstance(wanted, int):
        if wanted > len(visible):
            raise GpuUnavailableError("too-few-gpus", wanted=wanted, count=len(visible))
        freest = sorted(visible, key=lambda gpu: -_free(gpu))[:wanted]
        return [gpu for gpu in visible if gpu in freest]
    chosen = []
    for name in wanted:
        gpu = _find(visible, name)
        if gpu is None:
            raise GpuUnavailableError("unknown-gpu", name=name, available=available)
        if gpu in chosen:
            raise GpuUnavailableError("gpu-twice", name=gpu.index)
        chosen.append(gpu)
    return chosen


def are_selected(gpus: Sequence[GpuState], wanted: str | int | Sequence[int | str]) -> bool:
    """Whether `wanted` asks for exactly as many GPUs as these, or lists them; ``"all"`` depends on other GPUs, too."""
    if isinstance(wanted, str):
        return False
    return wanted == len(gpus) if isinstance(wanted, int) else [_find(gpus, name) for name in wanted] == list(gpus)


def cuda_driver_version() -> int:
    """The newest major version of CUDA that the driver supports, such as 13 for CUDA 13.0."""
    with open_nvml():
        return int(pynvml.nvmlSystemGetCudaDriverVersion()) // 1000


def extra_for_gpus() -> str:
    """The extra of this package for the CUDA version of the driver; empty without a driver."""
    try:
        return "cu13" if cuda_driver_version() >= 13 else "cu12"
    except GpuUnavailableError:
        return ""


def driver_version() -> str:
    """The version of the driver, such as ``580.65.06``; raises `GpuUnavailableError` if NVML is not available."""
    with open_nvml():
        return str(pynvml.nvmlSystemGetDriverVersion())


def _mig_instances(handle: Any) -> list[Any]:
    if not is_in_mig_mode(handle):
        return []
    count = ask(pynvml.nvmlDeviceGetMaxMigDeviceCount, handle) or 0
    instances = (ask(pynvml.nvmlDeviceGetMigDeviceHandleByIndex, handle, number) for number in range(count))
    return [instance for instance in instances if instance is not None]


def _read(index: int, handle: Any) -> GpuState | None:
    uuid = ask(pynvml.nvmlDeviceGetUUID, handle)
    if uuid is None:
        return None
    power = ask(pynvml.nvmlDeviceGetPowerUsage, handle)
    nvlink, pcie = _traffic(handle)
    return GpuState(
        index=index,
        uuid=uuid,
        name=ask(pynvml.nvmlDeviceGetName, handle) or "NVIDIA GPU",
        **_use(handle),
        temperature=ask(pynvml.nvmlDeviceGetTemperature, handle, pynvml.NVML_TEMPERATURE_GPU),
        power=None if power is None else power / 1000,
        nvlink_bytes=nvlink,
        pcie_bytes=pcie,
        processes=tuple(
            GpuProcess(pid=process.pid, memory=process.usedGpuMemory)
            for process in ask(pynvml.nvmlDeviceGetComputeRunningProcesses, handle) or ()
        ),
    )


def _read_use(gpu: GpuState) -> GpuState:
    handle = ask(pynvml.nvmlDeviceGetHandleByUUID, gpu.uuid)
    return GpuState(index=gpu.index, uuid=gpu.uuid, name=gpu.name, **({} if handle is None else _use(handle)))


def _use(handle: Any) -> dict[str, Any]:
    memory = ask(pynvml.nvmlDeviceGetMemoryInfo, handle)
    utilization = ask(pynvml.nvmlDeviceGetUtilizationRates, handle)
    return {
        "memory_total": memory and memory.total,
        "memory_used": memory and memory.used,
        "utilization": utilization and utilization.gpu,
    }


def _traffic(handle: Any) -> tuple[int | None, int | None]:
    """Counters of the bytes sent and received over NVLink and over PCIe; for GPUs without one see `machine/nvml.py`.

    32-bit counters are ignored, such as that of PCIe on an H200 with driver 580: they overflow several times a second.
    """
    values = ask(pynvml.nvmlDeviceGetFieldValues, handle, [*_NVLINK, *_PCIE])
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


def first_device() -> dict[str, Any] | None:
    """Index, UUID and product name of the GPU that is device 0 of this process; `None` without a GPU."""
    try:
        gpu = next(iter(visible_gpus()), None)
    except GpuUnavailableError:
        return None
    return None if gpu is None else {"index": gpu.index, "uuid": gpu.uuid, "name": gpu.name}
