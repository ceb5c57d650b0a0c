"""Segments in device memory, which a process of the same user on another GPU reads by CUDA IPC.

Over NVLink that is some ten times as fast as through host memory. The file of a segment has only the header, with the
handle of the device memory and what `pinned_segments` keeps there: who may open the file may read the memory.

A process tries for each other one whether it can read a segment, before it sends objects so. It cannot if

- the GPUs do not access each other's memory, as between instances of MIG, and on some machines without NVLink;
- the processes are in different pid namespaces, as those of containers (they share no host memory either, see `unix`);
- the container of a process lacks the other GPU.

A GPU that ``CUDA_VISIBLE_DEVICES`` hides can be read: "cudaIpcOpenMemHandle can open handles to devices that may not be
visible in the process calling the API". Workers see all GPUs of their cluster, each its own first. Memory of RMM's or
CUDA's pools cannot be opened by another process, which is why objects are copied to a segment first.

Source: CUDA Runtime API, cudaIpcOpenMemHandle; MIG User Guide; UCX's transport cuda_ipc, which tries it as well.
"""

from __future__ import annotations

import fcntl
import os
import threading
import time
from typing import ClassVar, Protocol, cast

from .pinned_segments import (
    HEADER,
    PIECES,
    Device,
    FilledSegments,
    Mapping,
    OpenedSegments,
    Piece,
    Reference,
    Segment,
    SegmentLimitError,
    SegmentPool,
)

PART = 16
"""The part of a device's memory that all segments of a process take, at most."""

_REMOVED_BY_OWNER = "its owner removes the segment"
_LEAST = 2**26  # one segment has many small pieces of a message; another process takes a millisecond to open it
_PAUSE = 10.0
_ANSWER, _HANDLE = 1, slice(32, 96)
_NONE, _WORKS, _FAILED = range(3)


class DeviceMemoryError(SegmentLimitError):
    """There is too little device memory for a segment."""


class ExportingDevice(Device, Protocol):
    """A device whose memory other processes can read."""

    def memory(self) -> int:
        """Bytes of its memory; 0 if other processes cannot read it."""

    def allocate(self, size: int) -> int:
        """The address of new memory; raises `DeviceMemoryError` if there is too little."""

    def free(self, address: int) -> None:
        """Undo `allocate`."""

    def export(self, address: int) -> bytes:
        """The handle of allocated memory: 64 bytes."""

    def open(self, handle: bytes) -> int:
        """The address in this process of memory of another one."""

    def close(self, address: int) -> None:
        """Undo `open`."""

    def write(self, address: int, content: bytes) -> None:
        """Write to a segment, and wait for the end."""

    def read(self, address: int, size: int) -> bytes:
        """Read from a segment."""


class DeviceMapping(Mapping):
    """A segment in device memory of another process."""

    on_device: ClassVar[bool] = True

    @classmethod
    def length(cls, size: int) -> int:  # noqa: ARG003 - the file has only the header
        """Override: bytes of the file of a segment."""
        return HEADER

    def _acquire(self) -> int:
        # Locked while it is open, whatever ends this process: only then the owner may free the memory.
        self._lock = os.dup(self._file)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(self._lock)
            raise FileNotFoundError(_REMOVED_BY_OWNER) from None
        try:
            return int(self._device.open(self._memory[_HANDLE]))
        except BaseException:
            self.answer(works=False)
            self._memory[PIECES] = bytes(PIECES.stop - PIECES.start)  # nothing of it will be read
            os.close(self._lock)
            raise

    def _release(self, address: int) -> None:
        self._device.close(address)
        os.close(self._lock)

    def answer(self, *, works: bool) -> None:
        """Report to the owner whether this process can read it."""
        self._memory[_ANSWER] = _WORKS if works else _FAILED

    def is_readable(self) -> bool:
        """Whether it contains what the owner of a segment for a trial has written there."""
        return bool(self._device.read(self.address, len(self.serial)) == self.serial)


