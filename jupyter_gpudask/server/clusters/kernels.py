"""The kernels of a Jupyter server, as far as clusters need to know them."""

from __future__ import annotations

import asyncio
import shutil
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any, Protocol

import psutil
from jupyter_server.utils import ensure_async

from ...errors import KernelNotFoundError, KernelUnsuitableError

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True)
class Interpreter:
    """How to start another process as a kernel was started.

    Attributes
    ----------
    python
        The interpreter, as a path.
    environment
        Its variables.
    path
        Folders from which it imports modules besides those of its environment.
    """

    python: str
    environment: Mapping[str, str]
    path: tuple[str, ...] = ()


@dataclass(frozen=True)
class KernelProcess:
    """A kernel that runs on this machine.

    Attributes
    ----------
    kernel_id
        Its id.
    notebook
        The name of its notebook, or of its first, or of the kernel where it has none.
    """

    kernel_id: str
    notebook: str


class Kernels(Protocol):
    """What the manager asks about kernels."""

    def __contains__(self, kernel_id: str) -> bool:
        """Whether there is such a kernel."""

    def is_busy(self, kernel_id: str) -> bool:
        """Whether it runs a cell."""

    async def interpreter(self, kernel_id: str) -> Interpreter:
        """How it was started.

        Raises
        ------
        KernelNotFoundError, KernelUnsuitableError
            There is no such kernel, or nothing can be started like it.
        """

    async def notebooks(self) -> Mapping[str, tuple[str, ...]]:
        """The paths of the notebooks and consoles of each kernel."""

    def name(self, kernel_id: str) -> str:
        """The name of its kernelspec."""

    def processes(self, notebooks: Mapping[str, tuple[str, ...]]) -> Mapping[int, KernelProcess]:
        """Those that run on this machine, by pid, which is the id of a session too; `notebooks` are those of each."""


class ServerKernels:
    """The kernels of a `jupyter_server.serverapp.ServerApp`.

    Parameters
    ----------
    kernel_manager, session_manager
        The server's.
    """

    def __init__(self, kernel_manager: Any, session_manager: Any) -> None:
        self._kernels = kernel_manager
        self._sessions = session_manager

    def __contains__(self, kernel_id: str) -> bool:
        return kernel_id in self._kernels

    def is_busy(self, kernel_id: str) -> bool:
        """Whether it runs a cell."""
        return kernel_id in self and getattr(self._kernels.get_kernel(kernel_id), "execution_state", "") == "busy"

    def name(self, kernel_id: str) -> str:
        """The name of its kernelspec."""
        return str(self._kernels.get_kernel(kernel_id).kernel_name) if kernel_id in self else "kernel"

    def processes(self, notebooks: Mapping[str, tuple[str, ...]]) -> Mapping[int, KernelProcess]:
        """Those that run on this machine, by pid, which is the id of a session too; `notebooks` are those of each."""
        found: dict[int, KernelProcess] = {}
        for kernel_id in self._kernels.list_kernel_ids():
            pid = getattr(getattr(self._kernels.get_kernel(kernel_id), "provisioner", None), "pid", None)
            if pid is not None:
                paths = notebooks.get(kernel_id)
                found[pid] = KernelProcess(kernel_id, PurePath(paths[0]).name if paths else self.name(kernel_id))
        return found

    async def notebooks(self) -> Mapping[str, tuple[str, ...]]:
        """The paths of the notebooks and consoles of each kernel."""
        found: dict[str, tuple[str, ...]] = {}
        for session in await ensure_async(self._sessions.list_sessions()):
            kernel = (session.get("kernel") or {}).get("id")
            if kernel is not None and session.get("path"):
                found[kernel] = (*found.get(kernel, ()), session["path"])
        return found

    async def interpreter(self, kernel_id: str) -> Interpreter:
        """How it was started: the interpreter and the variables of the process that has its connection file."""
        if kernel_id not in self:
            raise KernelNotFoundError(kernel_id)
        kernel = self._kernels.get_kernel(kernel_id)
        specification = kernel.kernel_spec
        if specification is None or specification.language.lower() != "python":
            raise KernelUnsuitableError("This kernel is not a Python kernel.", "Clusters belong to Python kernels.")
        pid = getattr(kernel.provisioner, "pid", None)
        if pid is None:
            raise KernelUnsuitableError(
                "This kernel's process is not on this machine.", "Type in the notebook: %gpudask start"
            )
        return await asyncio.to_thread(_interpreter_of, pid, kernel.connection_file)


def _interpreter_of(pid: int, connection_file: str) -> Interpreter:
    """Of the innermost process with `connection_file` in its command line: what is around it may be a launcher."""
    try:
        kernel = psutil.Process(_innermost(pid, connection_file))
        environment, command = kernel.environ(), kernel.cmdline()
        if connection_file not in command:  # the kernel is dead, and the pid is somebody else's
            raise ProcessLookupError
        program = command[0]
    except (psutil.Error, OSError):
        raise KernelUnsuitableError("This kernel's process cannot be looked at.", "Restart the kernel.") from None
    python = shutil.which(program, path=environment.get("PATH"))
    if python is None:
        raise KernelUnsuitableError(f"This kernel's interpreter {program} is not found.", "Restart the kernel.")
    return Interpreter(python, environment)


def _innermost(pid: int, connection_file: str) -> int:
    """The descendant of `pid` that runs the kernel; Linux lists children without a look at every process there is."""
    for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
        if connection_file in psutil.Process(int(child)).cmdline():
            return _innermost(int(child), connection_file)
    return pid
