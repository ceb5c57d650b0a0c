"""A manager of clusters without a Jupyter server."""

import asyncio
import os
import sys
import textwrap
from contextlib import asynccontextmanager

import psutil
from helpers import command_line

from jupyter_gpudask.protocol.messages import PROTOCOL_VERSION, Interpreter
from jupyter_gpudask.server.manager import ClusterManager
from jupyter_gpudask.server.settings import Policy, ServerSettings


def policy_of(**settings):
    return Policy(ServerSettings(**settings))


async def until(condition, limit=120.0):
    """Wait until `condition()` is true."""
    async with asyncio.timeout(limit):
        while not condition():
            await asyncio.sleep(0.02)


class NamedKernels:
    """Kernels with these ids, which all have the interpreter of this process."""

    def __init__(self, *names):
        self.names = set(names)
        self.busy = False
        self.ended = 0.0

    def __contains__(self, kernel_id):
        return kernel_id in self.names

    def is_busy(self, *kernel_ids):
        return self.busy

    def last_cell(self, *kernel_ids):
        return self.ended

    def name(self, kernel_id):
        return "python3"

    async def interpreter(self, kernel_id):
        return Interpreter(python=sys.executable, environment=dict(os.environ), path=sys.path)

    async def notebooks(self):
        return {name: (f"{name}.ipynb",) for name in self.names}

    def processes(self, notebooks):
        return {}


READY = '{"type": "ready", "engine": "cpu", "address": "tls://x", "credentials": null, "dashboard_port": null, '
READY += f'"workers": 1, "pid": 1, "protocol": {PROTOCOL_VERSION}}}'
UNTIL_CLOSED = "print(ready, flush=True)\nnext(line for line in sys.stdin if 'close' in line)"


class KernelsOf(NamedKernels):
    """The kernels `a` and `b`, whose interpreter is a program of the test in place of the supervisor."""

    def __init__(self, body, folder, interpreter=sys.executable):
        super().__init__("a", "b")
        self.program = folder / "python"
        self.program.write_text(
            f"#!{interpreter} -uS\nimport os, sys, time\nready = {READY!r}\n{textwrap.dedent(body)}\n"
        )
        self.program.chmod(0o700)

    async def interpreter(self, kernel_id):
        return Interpreter(python=str(self.program), environment=dict(os.environ))

    def supervisors(self):
        return [child.pid for child in psutil.Process().children() if str(self.program) in command_line(child)]


@asynccontextmanager
async def managed(kernels=None, **settings):
    """A manager, after which no supervisor is left."""
    manager = ClusterManager(kernels or NamedKernels("a", "b"), policy_of(**settings))
    try:
        yield manager
    finally:
        await manager.close_all()
        assert (kernels.supervisors() if kernels else supervisors()) == []


def supervisors():
    return [child.pid for child in psutil.Process().children() if "jupyter_gpudask.supervisor" in command_line(child)]
