"""Serialization of device memory for another worker on the same machine, through page-locked shared memory.

A family of Dask serializers, which uses the functions that CuPy, cuDF and others have registered for UCX. It copies the
device memory of an object to a segment, and puts a reference to the segment into the object's header. Small objects,
and objects for which there is no room, are left to Dask's own family, which uses the socket.

Only workers take part: a scheduler must not have a CUDA context.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
from functools import cache
from typing import Any

from distributed.comm.core import CommClosedError
from distributed.protocol.cuda import cuda_dumps, cuda_loads
from distributed.protocol.serialize import register_serialization_family
from distributed.utils import nbytes

from .pinned_segments import LIMIT, Device, FilledSegments, OpenedSegments, Reference, SegmentLimitError, SegmentPool

_log = logging.getLogger(__name__)


FAMILY = "gpudask-pinned"
SEGMENTS = "gpudask-segments"
"""The name under which the context of a message has its `FilledSegments`."""

_LEAST = 2**18
_ALIGNMENT = 256
_PART = 8  # of the memory limit of a worker, because its resident memory contains the segments
_IDLE = 30.0


class _Settings:
    """Whether this process shares memory, and the bytes of its own segments, and of those that it maps, at most."""

    enabled = False
    limit = LIMIT


_settings = _Settings()
_creating = threading.Lock()


def enable(memory_limit: int | None = None) -> None:
    """Let this process, a worker with this memory limit in bytes, send and receive device memory so."""
    _settings.limit = min(LIMIT, memory_limit // _PART) if memory_limit else LIMIT
    _settings.enabled = True


def disable() -> None:
    """Undo `enable`."""
    _settings.enabled = False


def is_enabled() -> bool:
    """Whether this process does so."""
    return _settings.enabled


def dumps(obj: Any, context: dict[str, Any]) -> tuple[dict[str, Any], list[Any]]:
    """The header of an object, and those of its frames that are in host memory.

    Raises NotImplementedError if the next family of serializers shall take the object.
    """
    header, frames = cuda_dumps(obj)
    if any(hasattr(frame, "is_spilled") for frame in frames):  # cuDF spills it, unless its address is exposed
        raise NotImplementedError
    sizes = [nbytes(frame) if hasattr(frame, "__cuda_array_interface__") else -1 for frame in frames]
    places, total = _layout(sizes)
    if total < _LEAST:
        raise NotImplementedError
    filled: FilledSegments = context[SEGMENTS]
    try:
        transfer = _transfer()
        segment = transfer.pool.take(total, filled)
    except SegmentLimitError:
        raise NotImplementedError from None
    except Exception as error:
        _stop_using(error)
        raise NotImplementedError from error
    try:
        for frame, size, place in zip(frames, sizes, places, strict=True):
            if size > 0:
                transfer.device.to_host(segment.address + place, frame)
        transfer.device.event().synchronize()
    except BaseException:
        segment.free = True
        raise
    filled.add(segment)  # only now, because a thread that closes the connection unmaps it
    host_frames = [frame for frame, size in zip(frames, sizes, strict=True) if size < 0]
    own = {"segment": tuple(segment.reference), "sizes": tuple(sizes), "compression": (False,) * len(host_frames)}
    return header | own, host_frames


def loads(header: dict[str, Any], frames: list[Any]) -> Any:
    """The object, in device memory that is filled in the order of CUDA's default stream."""
    reference = Reference(*header["segment"])
    transfer = _transfer()
    try:
        segment = transfer.opened.open(reference)
    except Exception as error:
        if not isinstance(error, FileNotFoundError):  # which says that the owner has ended or removed the segment
            _stop_using(error)
        raise CommClosedError(f"the shared memory of process {reference.pid} cannot be opened: {error}") from error
    try:
        sizes = header["sizes"]
        host_frames = iter(frames)
        places, _ = _layout(sizes)
        found = [
            next(host_frames) if size < 0 else transfer.device.to_device(segment.address + place, size)
            for size, place in zip(sizes, places, strict=True)
        ]
    finally:
        transfer.release_after_copies(reference)
    return cuda_loads(header, found)


def release_unused() -> None:
    """Unmap all segments that are not in use."""
    with _creating:
        exists = _create.cache_info().currsize
    if exists:
        _transfer().trim()  # what is used until here counts as used, for a while
        _transfer().trim()


register_serialization_family(FAMILY, dumps, loads)


class _Transfer:
    """The segments of this process, and the thread that releases segments of other processes after they were copied."""

    def __init__(self, device: Device) -> None:
        self.device = device
        self.pool = SegmentPool(device, _settings.limit)
        self.opened = OpenedSegments(device, _settings.limit)
        self._copied: queue.SimpleQueue[tuple[Any, Reference]] = queue.SimpleQueue()
        threading.Thread(target=self._release, name="gpudask-segments", daemon=True).start()

    def release_after_copies(self, reference: Reference) -> None:
        """Release a segment once the copies that were begun have ended, without waiting for them."""
        self._copied.put((self.device.event(), reference))

    def trim(self) -> None:
        """Unmap what was not used since the last call."""
        self.pool.trim()
        self.opened.trim()

    def _release(self) -> None:
        next_trim = time.monotonic() + _IDLE
        while True:
            try:
                event, reference = self._copied.get(timeout=max(0.0, next_trim - time.monotonic()))
            except queue.Empty:
                self.trim()
                next_trim = time.monotonic() + _IDLE
                continue
            try:
                event.synchronize()
            except Exception as error:  # noqa: BLE001 - CUDA's; the segment is not used again
                _stop_using(error)
                continue
            self.opened.release(reference)


class _Cuda:
    """`Device` by CuPy."""

    def __init__(self) -> None:
        import cupy

        self._cupy: Any = cupy
        self._runtime: Any = cupy.cuda.runtime

    def pin(self, address: int, size: int) -> None:
        self._runtime.hostRegister(address, size, 0)

    def unpin(self, address: int) -> None:
        self._runtime.hostUnregister(address)

    def to_host(self, address: int, frame: Any) -> None:
        source = frame.__cuda_array_interface__["data"][0]
        self._runtime.memcpyAsync(address, source, nbytes(frame), self._runtime.memcpyDeviceToHost, 0)

    def to_device(self, address: int, size: int) -> Any:
        with self._cupy.cuda.Stream.null:
            memory = self._cupy.empty(size, "u1")
        if size:
            self._runtime.memcpyAsync(memory.data.ptr, address, size, self._runtime.memcpyHostToDevice, 0)
        return memory

    def event(self) -> Any:
        event = self._cupy.cuda.Event(block=True, disable_timing=True)
        event.record(self._cupy.cuda.Stream.null)
        return event


def _transfer() -> _Transfer:
    with _creating:  # the event loop and the thread to which Dask offloads may be first at once
        return _create()


@cache
def _create() -> _Transfer:
    return _Transfer(_Cuda())


def _stop_using(error: Exception) -> None:
    disable()
    _log.warning("From now on device memory is sent to other workers by the socket, not by shared memory: %s", error)


def _layout(sizes: list[int]) -> tuple[list[int], int]:
    """The place of each frame in a segment, and the bytes of all; a frame of a negative size is elsewhere."""
    places, end = [], 0
    for size in sizes:
        places.append(end)
        end += -(-max(size, 0) // _ALIGNMENT) * _ALIGNMENT
    return places, end
