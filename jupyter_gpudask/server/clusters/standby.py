"""A supervisor process that has already imported Dask and waits for the next cluster to start.

It has the directory of that cluster, with the socket of the fork server from which the workers are forked.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from pathlib import Path
from typing import TYPE_CHECKING

from ...errors import GpuDaskError
from ...launcher.cluster_process import start_supervisor
from ...machine.directories import remove_stale_directories, temporary_folders
from ...machine.kernel_variables import without_kernel_variables

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ...launcher.child_process import ChildProcess
    from .kernels import Interpreter, Kernels

logger = logging.getLogger(__name__)


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
            assert self._interpreter is not None
            await asyncio.to_thread(_remove_directory, self._interpreter)

    def _matches(self, interpreter: Interpreter, packages: Mapping[Path, int]) -> bool:
        own, process = self._interpreter, self._process
        if own is None or process is None or process.returncode is not None:
            return False
        if packages != self._packages:  # it may have imported packages that were replaced since
            return False
        return _program(own) == _program(interpreter) and without_kernel_variables(
            own.environment
        ) == without_kernel_variables(interpreter.environment)


def _remove_directory(interpreter: Interpreter) -> None:
    """Remove the directory of a killed process."""
    for folder in temporary_folders(interpreter.environment):
        remove_stale_directories(folder)


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