class DeviceSegment(Segment):
    """A segment in device memory of this process."""

    on_device: ClassVar[bool] = True

    @classmethod
    def length(cls, size: int) -> int:  # noqa: ARG003 - the file has only the header
        """Override: bytes of the file of a segment."""
        return HEADER

    @staticmethod
    def round_size(size: int) -> int:
        """Override: a power of two."""
        return max(_LEAST, 1 << (size - 1).bit_length())

    def _acquire(self) -> int:
        address = int(self._device.allocate(self.size))
        try:
            self._memory[_HANDLE] = self._device.export(address)
        except BaseException:
            self._device.free(address)
            raise
        return address

    def _release(self, address: int) -> None:
        self._device.free(address)

    def _is_open_elsewhere(self) -> bool:
        # "Calling cudaFree on an exported memory region before calling cudaIpcCloseMemHandle in the importing context
        # will result in undefined behavior."
        try:
            fcntl.flock(self.descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        return False

    @property
    def answer(self) -> int | None:
        """What another process has reported; `None` if the segment is closed."""
        try:
            return self._memory[_ANSWER]
        except ValueError:
            return None

    def forget(self) -> None:
        """Forget the answer."""
        self._memory[_ANSWER] = _NONE

    def begin_trial(self) -> None:
        """Wait for an answer, and write what `DeviceMapping.is_readable` expects."""
        self.forget()
        self._device.write(self.address, self.serial)


class Exports:
    """The segments in device memory of this process, and which other processes can read them."""

    def __init__(self, device: ExportingDevice) -> None:
        self.pool = SegmentPool(device, device.memory() // PART, DeviceSegment)
        self._can_read: dict[int, bool] = {os.getpid(): False}  # CUDA opens no handle of its own process
        self._trials: dict[int, DeviceSegment] = {}
        self._lock = threading.Lock()
        self._next_try = 0.0

    def take(self, size: int, filled: FilledSegments) -> Piece | None:
        """A piece for the process that gets a message; `None` if it cannot read it, or there is no room."""
        with self._lock:
            self._note_answers()
            if not self._can_read.get(filled.peer):
                return None
            return self._take(size, filled)

    def ask(self, filled: FilledSegments) -> Reference | None:
        """A segment by which the process that gets a message finds out whether it can read one; once for each."""
        with self._lock:
            if not self.pool.limit or filled.peer in self._can_read or filled.peer in self._trials:
                return None
            piece = self._take(1, filled)
            if piece is None:
                return None
            self._note_answers()  # the segment may have an answer of another process
            segment = cast("DeviceSegment", piece.segment)
            try:
                segment.begin_trial()
            except BaseException:
                piece.release()
                raise
            self._trials[filled.peer] = segment
            filled.add(segment)
            return piece.reference

    def _take(self, size: int, filled: FilledSegments) -> Piece | None:
        if time.monotonic() < self._next_try:
            return None
        try:
            return self.pool.take(size, filled)
        except DeviceMemoryError:
            self._next_try = time.monotonic() + _PAUSE
        except SegmentLimitError:
            pass
        return None

    def _note_answers(self) -> None:
        for pid, segment in list(self._trials.items()):
            if segment.answer != _NONE:
                del self._trials[pid]
            if segment.answer:
                self._can_read[pid] = segment.answer == _WORKS
        for segment in cast("list[DeviceSegment]", self.pool.segments):
            if segment.answer == _FAILED and isinstance(segment.holder, FilledSegments):
                self._can_read[segment.holder.peer] = False
                segment.forget()


def answer(reference: Reference, opened: OpenedSegments) -> None:
    """Report to the owner of a segment for a trial whether this process can read it; raises CUDA's error."""
    mapping = cast("DeviceMapping", opened.open(reference))
    try:
        mapping.answer(works=mapping.is_readable())
    except BaseException:
        mapping.answer(works=False)
        raise
    finally:
        opened.release(reference)
