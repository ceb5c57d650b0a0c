"""The one fake of the tests: an NVML with GPUs that are not there, for processes with this folder on PYTHONPATH.

It stands at the edge of the machine only. dask-cuda, its nannies, environments and plugins are the real ones; CuPy,
cuDF and RMM are empty names, so that their presence can be checked and they cannot decide a result. With the folder
`fake_cupy` on PYTHONPATH too, the CuPy is the stand-in there, which computes.

- ``FAKE_GPUS`` (2): number of GPUs
- ``FAKE_GPU_NAMES`` (NVIDIA H200): their names, separated by commas
- ``FAKE_GPU_USED`` (1 GiB): bytes in use on each, of 140 GiB
- ``FAKE_TRAFFIC`` (0): bytes per second over NVLink, and over PCIe; -1 if not reported
- ``FAKE_TRAFFIC_TYPE`` (64 bits): NVML's type of these counters
- ``FAKE_PCIE`` (counter): how PCIe traffic is measured: counter, or throughput (by measuring for 20 ms)
- ``FAKE_ENERGY`` (0): joules that the energy counter adds at each reading; 0 for none
- ``FAKE_NVML_LOG`` (none): a file of who opens, closes and queries NVML
- ``FAKE_NVML_DELAY`` (0): seconds that each query takes
- ``FAKE_NVML_ERROR`` (none): NVML error that every call raises, such as LIBRARY_NOT_FOUND
- ``FAKE_GPU_PACKAGES`` (cupy,cudf,dask_cudf,rmm): packages that can be imported
- ``FAKE_BROKEN_PACKAGE`` (none): the package that fails when a worker sets it up
- ``FAKE_ERROR`` (this package is broken): the words of its error
"""

import importlib.machinery
import os
import sys
import time
import types
from pathlib import Path
from unittest import mock

import pynvml

COUNT = int(os.environ.get("FAKE_GPUS", "2"))
TOTAL = 140 * 2**30
NAMES = os.environ.get("FAKE_GPU_NAMES", "NVIDIA H200").split(",")
USED = int(os.environ.get("FAKE_GPU_USED", str(2**30)))
LOG = os.environ.get("FAKE_NVML_LOG", "")
DELAY = float(os.environ.get("FAKE_NVML_DELAY", "0"))
TRAFFIC = int(os.environ.get("FAKE_TRAFFIC", "0"))
PCIE = os.environ.get("FAKE_PCIE", "counter")
ENERGY = int(1000 * float(os.environ.get("FAKE_ENERGY", "0")))
ERROR = os.environ.get("FAKE_NVML_ERROR", "")
BROKEN = os.environ.get("FAKE_BROKEN_PACKAGE", "")
PACKAGES = os.environ.get("FAKE_GPU_PACKAGES", "cupy,cudf,dask_cudf,rmm").split(",")
counted = []
STAND_IN = any(Path(entry).name == "fake_cupy" for entry in sys.path)


class Memory:
    total, used, free = TOTAL, USED, TOTAL - USED


class Utilization:
    gpu, memory = 37, 5


class Process:
    pid, usedGpuMemory = 812, 2**29  # noqa: N815 - NVML's name


def uuid(index):
    return f"GPU-0000000{index}-1111-2222-3333-444444444444"


def by_index(index):
    if not 0 <= index < COUNT:
        raise pynvml.NVMLError(pynvml.NVML_ERROR_INVALID_ARGUMENT)
    return index


def by_uuid(name):
    name = name.decode() if isinstance(name, bytes) else name
    return next(index for index in range(COUNT) if uuid(index) == name)


def init(*_):
    if ERROR:
        raise pynvml.NVMLError(getattr(pynvml, f"NVML_ERROR_{ERROR}"))


def energy(_):
    """Millijoules; each process that reads it has a counter of its own."""
    if not ENERGY:
        return unsupported()
    counted.append(ENERGY)
    return sum(counted)


VALUE_TYPE = int(os.environ.get("FAKE_TRAFFIC_TYPE", str(pynvml.NVML_VALUE_TYPE_UNSIGNED_LONG_LONG)))


def field_values(_, fields):
    """Counters that grow: those of NVLink in KiB, for the sum of all links only."""
    values = (pynvml.c_nvmlFieldValue_t * len(fields))()
    sent = int(time.time() * TRAFFIC / 2)
    for value, field in zip(values, fields, strict=True):
        number, scope = field if isinstance(field, tuple) else (field, 0)
        is_nvlink = (number, scope) in ((138, 2**32 - 1), (139, 2**32 - 1))
        is_known = TRAFFIC >= 0 and (is_nvlink or number in (197, 198))
        value.nvmlReturn = pynvml.NVML_SUCCESS if is_known else pynvml.NVML_ERROR_NOT_SUPPORTED
        is_short = number in (197, 198) and PCIE != "counter"
        value.valueType = pynvml.NVML_VALUE_TYPE_UNSIGNED_INT if is_short else VALUE_TYPE
        value.value.ullVal = max(0, sent // 1024 if is_nvlink else sent)
    return values


def throughput(*_):
    """KB/s, of 20 ms."""
    if TRAFFIC < 0 or PCIE != "throughput":
        return unsupported()
    time.sleep(0.02)
    return TRAFFIC // 2 // 1000


def unsupported(*_):
    raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)


