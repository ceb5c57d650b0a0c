"""Serialization of device memory for another worker on the same machine, by CUDA IPC or page-locked shared memory.

A family of Dask serializers, which uses the functions that CuPy, cuDF and others have registered for UCX. It copies the
device memory of an object to a segment, and puts a reference to the segment into the object's header. The segment is in
device memory if the other worker can read it there, else in page-locked memory. Small objects, and objects for which
there is no room, are left to Dask's own family, which uses the socket.

Only workers take part: a scheduler must not have a CUDA context.
"""

from __future__ import annotations

import ctypes
import logging
import os
import queue
import threading
import time
import weakref
from functools import cache
from typing import Any, TypeVar

from distributed.comm.core import CommClosedError
from distributed.protocol.cuda import cuda_dumps, cuda_loads
from distributed.protocol.serialize import register_serialization_family
from distributed.utils import nbytes

from .device_segments import PART, DeviceMapping, DeviceMemoryError, ExportingDevice, Exports, answer
from .pinned_segments import (
    LIMIT,
    FilledSegments,
    Mapping,
    OpenedSegments,
    Piece,
    Reference,
    SegmentLimitError,
    SegmentPool,
)

_R = TypeVar("_R")

_log = logging.getLogger(__name__)


FAMILY = "gpudask-pinned"
SEGMENTS = "gpudask-segments"
"""The name under which the context of a message has its `FilledSegments`."""

_LEAST = 2**18
_ALIGNMENT = 256
_PART = 8  # of the memory limit of a worker, because its resident memory contains the segments
_IDLE, _TICK = 30.0, 1.0
_RESERVED_AND_USED = 5, 7  # attributes of a pool. Source: driver_types.h, cudaMemPoolAttr


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
        piece, trial = transfer.take(total, filled)
    except SegmentLimitError:
        raise NotImplementedError from None
    except Exception as error:
        _stop_using(error)
        raise NotImplementedError from error
    try:
        transfer.device.wait_for(transfer.when_ready(obj))
        for frame, size, place in zip(frames, sizes, places, strict=True):
            if size > 0:
                transfer.device.store(piece.address + place, frame)
        transfer.device.finish()
    except BaseException:
        piece.release()
        raise
    filled.add(piece.segment)  # only now, because a thread that closes the connection unmaps it
    host_frames = [frame for frame, size in zip(frames, sizes, strict=True) if size < 0]
    own = {"segment": tuple(piece.reference), "sizes": tuple(sizes), "compression": (False,) * len(host_frames)}
    if trial is not None:
        own["trial"] = tuple(trial)
    return header | own, host_frames


def loads(header: dict[str, Any], frames: list[Any]) -> Any:
    """The object, in device memory that is filled in the order of CUDA's default stream."""
    reference = Reference(*header["segment"])
    transfer = _transfer()
    if "trial" in header:
        transfer.answer(Reference(*header["trial"]))
    segment = transfer.open(reference)
    try:
        sizes = header["sizes"]
        host_frames = iter(frames)
        places, _ = _layout(sizes)
        start = segment.address + reference.offset
        found = [
            next(host_frames) if size < 0 else transfer.device.load(start + place, size)
            for size, place in zip(sizes, places, strict=True)
        ]
    finally:
        transfer.release_after_copies(reference)
    return cuda_loads(header, found)


def note_result(result: _R) -> _R:
    """`result` of a task that has just ended; to send it does not wait for what the GPU computes for later tasks."""
    if _create.cache_info().currsize and type(result).__module__.startswith("cupy"):
        flags = getattr(result, "flags", None)
        if flags is not None and (flags.c_contiguous or flags.f_contiguous):  # else it is copied before it is sent
            _create().note(result)
    return result


def release_unused() -> None:
    """Unmap all segments that are not in use."""
    with _creating:
        exists = _create.cache_info().currsize
    if exists:
        _transfer().trim()  # what is used until here counts as used, for a while
        _transfer().trim()


def device_bytes() -> int:
    """Device memory of the segments of this process."""
    with _creating:
        exists = _create.cache_info().currsize
    return _transfer().exports.pool.size if exists else 0


register_serialization_family(FAMILY, dumps, loads)


