"""Measure the PCIe traffic of GPUs whose driver has no suitable counter for it.

GPUs since Hopper measure it with GPU Performance Monitoring (GPM), as the average between two samples. A sample takes a
few tenths of a millisecond. On other GPUs, NVML measures for 20 ms in each direction.
Source: NVIDIA Management Library API reference, "GPM Functions" and nvmlDeviceGetPcieThroughput.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pynvml

from ..errors import GpuUnavailableError
from .nvml import open_nvml

if TYPE_CHECKING:
    from collections.abc import Iterable

    from .nvml import Nvml

_GPM_METRICS = (pynvml.NVML_GPM_METRIC_PCIE_TX_PER_SEC, pynvml.NVML_GPM_METRIC_PCIE_RX_PER_SEC)
_DIRECTIONS = (pynvml.NVML_PCIE_UTIL_TX_BYTES, pynvml.NVML_PCIE_UTIL_RX_BYTES)
_GPM_UNIT = 2**20
_THROUGHPUT_UNIT = 1000


class PcieMeter:
    """Measures PCIe traffic repeatedly. It blocks, and is not thread-safe."""

    def __init__(self) -> None:
        self._samples: dict[str, Any] = {}
        self._opening = 0

    def read(self, uuids: Iterable[str]) -> dict[str, int]:
        """The traffic of these GPUs, sent and received, in bytes per second.

        Parameters
        ----------
        uuids
            ``GPU-...``; MIG instances have no such metric.

        Returns
        -------
        dict
            By UUID, without the GPUs of which it is not known. Of those with GPM it is the average since the previous
            call, and therefore not known the first time; of others that of a short part of the call.
        """
        wanted = [uuid for uuid in uuids if uuid.startswith("GPU-")]
        try:
            with open_nvml() as nvml:
                return self._read(nvml, wanted)
        except GpuUnavailableError:
            return {}

    def close(self) -> None:
        """Release the samples."""
        for sample in self._samples.values():
            _free(sample)
        self._samples.clear()

    def _read(self, nvml: Nvml, uuids: list[str]) -> dict[str, int]:
        if nvml.openings != self._opening:  # NVML may not compare samples of before it was closed with new ones
            self.close()
            self._opening = nvml.openings
        rates: dict[str, int] = {}
        others: dict[str, Any] = {}
        for uuid in uuids:
            try:
                handle = pynvml.nvmlDeviceGetHandleByUUID(uuid)
                if not _has_gpm(handle):
                    others[uuid] = handle
                elif (rate := self._average(uuid, handle)) is not None:
                    rates[uuid] = rate
            except pynvml.NVMLError:
                self._drop(uuid)
        return rates | _measure(others)

    def _average(self, uuid: str, handle: Any) -> int | None:
        """The rate since the previous sample; `None` if there is none."""
        sample = pynvml.nvmlGpmSampleAlloc()
        try:
            pynvml.nvmlGpmSampleGet(handle, sample)
        except pynvml.NVMLError:
            _free(sample)
            raise
        previous = self._samples.get(uuid)
        self._samples[uuid] = sample
        if previous is None:
            return None
        try:
            return _difference(previous, sample)
        finally:
            _free(previous)

    def _drop(self, uuid: str) -> None:
        sample = self._samples.pop(uuid, None)
        if sample is not None:
            _free(sample)


def _has_gpm(handle: Any) -> bool:
    try:
        return bool(pynvml.nvmlGpmQueryDeviceSupport(handle).isSupportedDevice)
    except (pynvml.NVMLError_NotSupported, pynvml.NVMLError_FunctionNotFound):
        return False


def _difference(before: Any, now: Any) -> int | None:
    request = pynvml.c_nvmlGpmMetricsGet_t()
    request.version = pynvml.NVML_GPM_METRICS_GET_VERSION
    request.numMetrics = len(_GPM_METRICS)
    request.sample1, request.sample2 = before, now
    for number, metric in enumerate(_GPM_METRICS):
        request.metrics[number].metricId = metric
    pynvml.nvmlGpmMetricsGet(request)
    answers = [request.metrics[number] for number in range(len(_GPM_METRICS))]
    if any(answer.nvmlReturn != pynvml.NVML_SUCCESS for answer in answers):
        return None
    rate: float = sum(answer.value for answer in answers)
    return round(rate * _GPM_UNIT)


def _measure(handles: dict[str, Any]) -> dict[str, int]:
    """Measure the rates of all these GPUs at the same time."""
    if not handles:
        return {}
    with ThreadPoolExecutor(len(handles), thread_name_prefix="gpudask-pcie") as threads:
        rates = threads.map(_throughput, handles.values())
        return {uuid: rate for uuid, rate in zip(handles, rates, strict=True) if rate is not None}


def _throughput(handle: Any) -> int | None:
    try:
        rate: int = sum(pynvml.nvmlDeviceGetPcieThroughput(handle, each) for each in _DIRECTIONS)
    except pynvml.NVMLError:
        return None
    return rate * _THROUGHPUT_UNIT


def _free(sample: Any) -> None:
    try:
        pynvml.nvmlGpmSampleFree(sample)
    except pynvml.NVMLError:  # NVML was closed in the meantime
        return
