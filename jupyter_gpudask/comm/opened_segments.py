"""Shared memory segments of other processes, from which this process reads."""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from pathlib import Path
from typing import TYPE_CHECKING

from .pinned_segments import HEADER, LIMIT, MOST, NAME, Mapping

if TYPE_CHECKING:
    from .pinned_segments import Device, Reference


class OpenedSegments:
    """Segments of other processes, which stay mapped until other segments replace them."""

    def __init__(self, device: Device, limit: int = LIMIT) -> None:
        self._device = device
        self._limit = limit
        self._opened: OrderedDict[bytes, Mapping] = OrderedDict()
        self._in_use: set[bytes] = set()
        self._lock = threading.Lock()

    def open(self, reference: Reference) -> Mapping:
        """The segment, which stays mapped until `release`; raises OSError if its owner has removed it."""
        with self._lock:
            mapping = self._opened.get(reference.serial)
            if mapping is None:
                mapping = self._opened[reference.serial] = self._map(reference)
            self._opened.move_to_end(reference.serial)
            mapping.used = True
            self._in_use.add(reference.serial)
            self._close_unused()
            return mapping

    def trim(self) -> None:
        """Unmap the segments that were not used since the last call."""
        with self._lock:
            for serial, mapping in list(self._opened.items()):
                if serial in self._in_use:
                    continue
                if not mapping.used:
                    self._opened.pop(serial).close()
                mapping.used = False

    def release(self, reference: Reference) -> None:
        """Let the owner use the segment again."""
        with self._lock:
            self._opened[reference.serial].free = True
            self._in_use.discard(reference.serial)

    def _map(self, reference: Reference) -> Mapping:
        path = f"/proc/{reference.pid}/fd/{reference.descriptor}"
        removed = FileNotFoundError(f"process {reference.pid} has removed the segment")
        if not str(Path(path).readlink()).startswith(f"/memfd:{NAME} "):  # to open another file could have an effect
            raise removed
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        try:
            if os.fstat(descriptor).st_size != HEADER + reference.size:
                raise removed
            mapping = Mapping(self._device, descriptor, reference.size)
        finally:
            os.close(descriptor)
        if mapping.serial != reference.serial:
            mapping.close()
            raise removed
        return mapping

    def _close_unused(self) -> None:
        for serial in list(self._opened):
            if sum(each.size for each in self._opened.values()) <= self._limit and len(self._opened) <= MOST:
                return
            if serial not in self._in_use:
                self._opened.pop(serial).close()
