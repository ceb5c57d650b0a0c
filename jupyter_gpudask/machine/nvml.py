"""NVML in this process: opened on first use, and closed when it has not been used for a while.

Opening and closing NVML for each reading takes tens of milliseconds, and a driver without persistence mode initializes
the GPUs again after the last process has closed them. While NVML is open, GPUs cannot be reset and MIG mode cannot be
changed. Source: NVIDIA Management Library API reference, "Initialization and Cleanup"; NVIDIA Driver Persistence.
"""

from __future__ import annotations

import os
import threading
import time
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING

import pynvml

from ..errors import GpuUnavailableError

if TYPE_CHECKING:
    from collections.abc import Iterator

_IDLE = 10.0
"""Seconds for which NVML stays open after its last use."""


@contextmanager
def open_nvml() -> Iterator[Nvml]:
    """Use NVML in a ``with`` block.

    Raises
    ------
    GpuUnavailableError
        NVML cannot be opened, or failed in the block; the message says why.
    """
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


class Nvml:
    """Counts the users of NVML in all threads; a thread closes it when there was none for `_IDLE` seconds.

    Attributes
    ----------
    openings
        How often NVML was opened: what NVML gave out before the last time is no longer valid.
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
    if isinstance(error, pynvml.NVMLError_LibraryNotFound):
        return GpuUnavailableError("no-driver")
    if isinstance(error, pynvml.NVMLError_DriverNotLoaded):
        return GpuUnavailableError("driver-not-loaded")
    if isinstance(error, pynvml.NVMLError_NoPermission):
        return GpuUnavailableError("no-permission")
    return GpuUnavailableError("driver-error", error=error)
