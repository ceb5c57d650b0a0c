"""`cupy.cuda`: one device, of which the host's memory is all there is."""

import contextlib
import sys
import time
import types


class Device:
    id = 0
    compute_capability = "90"

    def __init__(self, device=None):
        pass

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def use(self):
        pass

    def synchronize(self):
        pass


_cached = [2**20]  # blocks that the pool keeps, once


class MemoryPool:
    def used_bytes(self):
        return 0

    def total_bytes(self):
        return 0

    def free_bytes(self):
        return _cached[0]

    def free_all_blocks(self):
        _cached[0] = 0

    n_free_blocks = free_all_blocks


class BaseMemory:
    def __init__(self, size):
        self.size = size


class MemoryPointer:
    def __init__(self, host):
        self.ptr, self.mem = host.__array_interface__["data"][0], BaseMemory(host.nbytes)


def get_current_stream():
    return Device()  # both can be waited for


def set_allocator(allocator=None):
    pass


def get_device_id():
    return 0


class Event:
    """Reached as soon as it is recorded: the host has computed before it."""

    done = True

    def record(self, stream=None):
        self.time = time.perf_counter()


def get_elapsed_time(start, end):
    return 1000 * (end.time - start.time)


runtime = types.ModuleType("cupy.cuda.runtime")
runtime.memGetInfo = lambda: (2**30 - _cached[0], 2**31)
runtime.getDeviceCount = lambda: 1
_ILLEGAL_ADDRESS = 700
_errors = []


def _check():
    if _errors:
        raise CUDARuntimeError(_ILLEGAL_ADDRESS)


class CUDARuntimeError(RuntimeError):
    def __init__(self, status):
        super().__init__("cudaErrorIllegalAddress: an illegal memory access was encountered")
        self.status = status


def break_context():
    """What an illegal access does: each later call of CUDA fails, as that of the kernel that made it."""
    _errors.append(_ILLEGAL_ADDRESS)
    _check()


runtime.deviceSynchronize = _check
runtime.streamQuery = lambda _: _errors[0] if _errors else 0
driver = types.ModuleType("cupy.cuda.driver")
driver.ctxGetCurrent = lambda: 1
runtime.is_hip = False
runtime.CUDARuntimeError = CUDARuntimeError
memory = types.ModuleType("cupy.cuda.memory")
memory.BaseMemory, memory.MemoryPointer, memory.MemoryPool = BaseMemory, MemoryPointer, MemoryPool
memory.UnownedMemory = BaseMemory
curand = types.ModuleType("cupy.cuda.curand")
for _name, _number in {"DEFAULT": 100, "XORWOW": 101, "MRG32K3A": 121, "PHILOX4_32_10": 161}.items():
    setattr(curand, f"CURAND_RNG_PSEUDO_{_name}", _number)
stream = types.ModuleType("cupy.cuda.stream")
Stream = type("Stream", (contextlib.nullcontext,), {"null": None})
for _module in (runtime, driver, memory, curand, stream):
    sys.modules[_module.__name__] = _module
