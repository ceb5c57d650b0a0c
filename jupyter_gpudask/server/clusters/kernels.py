"""The kernels of a Jupyter server: interpreter, environment, notebooks and processes."""

from __future__ import annotations

import asyncio
import shutil
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any

import psutil
from jupyter_server.utils import ensure_async

from ...errors import KernelNotFoundError, KernelUnsuitableError
from .executions import Executions

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True)
class Interpreter:
    """How to start a process with the interpreter and environment of a kernel.

    Attributes
    ----------
    python
        Path of the interpreter.
    environment
        Environment variables.
    path
        Additional folders for `sys.path`.
    settings
        The settings of Dask's configuration that the kernel has changed, if the kernel has sent them.
    """

    python: str
    environment: Mapping[str, str]
    path: tuple[str, ...] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class KernelProcess:
    """The process of a kernel on this machine.

    Attributes
    ----------
    kernel_id
        The id of the kernel.
    notebook
        The file name of its first notebook, or the path if another kernel's has the same name; the name of its
        kernelspec if it has no notebook.
    """

    kernel_id: str
    notebook: str


class ServerKernels:
    """The kernels of a `jupyter_server.serverapp.ServerApp`."""

    def __init__(self, kernel_manager: Any, session_manager: Any) -> None:
        self._kernels = kernel_manager
        self._sessions = session_manager
        self._executions = Executions()

    def __contains__(self, kernel_id: str) -> bool:
        return kernel_id in self._kernels

    def watch(self, kernel_id: str) -> None:
        """Note which cells a kernel executes that has started, or has started again."""
        if kernel_id not in self:
            return
        kernel = self._kernels.get_kernel(kernel_id)
        was_restarted = kernel_id in self._executions
        self._executions.watch(kernel_id, kernel)
        if was_restarted and getattr(kernel, "execution_state", "") == "busy":
            # The state of the process that has ended: Jupyter Server keeps it until the next cell, unless it gets the
            # first message of the new process, which may be sent before ZeroMQ has connected to it again.
            kernel.execution_state = "starting"

    def forget(self, kernel_id: str) -> None:
        """Note no more what a kernel executes, which has ended."""
        self._executions.forget(kernel_id)

    def is_busy(self, kernel_id: str) -> bool:
        """Whether the kernel is executing a cell, or answers anything else."""
        state = getattr(self._kernels.get_kernel(kernel_id), "execution_state", "") if kernel_id in self else ""
        return state == "busy" or self._executions.are_running(kernel_id)

    def last_cell(self, kernel_id: str) -> float:
        """When the kernel last ended a cell, on the clock of `time.monotonic`; 0 if that is not known."""
        return self._executions.last_end(kernel_id)

    def name(self, kernel_id: str) -> str:
        """The name of the kernelspec."""
        return str(self._kernels.get_kernel(kernel_id).kernel_name) if kernel_id in self else "kernel"

    def processes(self, notebooks: Mapping[str, tuple[str, ...]]) -> Mapping[int, KernelProcess]:
        """The kernels on this machine, by pid, which is also the session id; `notebooks` are those of each kernel."""
        found: dict[int, KernelProcess] = {}
        names = Counter(PurePath(paths[0]).name for paths in notebooks.values())
        for kernel_id in self._kernels.list_kernel_ids():
            pid = getattr(getattr(self._kernels.get_kernel(kernel_id), "provisioner", None), "pid", None)
            if pid is not None:
                path = PurePath(next(iter(notebooks.get(kernel_id, ())), self.name(kernel_id)))
                found[pid] = KernelProcess(kernel_id, str(path) if names[path.name] > 1 else path.name)
        return found

    async def notebooks(self) -> Mapping[str, tuple[str, ...]]:
        """Paths of the notebooks and consoles of each kernel, by kernel id."""
        found: dict[str, tuple[str, ...]] = {}
        for session in await ensure_async(self._sessions.list_sessions()):
            kernel = (session.get("kernel") or {}).get("id")
            if kernel is not None and session.get("path"):
                found[kernel] = (*found.get(kernel, ()), _path_of(session))
        return found

    async def interpreter(self, kernel_id: str) -> Interpreter:
        """The interpreter and environment of the process that has the connection file in its command line.

        Raises
        ------
        KernelNotFoundError, KernelUnsuitableError
            The kernel does not exist, or no process can be started like it.
        """
        if kernel_id not in self:
            raise KernelNotFoundError(kernel=kernel_id)
        kernel = self._kernels.get_kernel(kernel_id)
        specification = kernel.kernel_spec
        if specification is None or specification.language.lower() != "python":
            raise KernelUnsuitableError("not-python")
        pid = getattr(kernel.provisioner, "pid", None)
        if pid is None:
            raise KernelUnsuitableError("not-here")
        return await asyncio.to_thread(_interpreter_of, pid, kernel.connection_file)


def _path_of(session: Mapping[str, Any]) -> str:
    """The path of a notebook; the file name of a console, which has no file, is an id, and its tab has the name."""
    path: str = session["path"]
    is_console = session.get("type") == "console" and session.get("name")
    return str(PurePath(path).parent / session["name"]) if is_console else path


def _interpreter_of(pid: int, connection_file: str) -> Interpreter:
    """Inspect the innermost process with `connection_file` in its command line: its parents may be launchers."""
    try:
        kernel = psutil.Process(_innermost(pid, connection_file))
        environment, command = kernel.environ(), kernel.cmdline()
        if connection_file not in command:  # the kernel has died, and another process has its pid
            raise ProcessLookupError
        program = command[0]
    except (psutil.Error, OSError):
        raise KernelUnsuitableError("not-inspectable") from None
    python = shutil.which(program, path=environment.get("PATH"))
    if python is None:
        raise KernelUnsuitableError("no-interpreter", program=program)
    return Interpreter(python, environment)


def _innermost(pid: int, connection_file: str) -> int:
    """The descendant of `pid` that runs the kernel, without a scan of all processes. Source: proc(5), ``children``."""
    for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
        if connection_file in psutil.Process(int(child)).cmdline():
            return _innermost(int(child), connection_file)
    return pid
