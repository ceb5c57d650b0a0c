"""The kernels of a Jupyter server: interpreter, environment, notebooks, processes, and which of them execute cells.

Status messages of IOPub channels show that: the ``execution_state`` of a kernel's manager is the state of the last
answer, whatever the request was. During a cell it becomes ``idle`` when the kernel answers a message of a widget, which
JupyterLab sends to a subshell, or a request on the control channel, such as those of jupyter-resource-usage.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import shutil
import sys
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path, PurePath
from string import Template
from typing import Any

import psutil
from jupyter_client.session import Session
from jupyter_server.utils import ensure_async
from zmq import ZMQError

from ..errors import KernelNotFoundError, KernelUnsuitableError
from ..protocol.messages import Interpreter

logger = logging.getLogger(__name__)


@dataclass
class _Watched:
    port: int
    stream: Any
    session: Session
    running: set[str] = field(default_factory=set)
    last_end: float = 0.0


def _read(watched: _Watched, frames: list[bytes]) -> None:
    """Read one message. Source: "Messaging in Jupyter", wire protocol and kernel status."""
    try:
        _, parts = watched.session.feed_identities(frames)
        header: Any = parts[1]
        if json.loads(header).get("msg_type") != "status":  # outputs are not worth a check of their signatures
            return
        message = watched.session.deserialize(parts)
    except (ValueError, TypeError, IndexError):  # not signed by this kernel
        return
    parent = message["parent_header"]
    if parent.get("msg_type") != "execute_request":
        return
    if message["content"].get("execution_state") == "busy":
        watched.running.add(parent["msg_id"])
    else:
        watched.running.discard(parent["msg_id"])
        watched.last_end = time.monotonic()


@dataclass(frozen=True)
class KernelProcess:
    """The process of a kernel on this machine.

    - `notebook`: the file name of its first notebook, or the path if another kernel's has the same name; the name of
      its kernelspec if it has no notebook.
    """

    kernel_id: str
    notebook: str


class ServerKernels:
    """The kernels of a `jupyter_server.serverapp.ServerApp`."""

    def __init__(self, kernel_manager: Any, session_manager: Any) -> None:
        self._kernels = kernel_manager
        self._sessions = session_manager
        self._watched: dict[str, _Watched] = {}

    def __contains__(self, kernel_id: str) -> bool:
        return kernel_id in self._kernels

    def watch(self, kernel_id: str) -> None:
        """Listen to a kernel that has started, or has started again, to know which cells it executes."""
        if kernel_id not in self:
            return
        kernel = self._kernels.get_kernel(kernel_id)
        watched = self._watched.get(kernel_id)
        if watched is not None and getattr(kernel, "execution_state", "") == "busy":
            # The state of the process that has ended: Jupyter Server keeps it until the next cell, unless it gets the
            # first message of the new process, which may be sent before ZeroMQ has connected to it again.
            kernel.execution_state = "starting"
        if watched is not None and watched.port == kernel.iopub_port:  # ZeroMQ has connected to it again
            watched.running.clear()
            return
        self.forget(kernel_id)
        if not kernel.iopub_port:  # a kernel of a gateway
            return
        try:
            stream = kernel.connect_iopub()
        except (ZMQError, OSError) as error:
            logger.debug("The kernel %s cannot be listened to: %s", kernel_id, error)
            return
        session = Session(config=kernel.session.config, key=kernel.session.key)
        watched = self._watched[kernel_id] = _Watched(kernel.iopub_port, stream, session)
        stream.on_recv(partial(_read, watched))

    def forget(self, kernel_id: str) -> None:
        """Stop listening to a kernel, which has ended."""
        watched = self._watched.pop(kernel_id, None)
        if watched is not None:
            watched.stream.close()

    def is_busy(self, *kernel_ids: str) -> bool:
        """Whether one of the kernels is executing a cell, or answers anything else."""
        return any(map(self._is_busy, kernel_ids))

    def _is_busy(self, kernel_id: str) -> bool:
        state = getattr(self._kernels.get_kernel(kernel_id), "execution_state", "") if kernel_id in self else ""
        watched = self._watched.get(kernel_id)
        return state == "busy" or (watched is not None and bool(watched.running))

    def last_cell(self, *kernel_ids: str) -> float:
        """When one of the kernels last ended a cell, on the clock of `time.monotonic`; 0 if that is not known."""
        watched = (self._watched.get(kernel_id) for kernel_id in kernel_ids)
        return max((each.last_end for each in watched if each is not None), default=0.0)

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
        """The interpreter and environment of the process that has the connection file in its command line."""
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

    async def default_interpreter(self) -> Interpreter:
        """That of the server's default kernelspec, with its environment; the server's own if it runs another program.

        Workers import from the folder of notebooks, too.
        """
        manager = self._kernels
        spec = await ensure_async(manager.kernel_spec_manager.get_kernel_spec(manager.default_kernel_name))
        program, *arguments = spec.argv
        # As jupyter_client runs "python", and without launchers that activate another environment.
        path = Path(program)
        is_python = (
            path.is_absolute() and path.name.startswith("python") and any("ipykernel" in each for each in arguments)
        )
        changes = {name: Template(value).safe_substitute(os.environ) for name, value in spec.env.items()}
        return Interpreter(
            python=program if is_python else sys.executable,
            environment=os.environ | changes,
            path=(str(manager.root_dir),),
        )


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
    return Interpreter(python=python, environment=environment)


def _innermost(pid: int, connection_file: str) -> int:
    """The descendant of `pid` that runs the kernel, without a scan of all processes. Source: proc(5), ``children``."""
    for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
        if connection_file in psutil.Process(int(child)).cmdline():
            return _innermost(int(child), connection_file)
    return pid
