"""NVML: opening it, the energy and the PCIe traffic of GPUs.

Opening and closing NVML for each reading takes tens of milliseconds, and a driver without persistence mode initializes
the GPUs again after the last process has closed them. While NVML is open, GPUs cannot be reset and MIG mode cannot be
changed. Source: NVIDIA Management Library API reference, "Initialization and Cleanup"; NVIDIA Driver Persistence.

GPUs since Hopper measure PCIe traffic with GPU Performance Monitoring (GPM), as the average between two samples. A
sample takes a few tenths of a millisecond. On other GPUs, NVML measures for 20 ms in each direction. Source: NVIDIA
Management Library API reference, "GPM Functions" and nvmlDeviceGetPcieThroughput.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from typing import Any, TypeVar

import pynvml

from ..errors import GpuUnavailableError

_T = TypeVar("_T")

_IDLE = 10.0
"""Seconds for which NVML stays open after its last use."""


@contextmanager
def open_nvml() -> Iterator[Nvml]:
    """Use NVML in a ``with`` block, which raises `GpuUnavailableError` for its errors; the message says why."""
    nvml = _nvml_of(os.getpid())
    try:
        nvml.begin()
    except pynvml.NVMLError as error:
        raise _unavailable(error) from None
    try:
        yield nvml
    except pynvml.NVMLError as error:
        nvml.close_soon()
        raise _unavailable(error) from None
    finally:
        nvml.end()


def count_gpus() -> int:
    """The number of GPUs of the machine, of one in MIG mode as one; 0 if NVML is not available."""
    try:
        with open_nvml():
            return int(pynvml.nvmlDeviceGetCount())
    except GpuUnavailableError:
        return 0


class Nvml:
    """Counts the users of NVML in all threads; a thread closes it when there was none for `_IDLE` seconds.

    - `openings`: how often NVML was opened: what NVML gave out before the last time is no longer valid.
    """

    def __init__(self) -> None:
        self.openings = 0
        self._lock = threading.Lock()
        self._users = 0
        self._is_open = False
        self._is_stale = False
        self._until = 0.0
        self._closer: threading.Thread | None = None

    def begin(self) -> None:
        """Add a user; opens NVML if it is not open."""
        with self._lock:
            if not self._is_open:
                pynvml.nvmlInit()
                self._is_open, self._is_stale = True, False
                self.openings += 1
            self._users += 1
            self._until = time.monotonic() + _IDLE
            if self._closer is None:
                self._closer = threading.Thread(target=self._close_when_idle, name="gpudask-nvml", daemon=True)
                self._closer.start()

    def end(self) -> None:
        """Remove a user."""
        with self._lock:
            self._users -= 1
            if self._is_stale and not self._users:
                self._close()

    def close_soon(self) -> None:
        """Close NVML as soon as it has no users, because its list of GPUs may be out of date."""
        self._is_stale = True

    def _close_when_idle(self) -> None:
        while True:
            with self._lock:
                rest = self._until - time.monotonic()
                if self._is_open and not self._users and rest <= 0:
                    self._close()
                if not self._is_open:
                    self._closer = None
                    return
            time.sleep(max(rest, _IDLE / 10))

    def _close(self) -> None:
        self._is_open = False
        pynvml.nvmlShutdown()


@cache
def _nvml_of(_pid: int) -> Nvml:
    """The `Nvml` of this process; a forked process must neither use nor close the one of its parent."""
    return Nvml()


def _unavailable(error: pynvml.NVMLError) -> GpuUnavailableError:
    codes = {
        pynvml.NVMLError_LibraryNotFound: "no-driver",
        pynvml.NVMLError_DriverNotLoaded: "driver-not-loaded",
        pynvml.NVMLError_NoPermission: "no-permission",
    }
    code = codes.get(type(error))
    return GpuUnavailableError(code) if code else GpuUnavailableError("driver-error", error=error)


def ask(function: Callable[..., _T], *arguments: Any) -> _T | None:
    """The result of an NVML function; `None` if this GPU, driver or user has no such metric."""
    try:
        return function(*arguments)
    except pynvml.NVMLError:
        return None


def is_in_mig_mode(handle: Any) -> bool:
    """Whether a GPU is divided into MIG instances."""
    mode = ask(pynvml.nvmlDeviceGetMigMode, handle)
    return mode is not None and mode[0] == pynvml.NVML_DEVICE_MIG_ENABLE


def read_energy(uuid: str) -> float | None:
    """The energy that a GPU has used since its driver was loaded, in joules.

    `uuid`: ``GPU-...``; anything else is no whole GPU. The counter of a MIG instance would be that of its GPU, which
    others use, too. Returns `None` if there is no such counter: GPUs before Volta do not have it. Source: NVML API
    reference, nvmlDeviceGetTotalEnergyConsumption.
    """
    if not uuid.startswith("GPU-"):
        return None
    try:
        with open_nvml():
            handle = ask(pynvml.nvmlDeviceGetHandleByUUID, uuid)
            is_whole = handle is not None and not is_in_mig_mode(handle)
            energy: int | None = ask(pynvml.nvmlDeviceGetTotalEnergyConsumption, handle) if is_whole else None
            return None if energy is None else energy / 1000
    except GpuUnavailableError:
        return None


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

        `uuids`: ``GPU-...``; MIG instances have no such metric. The result is by UUID, without the GPUs of which it is
        not known. Of those with GPM it is the average since the previous call, and therefore not known the first time;
        of others that of a short part of the call.
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
                _free(self._samples.pop(uuid, None))
        return rates | _measure(others)

    def _average(self, uuid: str, handle: Any) -> int | None:
        """The rate since the previous sample; `None` if there is none."""
        sample = pynvml.nvmlGpmSampleAlloc()
        try:
            pynvml.nvmlGpmSampleGet(handle, sample)
        except pynvml.NVMLError:
            _free(sample)
            raise
        previous, self._samples[uuid] = self._samples.get(uuid), sample
        try:
            return None if previous is None else _difference(previous, sample)
        finally:
            _free(previous)


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
    rates = [ask(pynvml.nvmlDeviceGetPcieThroughput, handle, each) for each in _DIRECTIONS]
    return None if None in rates else sum(filter(None, rates)) * _THROUGHPUT_UNIT


def _free(sample: Any) -> None:
    if sample is not None:
        ask(pynvml.nvmlGpmSampleFree, sample)  # NVML may have been closed in the meantime