ANSWERS = {
    "nvmlInit": init,
    "nvmlShutdown": lambda: None,
    "nvmlSystemGetCudaDriverVersion": lambda: 13000,
    "nvmlSystemGetDriverVersion": lambda: "580.00",
    "nvmlDeviceGetCount": lambda: COUNT,
    "nvmlDeviceGetHandleByIndex": by_index,
    "nvmlDeviceGetHandleByUUID": by_uuid,
    "nvmlDeviceGetIndex": lambda handle: handle,
    "nvmlDeviceGetUUID": uuid,
    "nvmlDeviceGetName": lambda handle: NAMES[handle % len(NAMES)],
    "nvmlDeviceGetMemoryInfo": lambda handle: Memory,
    "nvmlDeviceGetUtilizationRates": lambda handle: Utilization,
    "nvmlDeviceGetTemperature": lambda handle, sensor: 46,
    "nvmlDeviceGetPowerUsage": lambda handle: 191_000,
    "nvmlDeviceGetTotalEnergyConsumption": energy,
    "nvmlDeviceGetFieldValues": field_values,
    "nvmlDeviceGetPcieThroughput": throughput,
    "nvmlDeviceGetComputeRunningProcesses": lambda handle: [Process] if handle == 0 else [],
    "nvmlDeviceGetComputeRunningProcesses_v2": lambda handle: [],
    "nvmlDeviceGetMigMode": unsupported,
    "nvmlDeviceIsMigDeviceHandle": lambda handle: False,
    "nvmlDeviceGetCpuAffinity": lambda handle, size: [2**64 - 1] * size,
}
SLOW = {"nvmlDeviceGetUtilizationRates", "nvmlDeviceGetMemoryInfo", "nvmlDeviceGetPowerUsage"}


def slowly(answer):
    def wait_and_answer(*arguments):
        time.sleep(DELAY)
        return answer(*arguments)

    return wait_and_answer


def logged(name, answer):
    def log_and_answer(*arguments):
        log = os.open(LOG, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        caller = sys._getframe(1).f_globals["__name__"]
        os.write(log, f"{os.getpid()} {caller} {name}\n".encode())
        os.close(log)
        return answer(*arguments)

    return log_and_answer


for name, answer in ANSWERS.items():
    if DELAY and name in SLOW:
        answer = slowly(answer)  # noqa: PLW2901
    if LOG and name in ("nvmlInit", "nvmlShutdown", "nvmlDeviceGetMemoryInfo"):
        answer = logged(name, answer)  # noqa: PLW2901
    setattr(pynvml, name, answer)


def fail(*_):
    raise RuntimeError(os.environ.get("FAKE_ERROR", "this package is broken"))


def namespace(name, **members):
    """A module that is not there, with what is asked of it; a mock would keep each call."""
    module = types.ModuleType(name)
    vars(module).update(members)
    return module


def fake_rmm():
    counts = types.SimpleNamespace(current_bytes=2**30, peak_bytes=2**31)
    kinds = (
        "CudaMemoryResource",
        "CudaAsyncMemoryResource",
        "CudaAsyncViewMemoryResource",
        "PoolMemoryResource",
        "LimitingResourceAdaptor",
        "StatisticsResourceAdaptor",
        "TrackingResourceAdaptor",
    )
    statistics = namespace("rmm.statistics", enable_statistics=ignore)
    resources = {name: type(name, (), {"__init__": ignore}) for name in kinds}
    resource = types.SimpleNamespace(allocation_counts=counts, push_counters=ignore, pop_counters=ignore)
    mr = namespace(
        "rmm.mr", get_current_device_resource=lambda: resource, set_current_device_resource=ignore, **resources
    )
    cupy = namespace("rmm.allocators.cupy", rmm_cupy_allocator=ignore)
    allocators = namespace("rmm.allocators", cupy=cupy)
    sys.modules |= {module.__name__: module for module in (statistics, mr, cupy, allocators)}
    buffer = type("DeviceBuffer", (), {"__init__": ignore})
    return namespace(
        "rmm", statistics=statistics, mr=mr, allocators=allocators, DeviceBuffer=buffer, reinitialize=ignore
    )


def ignore(*_, **__):
    pass


for name in PACKAGES:
    if name and not (name == "cupy" and STAND_IN):
        module = fake_rmm() if name == "rmm" else types.ModuleType(name)
        module.set_option = module.get_option = fail if name == BROKEN else lambda *_: None
        module.__spec__ = importlib.machinery.ModuleSpec(name, loader=None)
        module.__path__ = []
        sys.modules[name] = module
if "cupy" in sys.modules:
    # Dask registers what CuPy has to offer as soon as its backend is made ready; nothing of it is called.
    sys.modules["cupy"].ndarray = type("ndarray", (), {})
    for name in ("concatenate", "take", "tensordot", "empty", "asarray", "asnumpy", "einsum", "cuda"):
        setattr(sys.modules["cupy"], name, mock.MagicMock(name=name))
    if BROKEN == "cupy":
        sys.modules["cupy"].cuda.set_allocator = fail
