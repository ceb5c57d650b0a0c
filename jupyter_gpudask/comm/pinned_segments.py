"""Page-locked shared memory of one user's processes: one process writes a segment, another one reads it.

A GPU copies between its memory and page-locked memory some twenty times as fast as through a socket with pageable
memory at both ends: 55 instead of 1 to 3 GB/s on an H200.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import secrets
import threading
from collections import Counter, OrderedDict
from collections.abc import Iterable
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Protocol

LIMIT = 2 * 2**30
"""Bytes of all segments of a process, at most."""

MOST = 128
"""Number of segments, at most: each has two file descriptors in its owner, and one in each other process."""

HEADER = 4096
"""Bytes before the data of a segment."""

NAME = "jupyter_gpudask"
"""The name of the file of a segment."""

PIECES = slice(128, 256)
"""The bytes of the header that have the state of each piece."""

_REMOVED, _SERIAL = 0, slice(8, 24)
_FREE, _FILLED = 0, 1


class Device(Protocol):
    """Copies between device memory and segments."""

    def pin(self, address: int, size: int) -> None:
        """Page-lock host memory."""

    def unpin(self, address: int) -> None:
        """Undo `pin`."""

    def wait_for(self, event: Any) -> None:
        """Let what is stored from now on wait for an event."""

    def store(self, address: int, frame: Any) -> None:
        """Begin to copy the device memory of `frame` to `address` in a segment."""

    def finish(self) -> None:
        """Wait until all is stored."""

    def load(self, address: int, size: int) -> Any:
        """Allocate device memory, and begin to copy `size` bytes from `address` in a segment to it.

        This is done in the order of CUDA's default stream.
        """

    def event(self) -> Any:
        """What has a method ``synchronize`` that waits for all that has begun in CUDA's default stream."""


class Reference(NamedTuple):
    """How another process finds a piece of a segment.

    - `pid`, `descriptor`: the owner of the segment, and its file descriptor.
    - `size`: bytes of the segment.
    - `serial`: a random number, which distinguishes it from a segment that had the same file descriptor before.
    - `offset`, `piece`: where the piece begins, and its number in the segment.
    - `on_device`: whether the segment is in device memory.
    """

    pid: int
    descriptor: int
    size: int
    serial: bytes
    offset: int
    piece: int
    on_device: bool


class SegmentLimitError(Exception):
    """There is no room for a segment of this size."""


class Mapping:
    """A file in memory that is mapped and page-locked: a header of one page, and `size` bytes of data."""

    on_device: ClassVar[bool] = False

    def __init__(self, device: Device, descriptor: int, size: int) -> None:
        self.size = size
        self._device: Any = device
        self._file = descriptor  # only while it is constructed
        self._memory = mmap.mmap(descriptor, self.length(size))
        self._first = ctypes.c_char.from_buffer(self._memory)
        self._start = ctypes.addressof(self._first)
        self.address = 0
        self.used = True
        try:
            self.address = self._acquire()
        except BaseException:
            Mapping.close(self)
            raise

    @classmethod
    def length(cls, size: int) -> int:
        """Bytes of the file of a segment."""
        return HEADER + size

    def _acquire(self) -> int:
        """The address of the data, which become accessible."""
        self._device.pin(self._start, HEADER + self.size)
        return self._start + HEADER

    def _release(self, address: int) -> None:
        """Undo `_acquire`."""
        self._device.unpin(address - HEADER)

    @property
    def serial(self) -> bytes:
        """The random number in the header."""
        return self._memory[_SERIAL]

    @serial.setter
    def serial(self, number: bytes) -> None:
        self._memory[_SERIAL] = number

    @property
    def free(self) -> bool:
        """Whether nothing in it waits to be read."""
        try:
            return not any(self._memory[PIECES])
        except ValueError:  # another thread has unmapped it
            return True

    def mark(self, piece: int, *, filled: bool) -> None:
        """Note that a piece waits to be read, or that it is read."""
        self._memory[PIECES.start + piece] = _FILLED if filled else _FREE

    @property
    def removed(self) -> bool:
        """Whether the owner will not fill it again, so that other processes shall close it."""
        return self._memory[_REMOVED] != 0

    def close(self) -> None:
        """Unlock and unmap the memory."""
        address, self.address = self.address, 0
        if address:
            self._release(address)
        del self._first
        self._memory.close()


