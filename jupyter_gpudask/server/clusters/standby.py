"""A supervisor that has imported what a cluster needs, and waits for its order."""

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

# What Jupyter and IPython's kernel set in each kernel; nothing that a supervisor imports asks for it.
_OF_KERNELS = frozenset(
    {"CLICOLOR", "CLICOLOR_FORCE", "FORCE_COLOR", "GIT_PAGER", "MPLBACKEND", "PAGER", "PYDEVD_USE_FRAME_EVAL", "TERM"}
)
_PREFIX_OF_KERNELS = "JPY_"


class Standby:
    """At most one process, of the interpreter and with the variables of the kernel that was seen last.

    It holds no GPU, no port and no credentials, and ends with the server however that ends.

    Parameters
    ----------
    kernels
        The kernels that can have clusters.
    wanted
        Whether there shall be one.
    """

    def __init__(self, kernels: Kernels, wanted: bool) -> None:
        self._kernels = kernels
        self._wanted = wanted
        self._lock = asyncio.Lock()
        self._interpreter: Interpreter | None = None
        self._packages: Mapping[Path, int] = {}
        self._process: ChildProcess | None = None

    async def prepare(self, kernel_id: str) -> None:
        """Have one for kernels like this."""
        async with self._lock:
            if not self._wanted:
                return
            try:
                interpreter = await self._kernels.interpreter(kernel_id)
                packages = await asyncio.to_thread(_packages, interpreter)
                if self._suits(interpreter, packages):
                    return
                await self._end()
                self._process = await start_supervisor(interpreter.python, interpreter.environment, "--standby")
            except GpuDaskError as error:
                logger.info("There is no standby for kernel %s: %s", kernel_id, error)
            else:
                self._interpreter, self._packages = interpreter, packages

    async def take(self, interpreter: Interpreter) -> ChildProcess | None:
        """The process, if it is for kernels like this; it is the caller's from now on."""
        if not self._suits(interpreter, await asyncio.to_thread(_packages, interpreter)):
            return None
        process, self._process = self._process, None
        return process

    async def close(self) -> None:
        """End it, and have none again."""
        async with self._lock:
            self._wanted = False
            await self._end()

    async def _end(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            await process.kill()

    def _suits(self, interpreter: Interpreter, packages: Mapping[Path, int]) -> bool:
        mine, process = self._interpreter, self._process
        if mine is None or process is None or process.returncode is not None:
            return False
        if packages != self._packages:  # it has imported what was installed before
            return False
        return _program(mine) == _program(interpreter) and _variables(mine) == _variables(interpreter)


def _program(interpreter: Interpreter) -> tuple[Path, str]:
    """The environment that an interpreter belongs to, and what it is; ``python`` and ``python3`` are one."""
    return Path(interpreter.python).parent, os.path.realpath(interpreter.python)


def _packages(interpreter: Interpreter) -> dict[Path, int]:
    """When something was last installed into each folder of packages that belongs to an interpreter, or removed."""
    places = (Path(interpreter.python).parent.parent, Path(interpreter.environment.get("HOME", "/")) / ".local")
    found = {}
    with contextlib.suppress(OSError):  # those that cannot be looked at cannot be installed into
        for folder in (folder for place in places for folder in place.glob("lib*/python3*/*-packages")):
            found[folder] = folder.stat().st_mtime_ns
    return found


def _variables(interpreter: Interpreter) -> dict[str, str]:
    return {
        name: value
        for name, value in interpreter.environment.items()
        if name not in _OF_KERNELS and not name.startswith(_PREFIX_OF_KERNELS)
    }
