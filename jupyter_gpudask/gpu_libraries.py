"""CuPy, cuDF and RMM in a process: prepare them, check them, and release their unused memory.

Runs in the kernel, which also sends some of its functions to workers.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import platform
import signal
import subprocess
import sys
from collections.abc import Iterable, Sequence
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
_TOGETHER = (("cudf", "dask_cudf"), ("cupy", "rmm", "dask_cuda"))  # libraries with common imports

# After a failure the others are tried in a new process, without half-finished imports.
_SCRIPT = """
import json, sys, traceback
for name, code in json.loads(sys.argv[1]).items():
    try:
        names = {}
        exec(code, names)
        answer = True, str(names["library"].__version__)
    except BaseException as error:
        answer = False, "".join(traceback.format_exception(error)).strip().splitlines()[-1]
    print("\\n" + sys.argv[2] + json.dumps([name, *answer]), flush=True)
    if not answer[0]:
        break
"""
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
    wanted = set(names)
    groups = [[name for name in group if name in wanted] for group in _TOGETHER]
    with ThreadPoolExecutor(len(groups)) as pool:
        found = list(pool.map(lambda group: _try_one_after_the_other(group, limit), groups))
    return {name: answer for answers in found for name, answer in answers.items()}


def _try_one_after_the_other(names: Sequence[str], limit: float) -> dict[str, tuple[bool, str]]:
    answers: dict[str, tuple[bool, str]] = {}
    while rest := [name for name in names if name not in answers]:
        answers |= _try_in_one_process(rest, limit)
    return answers


def _try_in_one_process(names: Sequence[str], limit: float) -> dict[str, tuple[bool, str]]:
    """The results up to the first failure."""
    command = [sys.executable, "-c", _SCRIPT, json.dumps({name: _TRY[name] for name in names}), _MARK]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)  # noqa: S603
    failure = ""
    with process:
        try:
            output, errors = process.communicate(timeout=limit)
        except subprocess.TimeoutExpired:
            process.kill()
            output, errors = process.communicate()
            failure = f"no answer for {limit:.0f} s"
    answers = {}
    for line in output.splitlines():
        if line.startswith(_MARK):
            name, works, text = json.loads(line.removeprefix(_MARK))
            answers[name] = (works, text)
    silent = next((name for name in names if name not in answers), None)
    if silent is not None and all(works for works, _ in answers.values()):
        answers[silent] = (False, failure or _describe_end(process.returncode, errors))
    return answers


def _describe_end(status: int, errors: str) -> str:
    if status < 0:
        return f"was killed by {signal.Signals(-status).name}"
    return (errors.strip().splitlines() or [f"ended with status {status}"])[-1]


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


def prepare_gpu_backends(*, spilling: str) -> None:
    """Import the GPU libraries, and configure them to read the results of workers."""
    for name in ("cupy", "cudf", "dask_cudf"):
        with contextlib.suppress(Exception):  # a cell that needs it gets the error itself
            importlib.import_module(name)
    with contextlib.suppress(Exception):
        import cudf

        if spilling == "cudf":
            cudf.set_option("spill", True)  # noqa: FBT003 - the name and the value of an option
