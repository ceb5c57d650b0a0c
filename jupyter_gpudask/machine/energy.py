"""The energy used by GPUs, from NVML's counter."""

from __future__ import annotations

import pynvml

from ..errors import GpuUnavailableError
from .nvml import open_nvml


def read_energy(uuid: str) -> float | None:
    """The energy that a GPU has used since its driver was loaded, in joules.

    Parameters
    ----------
    uuid
        ``GPU-...``; anything else is no whole GPU. The counter of a MIG instance would be that of its GPU, which others
        use, too.

    Returns
    -------
    float or None
        `None` if there is no such counter: GPUs before Volta do not have it.
        Source: NVML API reference, nvmlDeviceGetTotalEnergyConsumption.
    """
    if not uuid.startswith("GPU-"):
        return None
    try:
        with open_nvml():
            return _read(uuid)
    except GpuUnavailableError:
        return None


def _read(uuid: str) -> float | None:
    try:
        handle = pynvml.nvmlDeviceGetHandleByUUID(uuid)
        is_split = _is_split(handle)
        return None if is_split else float(pynvml.nvmlDeviceGetTotalEnergyConsumption(handle)) / 1000
    except pynvml.NVMLError:
        return None


def _is_split(handle: object) -> bool:
    """Whether the GPU is in MIG mode."""
    try:
        current, _ = pynvml.nvmlDeviceGetMigMode(handle)
    except pynvml.NVMLError:  # a GPU that has no such mode
        return False
    return bool(current == pynvml.NVML_DEVICE_MIG_ENABLE)
