"""A device made of NumPy: objects whose memory has CUDA's array interface, and what copies it; for workers, too."""

import ctypes
import mmap
import os
import threading

import numpy as np
from distributed.protocol.cuda import cuda_deserialize, cuda_serialize

from jupyter_gpudask.comm import device_memory
from jupyter_gpudask.comm.device_segments import DeviceMemoryError


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
    """Copies with the processor, and counts; memory that others can open is in files."""

    def __init__(self, size=0, peers=True):
        self.pinned, self.loaded = {}, 0
        self.size, self.peers = size, peers
        self.allocated, self.opened = {}, {}
        self.wait = threading.Event()
        self.wait.set()

    def pin(self, address, size):
        self.pinned[address] = size

    def unpin(self, address):
        del self.pinned[address]

    def store(self, address, frame):
        ctypes.memmove(address, frame.__cuda_array_interface__["data"][0], frame.nbytes)

    def load(self, address, size):
        self.loaded += 1
        memory = np.empty(size, "u1")
        ctypes.memmove(memory.ctypes.data, address, size)
        return Memory(memory)

    def wait_for(self, event):
        event.synchronize()

    def finish(self):
        pass

    def memory(self):
        return self.size

    def allocate(self, size):
        if size + sum(len(memory) for _, memory, _ in self.allocated.values()) > self.size:
            raise DeviceMemoryError
        file = os.memfd_create("device memory")
        os.ftruncate(file, size)
        return self._map(self.allocated, file, size)

    def export(self, address):
        return f"{os.getpid()}/fd/{self.allocated[address][0]}".encode().ljust(64)

    def open(self, handle):
        if not self.peers:
            raise RuntimeError("cudaErrorPeerAccessUnsupported")
        file = os.open(f"/proc/{handle.decode().strip()}", os.O_RDWR)
        return self._map(self.opened, file, os.fstat(file).st_size)

    def free(self, address):
        self._unmap(self.allocated, address)

    def close(self, address):
        self._unmap(self.opened, address)

    def write(self, address, content):
        ctypes.memmove(address, content, len(content))

    def read(self, address, size):
        return ctypes.string_at(address, size)

    @staticmethod
    def _map(maps, file, size):
        memory = mmap.mmap(file, size)
        first = ctypes.c_char.from_buffer(memory)
        address = ctypes.addressof(first)
        maps[address] = file, memory, first
        return address

    @staticmethod
    def _unmap(maps, address):
        file, memory, first = maps.pop(address)
        del first
        memory.close()
        os.close(file)

    def event(self):
        return Event(self.wait)


class Event:
    """What the device has done when `waiting` is set."""

    def __init__(self, waiting):
        self.waiting = waiting

    def synchronize(self):
        self.waiting.wait()


def install(size=0):
    """Make this the device of the process; `size` is the memory of which others can open some."""
    device_memory._Cuda = lambda: Device(size)
    device_memory._create.cache_clear()
    device_memory.enable()


def report():
    """How often this process has pickled an array, and copied one to the device."""
    return Array.pickled, device_memory._transfer().device.loaded
