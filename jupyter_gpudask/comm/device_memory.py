"""Serialization of what is in device memory for another worker on the same machine, by page-locked shared memory.

A family of serializers of Dask, which uses the functions that CuPy, cuDF and others have registered for UCX. The device
memory of an object is copied to a segment, whose reference travels in the object's header. What is small, or has no
room, is left to the next family: Dask's own, through the socket.

Only workers take part: a scheduler must not have a CUDA context.
"""

from __future__ import annotations

import logging
import queue
import threading
from functools import cache
from typing import TYPE_CHECKING, Any

from distributed.comm.core import CommClosedError
from distributed.protocol.cuda import cuda_dumps, cuda_loads
from distributed.protocol.serialize import register_serialization_family
from distributed.utils import nbytes

from .pinned_segments import OpenedSegments, Reference, Segment, SegmentLimitError, SegmentPool

if TYPE_CHECKING:
    from .pinned_segments import Device

FAMILY = "gpudask-pinned"
SEGMENTS = "gpudask-segments"
"""The name under which the context of a message has the list of the segments that its connection has filled."""

_LEAST = 2**18
_ALIGNMENT = 256

_log = logging.getLogger(__name__)
_switch = threading.Event()


def enable() -> None:
    """Let this process, a worker, send and receive device memory so."""
    _switch.set()


def is_enabled() -> bool:
    """Whether this process does so."""
    return _switch.is_set()


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
    filled: list[Segment] = context[SEGMENTS]
    try:
        segment = _transfer().pool.take(total, filled)
    except SegmentLimitError:
        raise NotImplementedError from None
    except Exception as error:
        _stop_using(error)
        raise NotImplementedError from error
    filled[:] = [each for each in filled if each.holder is filled and not each.free]
    filled.append(segment)
    device = _transfer().device
    for frame, size, place in zip(frames, sizes, places, strict=True):
        if size > 0:
            device.to_host(segment.address + place, frame)
    device.event().synchronize()
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


def give_up(filled: list[Segment]) -> None:
    """Remove the segments that a closed connection has filled and that are not read."""
    for segment in list(filled):
        segment.pool.give_up(segment, filled)


register_serialization_family(FAMILY, dumps, loads)


class _Transfer:
    """The segments of this process, and the thread that releases those of others when they were copied."""

    def __init__(self, device: Device) -> None:
        self.device = device
        self.pool = SegmentPool(device)
        self.opened = OpenedSegments(device)
        self._copied: queue.SimpleQueue[tuple[Any, Reference]] = queue.SimpleQueue()
        threading.Thread(target=self._release, name="gpudask-segments", daemon=True).start()

    def release_after_copies(self, reference: Reference) -> None:
        """Release a segment once the copies that were begun have ended, without waiting for them."""
        self._copied.put((self.device.event(), reference))

    def _release(self) -> None:
        while True:
            event, reference = self._copied.get()
            event.synchronize()
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


@cache
def _transfer() -> _Transfer:
    return _Transfer(_Cuda())


def _stop_using(error: Exception) -> None:
    _switch.clear()
    _log.warning("From now on device memory is sent to other workers by the socket, not by shared memory: %s", error)


def _layout(sizes: list[int]) -> tuple[list[int], int]:
    """The place of each frame in a segment, and the bytes of all; a frame of a negative size is elsewhere."""
    places, end = [], 0
    for size in sizes:
        places.append(end)
        end += -(-max(size, 0) // _ALIGNMENT) * _ALIGNMENT
    return places, end
