"""The start of the fork server: import the modules that workers need, and check whether it can be forked safely.

The fork server of `multiprocessing` can only import modules of others. Importing this module therefore does work, but
only in the process that `ForkServer.start` starts.
"""

from __future__ import annotations

import ctypes
import gc
import importlib
import os
import sys
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from ..machine.lifeline import die_with_parent

MODULES_VARIABLE = "JUPYTER_GPUDASK_FORK_PRELOAD"
"""The environment variable with the modules to import, separated by commas; only the fork server has it."""

PARENT_VARIABLE = "__DASK_PARENT_PID"
"""Dask's environment variable with the pid of the process that starts workers, here the supervisor."""

_NOT_INITIALIZED = 3  # CUDA_ERROR_NOT_INITIALIZED. Source: CUDA Driver API, CUresult
# jemalloc, of PyArrow, prepares for a fork, and in the child frees memory without this thread. Source: its
# background_thread.c, background_thread_postfork_child
_THREADS_PREPARED_FOR_FORKS = frozenset({"jemalloc_bg_thd"})


def prepare(modules: list[str]) -> str:
    """Import those modules that are installed, and return why this process must not be forked; empty if it can be."""
    die_with_parent()
    if os.environ.get(PARENT_VARIABLE, str(os.getppid())) != str(os.getppid()):
        os._exit(0)  # it has ended before that
    gc.disable()  # it takes a tenth of the time of imports
    for name in modules:
        try:
            importlib.import_module(name)
        except ImportError:  # a worker that needs it raises this again
            continue
        except Exception as error:  # noqa: BLE001 - whatever a library raises, it may be half set up
            return f"the import of {name} fails: {type(error).__name__}: {error}"
    gc.freeze()  # what is imported stays, and forks share it
    gc.enable()
    sys.stdout.flush()  # else each fork would print it again
    return why_not_forkable()


def why_not_forkable(process: Path = Path("/proc/self")) -> str:
    """Why a process must not be forked: it has threads, or has initialized CUDA. Empty if it can be forked.

    A fork copies only one thread, and locks that others hold stay locked. CUDA does not work in a process that was
    forked after its initialization.

    `process`: the process, in the file system of processes; that of another one is read for devices and threads only.
    """
    threads = [_read(thread / "comm").strip() for thread in (process / "task").iterdir()]
    others = sorted(threads)
    with suppress(ValueError):
        others.remove(_read(process / "comm").strip())  # the first thread has the name of the process
    if unprepared := [name for name in others if name not in _THREADS_PREPARED_FOR_FORKS]:
        return f"its imports have started threads: {', '.join(unprepared)}"
    mapped = _read(process / "maps")
    opened = "".join(map(_target, (process / "fd").iterdir()))
    if "/dev/nvidia" in mapped + opened:
        return "its imports have opened a GPU"
    if process == Path("/proc/self") and "/libcuda.so" in mapped and is_initialized(ctypes.CDLL("libcuda.so.1")):
        return "its imports have initialized CUDA"
    return ""


def is_initialized(driver: Any) -> bool:
    """Whether this process has initialized CUDA, by its driver library; this does not initialize it."""
    return bool(driver.cuCtxGetCurrent(ctypes.byref(ctypes.c_void_p())) != _NOT_INITIALIZED)


def _read(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:  # such as a thread that has ended
        return ""


def _target(link: Path) -> str:
    try:
        return str(link.readlink())
    except OSError:
        return ""


def send_refusal(sender: Connection[Any, Any]) -> None:
    """Send what `prepare` returned; run in a fork, which has imported this module."""
    sender.send(refusal)


refusal: str | None = None
"""What `prepare` returned; `None` in a process that was not prepared."""

if names := os.environ.pop(MODULES_VARIABLE, ""):
    refusal = prepare(names.split(","))
