"""A supervisor process that has already imported Dask and waits for the next cluster to start."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from pathlib import Path
from typing import TYPE_CHECKING

from ...errors import GpuDaskError
from ...launcher.cluster_process import start_supervisor

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ...launcher.child_process import ChildProcess
    from .kernels import Interpreter, Kernels

logger = logging.getLogger(__name__)

# Variables that Jupyter and ipykernel set in each kernel; the modules that a supervisor imports do not read them.
_KERNEL_VARIABLES = frozenset(
    {"CLICOLOR", "CLICOLOR_FORCE", "FORCE_COLOR", "GIT_PAGER", "MPLBACKEND", "PAGER", "PYDEVD_USE_FRAME_EVAL", "TERM"}
)
_KERNEL_VARIABLE_PREFIX = "JPY_"


class StandbySupervisor:
    """At most one process, with the interpreter and the environment of the kernel that was started last.

    It holds no GPU, port or credentials, and ends with the server, even if the server is killed.

    Parameters
    ----------
    kernels
        The kernels of the server.
    enabled
        Whether to keep such a process.
    """

    def __init__(self, kernels: Kernels, enabled: bool) -> None:
        self._kernels = kernels
        self._enabled = enabled
        self._lock = asyncio.Lock()
        self._interpreter: Interpreter | None = None
        self._packages: Mapping[Path, int] = {}
        self._process: ChildProcess | None = None

    async def prepare(self, kernel_id: str) -> None:
        """Start a process that matches this kernel, unless there is one."""
        if not self._enabled:
            return
        try:
            interpreter = await self._kernels.interpreter(kernel_id)
            packages = await asyncio.to_thread(_packages, interpreter)
            async with self._lock:
                await self._replace(interpreter, packages)
        except GpuDaskError as error:
            logger.info("No standby supervisor for kernel %s: %s", kernel_id, error)

    async def _replace(self, interpreter: Interpreter, packages: Mapping[Path, int]) -> None:
        if not self._enabled or self._matches(interpreter, packages):
            return
        await self._end()
        self._process = await start_supervisor(interpreter.python, interpreter.environment, "--standby")
        self._interpreter, self._packages = interpreter, packages

    async def take(self, interpreter: Interpreter) -> ChildProcess | None:
        """Hand over the process to the caller if it matches `interpreter`, also if it is just starting; else `None`."""
        packages = await asyncio.to_thread(_packages, interpreter)
        async with self._lock:
            if not self._matches(interpreter, packages):
                return None
            process, self._process = self._process, None
            return process

    async def close(self) -> None:
        """End the process; no other is started afterwards."""
        async with self._lock:
            self._enabled = False
            await self._end()

    async def _end(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            await process.kill()

    def _matches(self, interpreter: Interpreter, packages: Mapping[Path, int]) -> bool:
        own, process = self._interpreter, self._process
        if own is None or process is None or process.returncode is not None:
            return False
        if packages != self._packages:  # it may have imported packages that were replaced since
            return False
        return _program(own) == _program(interpreter) and _variables(own) == _variables(interpreter)


def _program(interpreter: Interpreter) -> tuple[Path, str]:
    """The folder and the resolved path of an interpreter: ``python`` and ``python3`` are the same one."""
    return Path(interpreter.python).parent, os.path.realpath(interpreter.python)


def _packages(interpreter: Interpreter) -> dict[Path, int]:
    """Modification times of the site-packages folders of an interpreter: installing a package changes them."""
    places = (Path(interpreter.python).parent.parent, Path(interpreter.environment.get("HOME", "/")) / ".local")
    modified = {}
    with contextlib.suppress(OSError):  # a folder that cannot be read does not matter
        for folder in (folder for place in places for folder in place.glob("lib*/python3*/*-packages")):
            modified[folder] = folder.stat().st_mtime_ns
    return modified


def _variables(interpreter: Interpreter) -> dict[str, str]:
    """The environment variables that can change what a supervisor imports or does."""
    return {
        name: value
        for name, value in interpreter.environment.items()
        if name not in _KERNEL_VARIABLES and not name.startswith(_KERNEL_VARIABLE_PREFIX)
    }