class _Transfer:
    """The segments of this process, and the thread that releases segments of other processes after they were copied."""

    def __init__(self, device: ExportingDevice) -> None:
        self.device = device
        self.pool = SegmentPool(device, _settings.limit)
        self.opened = OpenedSegments(device, _settings.limit)
        self.exports = Exports(device)
        self.opened_on_devices = OpenedSegments(device, 2**63, DeviceMapping)  # of the memory of other processes
        self._failure = ""  # that was logged
        self._ready: dict[int, tuple[weakref.ref[Any], Any]] = {}  # by id of a result
        self._copied: queue.SimpleQueue[tuple[Any, Reference]] = queue.SimpleQueue()
        threading.Thread(target=self._release, name="gpudask-segments", daemon=True).start()

    def take(self, size: int, filled: FilledSegments) -> tuple[Piece, Reference | None]:
        """A piece of a segment, and another one with which the receiver shall try whether it can read device memory."""
        trial = None
        try:
            piece = self.exports.take(size, filled)
            if piece is not None:
                return piece, None
            trial = self.exports.ask(filled)
        except Exception as error:  # noqa: BLE001 - CUDA's
            self.exports.pool.limit = 0
            self._warn(error)
        return self.pool.take(size, filled), trial

    def note(self, result: Any) -> None:
        """Remember that all which computes a result has begun."""
        ready, number = self._ready, id(result)
        ready[number] = weakref.ref(result, lambda _: ready.pop(number, None)), self.device.event()

    def when_ready(self, result: Any) -> Any:
        """The event of a result; of one that was not noted, what has begun until now."""
        reference, event = self._ready.get(id(result), (None, None))
        return event if reference is not None and reference() is result else self.device.event()

    def open(self, reference: Reference) -> Mapping:
        """The segment of a reference; raises `CommClosedError` if it cannot be opened."""
        try:
            return self._segments_of(reference).open(reference)
        except Exception as error:
            if isinstance(error, FileNotFoundError):  # the owner has ended or removed the segment
                pass
            elif reference.on_device:  # the owner gets to know it
                self._warn(error)
            else:
                _stop_using(error)
            raise CommClosedError(f"the shared memory of process {reference.pid} cannot be opened: {error}") from error

    def answer(self, trial: Reference) -> None:
        """Report to another process whether this one can read its device memory."""
        try:
            answer(trial, self.opened_on_devices)
        except FileNotFoundError:  # the owner has ended or removed the segment
            pass
        except Exception as error:  # noqa: BLE001 - CUDA's; the owner gets to know it
            self._warn(error)

    def release_after_copies(self, reference: Reference) -> None:
        """Release a segment once the copies that were begun have ended, without waiting for them."""
        self._copied.put((self.device.event(), reference))

    def trim(self) -> None:
        """Unmap what was not used since the last call."""
        for opened in (self.opened, self.opened_on_devices):
            opened.trim()
        for pool in (self.pool, self.exports.pool):
            pool.trim()

    def _warn(self, error: Exception) -> None:
        if not self._failure:
            self._failure = str(error) or type(error).__name__
            _log.warning("Device memory is sent through host memory, not from GPU to GPU: %s", error)

    def _segments_of(self, reference: Reference) -> OpenedSegments:
        return self.opened_on_devices if reference.on_device else self.opened

    def _release(self) -> None:
        next_trim = time.monotonic() + _IDLE
        while True:
            try:
                event, reference = self._copied.get(timeout=_TICK)
            except queue.Empty:
                self.opened_on_devices.close_removed()
                self.exports.pool.close_removed()
                if time.monotonic() > next_trim:
                    self.trim()
                    next_trim = time.monotonic() + _IDLE
                continue
            try:
                event.synchronize()
            except Exception as error:  # noqa: BLE001 - CUDA's; the segment is not used again
                _stop_using(error)
                continue
            self._segments_of(reference).release(reference)


class _Cuda:
    """`ExportingDevice` by CuPy."""

    def __init__(self) -> None:
        import cupy

        self._cupy: Any = cupy
        self._runtime: Any = cupy.cuda.runtime
        self._stream: Any = cupy.cuda.Stream(non_blocking=True)  # it does not wait for the default stream

    def pin(self, address: int, size: int) -> None:
        self._runtime.hostRegister(address, size, 0)

    def unpin(self, address: int) -> None:
        self._runtime.hostUnregister(address)

    def store(self, address: int, frame: Any) -> None:
        source = frame.__cuda_array_interface__["data"][0]
        self._runtime.memcpyAsync(address, source, nbytes(frame), self._runtime.memcpyDefault, self._stream.ptr)

    def wait_for(self, event: Any) -> None:
        self._stream.wait_event(event)

    def finish(self) -> None:
        self._event(self._stream).synchronize()

    def load(self, address: int, size: int) -> Any:
        with self._cupy.cuda.Stream.null:
            memory = self._cupy.empty(size, "u1")
        if size:
            self._runtime.memcpyAsync(memory.data.ptr, address, size, self._runtime.memcpyDefault, 0)
        return memory

    def memory(self) -> int:
        # Source: MIG User Guide: CUDA IPC across GPU instances is not supported.
        is_mig = os.environ.get("CUDA_VISIBLE_DEVICES", "").startswith("MIG-")
        return 0 if is_mig else int(self._runtime.memGetInfo()[1])

    def allocate(self, size: int) -> int:
        free, total = self._runtime.memGetInfo()
        pool = self._runtime.deviceGetDefaultMemPool(0)
        reserved, used = (int(self._runtime.memPoolGetAttribute(pool, number)) for number in _RESERVED_AND_USED)
        if free + reserved - used - size < total // PART:  # some is left for tasks
            raise DeviceMemoryError
        try:
            return int(self._runtime.malloc(size))
        except self._runtime.CUDARuntimeError as error:
            if error.status == self._runtime.errorMemoryAllocation:
                raise DeviceMemoryError from None
            raise

    def free(self, address: int) -> None:
        self._runtime.free(address)

    def export(self, address: int) -> bytes:
        return bytes(self._runtime.ipcGetMemHandle(address))

    def open(self, handle: bytes) -> int:
        return int(self._runtime.ipcOpenMemHandle(handle))

    def close(self, address: int) -> None:
        self._runtime.ipcCloseMemHandle(address)

    def write(self, address: int, content: bytes) -> None:
        source = ctypes.create_string_buffer(content, len(content))
        self._runtime.memcpy(address, ctypes.addressof(source), len(content), self._runtime.memcpyDefault)

    def read(self, address: int, size: int) -> bytes:
        target = ctypes.create_string_buffer(size)
        self._runtime.memcpy(ctypes.addressof(target), address, size, self._runtime.memcpyDefault)
        return target.raw

    def event(self) -> Any:
        return self._event(self._cupy.cuda.Stream.null)

    def _event(self, stream: Any) -> Any:
        event = self._cupy.cuda.Event(block=True, disable_timing=True)
        event.record(stream)
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