class Segment(Mapping):
    """A segment that this process fills, piece by piece."""

    def __init__(self, pool: SegmentPool, device: Device, size: int) -> None:
        self.descriptor = os.memfd_create(NAME, os.MFD_CLOEXEC)
        try:
            os.ftruncate(self.descriptor, self.length(size))
            super().__init__(device, self.descriptor, size)
        except BaseException:
            os.close(self.descriptor)
            raise
        self.serial = secrets.token_bytes(16)
        self.pool = pool
        self.holder: object = None
        self.end = self.pieces = 0

    @staticmethod
    def round_size(size: int) -> int:
        """Bytes of a segment that is created for so many bytes."""
        return -(-size // 2**20) * 2**20

    def has_room(self, size: int, holder: object) -> bool:
        """Whether `holder` has filled a part of it, and another piece fits behind."""
        fits = self.end + size <= self.size and self.pieces < PIECES.stop - PIECES.start
        return self.holder is holder and fits and not self.removed

    def add(self, size: int) -> Piece:
        """The next piece."""
        piece = Piece(self, self.end, self.pieces)
        self.mark(piece.number, filled=True)
        self.end, self.pieces, self.used = self.end + size, self.pieces + 1, True
        return piece

    def remove(self) -> bool:
        """Close it, unless another process still has to close it first; whether it is closed."""
        self.holder = None
        self._memory[_REMOVED] = 1
        if self._is_open_elsewhere():
            return False
        self.close()
        return True

    def _is_open_elsewhere(self) -> bool:
        return False  # a file can still be read then

    def close(self) -> None:
        """Remove it."""
        super().close()
        os.close(self.descriptor)


class Piece(NamedTuple):
    """A part of a segment, for one object of a message."""

    segment: Segment
    offset: int
    number: int

    @property
    def address(self) -> int:
        """Where it begins."""
        return self.segment.address + self.offset

    @property
    def reference(self) -> Reference:
        """How another process finds it."""
        segment = self.segment
        found = segment.descriptor, segment.size, segment.serial, self.offset, self.number, segment.on_device
        return Reference(os.getpid(), *found)

    def release(self) -> None:
        """Let it be filled again."""
        self.segment.mark(self.number, filled=False)


class SegmentPool:
    """The segments that this process fills, which are used again once they are read."""

    def __init__(self, device: Device, limit: int = LIMIT, kind: type[Segment] = Segment) -> None:
        self._device = device
        self.limit = limit
        self._kind = kind
        self._segments: list[Segment] = []
        self._lock = threading.RLock()  # a garbage collection inside may call `give_up`

    def take(self, size: int, holder: object) -> Piece:
        """A piece of at least `size` bytes; raises `SegmentLimitError` if too much waits to be read."""
        with self._lock:
            for segment in self._segments:
                if segment.has_room(size, holder):
                    return segment.add(size)
            segment = self._find_unused(size) or self._new(size)
            segment.holder, segment.end, segment.pieces = holder, 0, 0
            return segment.add(size)

    def give_up(self, segment: Segment, holder: object) -> None:
        """Remove a segment, if `holder` has filled it and it is not read."""
        with self._lock:
            if segment.holder is holder and segment in self._segments and not segment.free:
                self._remove(segment)

    def trim(self) -> None:
        """Remove the segments that were not used since the last call."""
        with self._lock:
            for segment in [each for each in self._segments if each.free and not each.used]:
                self._remove(segment)
            for segment in self._segments:
                segment.used = False

    def close_removed(self) -> None:
        """Close the segments that other processes have closed by now."""
        with self._lock:
            for segment in [each for each in self._segments if each.removed]:
                self._remove(segment)

    @property
    def segments(self) -> list[Segment]:
        """All segments."""
        return list(self._segments)

    @property
    def size(self) -> int:
        """Bytes of all segments."""
        return sum(segment.size for segment in self.segments)

    def _find_unused(self, size: int) -> Segment | None:
        most = max(2 * size, self._kind.round_size(1))
        fitting = [each for each in self._free() if size <= each.size <= most]
        return min(fitting, key=lambda each: each.size, default=None)

    def _free(self) -> list[Segment]:
        return [each for each in self._segments if each.free and not each.removed]

    def _new(self, size: int) -> Segment:
        self.close_removed()
        size = self._kind.round_size(size)
        free = self._free()
        filled = [each.size for each in self._segments if each not in free]
        if sum(filled) + size > self.limit or len(filled) >= MOST:
            raise SegmentLimitError
        for segment in free:
            if self._has_room(size):
                break
            self._remove(segment)
        if not self._has_room(size):  # until others have closed what is removed
            raise SegmentLimitError
        segment = self._kind(self, self._device, size)
        self._segments.append(segment)
        return segment

    def _has_room(self, size: int) -> bool:
        return self.size + size <= self.limit and len(self._segments) < MOST

    def _remove(self, segment: Segment) -> None:
        if segment.remove():
            self._segments.remove(segment)


class FilledSegments:
    """The segments that one message fills; `peer` is the pid of the process that gets it."""

    def __init__(self, peer: int = 0) -> None:
        self.peer = peer
        self._segments: list[Segment] = []
        self._given_up = False
        self._lock = threading.RLock()  # a garbage collection inside may call `give_up`

    def add(self, segment: Segment) -> None:
        """Add a segment that is filled, so that `give_up` may unmap it."""
        with self._lock:
            if segment not in self._segments:
                self._segments.append(segment)
            given_up = self._given_up
        if given_up:
            self.give_up()

    def give_up(self) -> None:
        """Remove the segments that are not read, also those that are added later: the message does not arrive."""
        with self._lock:
            self._given_up = True
            segments, self._segments = self._segments, []
        for segment in segments:
            segment.pool.give_up(segment, self)

    @property
    def are_read(self) -> bool:
        """Whether all of them are read."""
        return all(each.holder is not self or each.free for each in self._segments)


class OpenedSegments:
    """Segments of other processes, which stay mapped until other segments replace them."""

    def __init__(self, device: Device, limit: int = LIMIT, kind: type[Mapping] = Mapping) -> None:
        self._device = device
        self._limit = limit
        self._kind = kind
        self._opened: OrderedDict[bytes, Mapping] = OrderedDict()
        self._in_use: Counter[bytes] = Counter()
        self._lock = threading.Lock()

    def open(self, reference: Reference) -> Mapping:
        """The segment, which stays mapped until `release`; raises OSError if its owner has removed it."""
        with self._lock:
            mapping = self._opened.get(reference.serial)
            if mapping is None:
                mapping = self._opened[reference.serial] = self._map(reference)
            self._opened.move_to_end(reference.serial)
            mapping.used = True
            self._in_use[reference.serial] += 1
            self._close_unused()
            return mapping

    def trim(self) -> None:
        """Unmap the segments that were not used since the last call."""
        with self._lock:
            self._close([serial for serial, mapping in self._opened.items() if not mapping.used])
            for serial, mapping in self._opened.items():
                mapping.used = mapping.used and serial in self._in_use

    def close_removed(self) -> None:
        """Unmap the segments that their owners wait to remove."""
        with self._lock:
            self._close([serial for serial, mapping in self._opened.items() if mapping.removed])

    def release(self, reference: Reference) -> None:
        """Let the owner use the piece again."""
        with self._lock:
            self._opened[reference.serial].mark(reference.piece, filled=False)
            self._in_use[reference.serial] -= 1
            self._in_use += Counter()  # without zeros

    def _map(self, reference: Reference) -> Mapping:
        path = f"/proc/{reference.pid}/fd/{reference.descriptor}"
        removed = FileNotFoundError(f"process {reference.pid} has removed the segment")
        if not str(Path(path).readlink()).startswith(f"/memfd:{NAME} "):  # to open another file could have an effect
            raise removed
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        try:
            if os.fstat(descriptor).st_size != self._kind.length(reference.size):
                raise removed
            mapping = self._kind(self._device, descriptor, reference.size)
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
            self._close([serial])

    def _close(self, serials: Iterable[bytes]) -> None:
        for serial in serials:
            if serial not in self._in_use:
                self._opened.pop(serial).close()
