"""NVML of this process: opened once, and kept open while somebody looks.

To open NVML and to close it each time takes tens of milliseconds, and a driver without persistence mode sets up the
GPUs anew whenever the last process closes them. While NVML is open, no GPU can be reset and no MIG mode be switched.
Source: NVIDIA Management Library API reference, "Initialization and Cleanup"; NVIDIA Driver Persistence.
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
"""Seconds after the last look for which it stays open."""


@contextmanager
def open_nvml() -> Iterator[Nvml]:
    """Have NVML open; it stays so for a while afterwards.

    Raises
    ------
    GpuUnavailableError
        NVML cannot be opened, or fails; the message says why.
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
    """Counts who looks, in all threads; a thread closes NVML when nobody has looked for `_IDLE` seconds."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._lookers = 0
        self._is_open = False
        self._is_stale = False
        self._until = 0.0
        self._closer: threading.Thread | None = None

    def begin(self) -> None:
        """Open it, unless it is open."""
        with self._lock:
            if not self._is_open:
                pynvml.nvmlInit()
                self._is_open, self._is_stale = True, False
            self._lookers += 1
            self._until = time.monotonic() + _IDLE
            if self._closer is None:
                self._closer = threading.Thread(target=self._close_when_idle, name="gpudask-nvml", daemon=True)
                self._closer.start()

    def end(self) -> None:
        """Look no more."""
        with self._lock:
            self._lookers -= 1
            if self._is_stale and not self._lookers:
                self._close()

    def close_soon(self) -> None:
        """Close it as soon as nobody looks: what it knows may be out of date."""
        self._is_stale = True

    def _close_when_idle(self) -> None:
        while True:
            with self._lock:
                rest = self._until - time.monotonic()
                if self._is_open and not self._lookers and rest <= 0:
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
    """That of this process: one that was forked must not use, nor close, what its parent has opened."""
    return Nvml()


def _unavailable(error: pynvml.NVMLError) -> GpuUnavailableError:
    if isinstance(error, pynvml.NVMLError_LibraryNotFound):
        return GpuUnavailableError("This machine has no NVIDIA driver.", "Install one, or use the CPU stand-in.")
    if isinstance(error, pynvml.NVMLError_DriverNotLoaded):
        return GpuUnavailableError("The NVIDIA driver is installed but not loaded.", "Type in a shell: nvidia-smi")
    if isinstance(error, pynvml.NVMLError_NoPermission):
        return GpuUnavailableError("This user may not talk to the NVIDIA driver.", "Ask the administrator.")
    return GpuUnavailableError(f"The NVIDIA driver answers: {error}.", "Type in a shell: nvidia-smi")
