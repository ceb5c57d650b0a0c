"""CuPy, cuDF and RMM in a process: prepare them, check them, and release their unused memory.

Runs in the kernel, which also sends some of its functions to workers.
"""

from __future__ import annotations

import gc
import platform
import signal
import subprocess
import sys
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

LIBRARIES = ("dask", "distributed", "numpy", "pandas", "cupy", "cudf", "dask_cudf", "rmm", "dask_cuda")

_TRY = {
    "cudf": "import cudf as library; assert int(library.Series([1, 2]).sum()) == 3",
    "dask_cudf": "import dask_cudf as library",
    "cupy": "import cupy as library; assert int(library.arange(10).sum()) == 45",
    "rmm": "import rmm as library; library.DeviceBuffer(size=1024)",
    "dask_cuda": "import dask_cuda as library",
}
_MARK = "jupyter_gpudask: "


@dataclass(frozen=True)
class Examined:
    """The libraries of a process."""

    place: tuple[str, str]  # the machine and the environment in which it runs
    versions: dict[str, str]  # the versions of Python and of the loaded libraries, by name
    working: tuple[str, ...] = ()  # the loaded GPU libraries whose test computation has just succeeded


def examine_process(*, compute: bool = True, **_: Any) -> Examined:
    """Examine the libraries that this process has loaded, without importing others; `compute` with each GPU library."""
    loaded = {name: getattr(sys.modules.get(name), "__version__", None) for name in LIBRARIES}
    versions = {"python": sys.version.split()[0]} | {name: str(version) for name, version in loaded.items() if version}
    working = tuple(name for name in _TRY if compute and loaded[name] and _computes(name))
    return Examined((platform.node(), sys.prefix), versions, working)


def _computes(name: str) -> bool:
    try:
        exec(_TRY[name], {})  # noqa: S102 - constants of this module
    except Exception:  # noqa: BLE001 - tried again in a process of its own, which reports the error
        return False
    return True


def try_libraries(names: Iterable[str], limit: float = 120.0) -> dict[str, tuple[bool, str]]:
    """Run a test computation with GPU libraries in processes that leave no CUDA context; version or error of each."""
    names = list(names)
    with ThreadPoolExecutor(2) as pool:  # each process takes memory of the GPU
        return dict(zip(names, pool.map(lambda name: _try_in_own_process(name, limit), names), strict=True))


def _try_in_own_process(name: str, limit: float) -> tuple[bool, str]:
    command = [sys.executable, "-c", f"{_TRY[name]}; print({_MARK!r} + str(library.__version__))"]
    try:
        ended = subprocess.run(command, capture_output=True, text=True, timeout=limit, check=False)  # noqa: S603
    except subprocess.TimeoutExpired:
        return False, f"no answer for {limit:.0f} s"
    versions = [line.removeprefix(_MARK) for line in ended.stdout.splitlines() if line.startswith(_MARK)]
    if versions:
        return True, versions[-1]
    if ended.returncode < 0:
        return False, f"was killed by {signal.Signals(-ended.returncode).name}"
    return False, (ended.stderr.strip().splitlines() or [f"ended with status {ended.returncode}"])[-1]


def release_memory(**_: Any) -> int:
    """Release cached blocks, FFT plans, the free part of growing pools, and shared memory that waits to be used again.

    The memory of variables and results stays allocated, and so does a pool of fixed size.

    Returns by how many bytes free device memory has grown; 0 in a process that does not use a GPU.
    """
    gc.collect()
    if "cupy" not in sys.modules:
        return 0
    import cupy

    from .comm import device_memory
    from .worker import memory

    device_memory.release_unused()
    before, _total = cupy.cuda.runtime.memGetInfo()
    cupy.fft.config.get_plan_cache().clear()
    cupy.cuda.Device().synchronize()  # stream-ordered frees take effect when the stream is done
    cupy.get_default_memory_pool().free_all_blocks()
    cupy.get_default_pinned_memory_pool().free_all_blocks()
    memory.release_unused()
    after, _total = cupy.cuda.runtime.memGetInfo()
    return max(0, int(after) - int(before))
