"""A device made of NumPy: objects whose memory has CUDA's array interface, and what copies it; for workers, too."""

import ctypes
import threading

import numpy as np
from distributed.protocol.cuda import cuda_deserialize, cuda_serialize

from jupyter_gpudask.comm import device_memory


class Memory:
    """Bytes of the device."""

    def __init__(self, array):
        self.array = np.ascontiguousarray(array).view("u1").reshape(-1)
        self.nbytes = self.array.nbytes
        address = self.array.ctypes.data
        self.__cuda_array_interface__ = {"data": (address, False), "shape": (self.nbytes,), "typestr": "|u1"}


class Array:
    """What is on the device: some arrays of 64-bit integers, and a name that is on the host."""

    pickled = 0

    def __init__(self, *parts, name=b""):
        self.parts, self.name = [Memory(part) for part in parts], name

    def values(self):
        return [part.array.view("i8").tolist() for part in self.parts]

    def __reduce__(self):
        Array.pickled += 1
        return _restore, (self.values(), self.name)


def _restore(values, name):
    return Array(*[np.array(value, "i8") for value in values], name=name)


@cuda_serialize.register(Array)
def _serialize(array):
    return {"name": "host frame"}, [memoryview(array.name), *array.parts]


@cuda_deserialize.register(Array)
def _deserialize(header, frames):
    assert header == {"name": "host frame"}
    result = Array(name=bytes(frames[0]))
    result.parts = list(frames[1:])
    return result


class Device:
    """Copies with the processor, and counts."""

    def __init__(self):
        self.pinned, self.to_devices = {}, 0
        self.wait = threading.Event()
        self.wait.set()

    def pin(self, address, size):
        self.pinned[address] = size

    def unpin(self, address):
        del self.pinned[address]

    def to_host(self, address, frame):
        ctypes.memmove(address, frame.__cuda_array_interface__["data"][0], frame.nbytes)

    def to_device(self, address, size):
        self.to_devices += 1
        memory = np.empty(size, "u1")
        ctypes.memmove(memory.ctypes.data, address, size)
        return Memory(memory)

    def event(self):
        waiting = self.wait

        class Event:
            def synchronize(self):
                waiting.wait()

        return Event()


def install():
    """Make this the device of the process."""
    device_memory._Cuda = Device
    device_memory._create.cache_clear()
    device_memory.enable()


def report():
    """How often this process has pickled an array, and copied one to the device."""
    return Array.pickled, device_memory._transfer().device.to_devices
