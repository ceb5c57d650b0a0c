"""NVML: opening it, the energy and the PCIe traffic of GPUs.

Opening and closing NVML for each reading takes tens of milliseconds, and a driver without persistence mode initializes
the GPUs again after the last process has closed them. While NVML is open, GPUs cannot be reset and MIG mode cannot be
changed. Source: NVIDIA Management Library API reference, "Initialization and Cleanup"; NVIDIA Driver Persistence.
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
    """Counts the users of NVML in all threads; a thread closes it when there was none for `_IDLE` seconds."""

    def __init__(self) -> None:
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


_DIRECTIONS = (pynvml.NVML_PCIE_UTIL_TX_BYTES, pynvml.NVML_PCIE_UTIL_RX_BYTES)
_THROUGHPUT_UNIT = 1000


def measure_pcie(uuids: Iterable[str]) -> dict[str, int]:
    """The traffic of GPUs over PCIe, sent and received, in bytes per second; it blocks for 20 ms in each direction.

    `uuids`: ``GPU-...``; MIG instances have no such metric. The result is by UUID, without the GPUs of which it is not
    known. Source: NVIDIA Management Library API reference, nvmlDeviceGetPcieThroughput.
    """
    wanted = [uuid for uuid in uuids if uuid.startswith("GPU-")]
    if not wanted:
        return {}
    try:
        with open_nvml(), ThreadPoolExecutor(len(wanted), thread_name_prefix="gpudask-pcie") as threads:
            rates = threads.map(_throughput, wanted)
            return {uuid: rate for uuid, rate in zip(wanted, rates, strict=True) if rate is not None}
    except GpuUnavailableError:
        return {}


def _throughput(uuid: str) -> int | None:
    handle = ask(pynvml.nvmlDeviceGetHandleByUUID, uuid)
    rates = [None if handle is None else ask(pynvml.nvmlDeviceGetPcieThroughput, handle, each) for each in _DIRECTIONS]
    return None if None in rates else sum(filter(None, rates)) * _THROUGHPUT_UNIT
