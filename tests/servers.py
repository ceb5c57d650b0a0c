"""Real Jupyter servers in separate processes, used as a browser uses them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import urllib.error
import urllib.request
import uuid
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import psutil
import websocket
from helpers import ONE_WORKER, Kernel, command_line, wait_until
from jupyter_client import BlockingKernelClient

from jupyter_gpudask.machine.unix_socket import connect_socket, socket_path
from jupyter_gpudask.protocol.messages import Connect, Ready

# The other extensions of this environment, which are not tested here, and start more slowly than the server.
EXTENSIONS = {"jupyter_gpudask": True} | dict.fromkeys(
    ["jupyter_lsp", "jupyter_server_terminals", "jupyterlab", "notebook", "notebook_shim"], False
)


@dataclass
class Answer:
    """The response to a request."""

    status: int
    headers: Any
    text: bytes

    @property
    def body(self):
        return json.loads(self.text)


class NotebookKernel(Kernel):
    """A kernel of a server, used through its ZeroMQ channels."""

    def __init__(self, server, kernel_id):
        self.id = kernel_id
        self.server = server

    @cached_property
    def client(self):
        """The client, which connects on first use."""
        for _ in range(10):
            client = BlockingKernelClient(connection_file=str(self.server.runtime / f"kernel-{self.id}.json"))
            client.load_connection_file()
            client.start_channels()
            try:
                client.wait_for_ready(timeout=60)
            except RuntimeError:  # slow heartbeat on a busy machine, or the kernel is being restarted
                client.stop_channels()
                time.sleep(1)
            else:
                return client
        raise AssertionError("the kernel does not respond")

    @property
    def pid(self):
        """The pid of the kernel; `None` while it has no process."""
        children = psutil.Process(self.server.pid).children(recursive=True)
        mine = [process.pid for process in children if f"kernel-{self.id}.json" in " ".join(command_line(process))]
        return mine[0] if mine else None

    def disconnect(self):
        if "client" in self.__dict__:
            self.client.stop_channels()
            del self.client


class Server:
    """A Jupyter server with the extension."""

    token = "a-token-of-the-tests"  # noqa: S105
    base = "/a%40b/"

    def __init__(self, folder: Path, *options: str, environment: dict[str, str] | None = None):
        self.root = folder / "notebooks"
        self.root.mkdir(parents=True, exist_ok=True)
        self.runtime = Path((environment or os.environ)["JUPYTER_RUNTIME_DIR"])
        self.log_path = folder / "server.log"
        self.kernels = []
        with self.log_path.open("ab") as log:
            self.process = subprocess.Popen(
                [
                    *(sys.executable, "-m", "jupyter_server", "--no-browser", "--allow-root", "--port=0"),
                    f"--ServerApp.base_url={self.base}",
                    f"--IdentityProvider.token={self.token}",
                    f"--ServerApp.root_dir={self.root}",
                    f"--ServerApp.jpserver_extensions={EXTENSIONS}",
                    "--ServerApp.allow_unauthenticated_access=False",
                    *options,
                ],
                stdout=log,
                stderr=log,
                env={**(environment or os.environ), "JUPYTER_CONFIG_DIR": str(folder / "config")},
                start_new_session=True,
            )
        self.pid = self.process.pid
        info = self.runtime / f"jpserver-{self.pid}.json"
        wait_until(lambda: (info.exists() and info.read_text()) or self.process.poll() is not None, 60)
        assert self.process.poll() is None, self.log
        self.url = json.loads(info.read_text())["url"].replace("localhost", "127.0.0.1")
        wait_until(self.listens)

    def listens(self):
        try:
            return self.fetch("status", prefix="api/").status == 200
        except OSError:
            return False

    @property
    def log(self):
        return self.log_path.read_text()

    def fetch(self, path, method="GET", body=None, *, headers=None, data=None, prefix="gpudask/api/"):
        """Send a request, with the token unless `headers` are given."""
        content = json.dumps(body).encode() if body is not None else data
        headers = {"Authorization": f"token {self.token}"} if headers is None else headers
        request = urllib.request.Request(f"{self.url}{prefix}{path}", data=content, headers=headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                return Answer(answer.status, answer.headers, answer.read())
        except urllib.error.HTTPError as error:
            with error:
                return Answer(error.code, error.headers, error.read())

    def socket(self, path, *, prefix="gpudask/api/", token=True, **options):
        """Open a WebSocket."""
        url = f"ws{self.url[4:]}{prefix}{path}"
        header = [f"Authorization: token {self.token}"] if token else []
        return websocket.create_connection(url, header=header, timeout=30, **options)

    def kernel(self, notebook=None):
        """Start a kernel, with a session for `notebook` if given."""
        if notebook is None:
            answer = self.fetch("kernels", "POST", {"name": "python3"}, prefix="api/")
            kernel_id = answer.body["id"]
        else:
            order = {"path": notebook, "name": notebook, "type": "notebook", "kernel": {"name": "python3"}}
            answer = self.fetch("sessions", "POST", order, prefix="api/")
            kernel_id = answer.body["kernel"]["id"]
        assert answer.status == 201, answer.text
        kernel = NotebookKernel(self, kernel_id)
        self.kernels.append(kernel)
        return kernel

    def start(self, kernel, **options):
        """Request a cluster and wait until it is ready or has failed."""
        answer = self.fetch("clusters", "POST", {"kernel_id": kernel.id, "spec": ONE_WORKER | options})
        assert answer.status == 202, answer.text
        return self.settled(kernel)

    def cluster(self, kernel):
        answer = self.fetch(f"clusters/{kernel.id}")
        return answer.body if answer.status == 200 else None

    def settled(self, kernel, limit=60):
        """The cluster once it is neither starting nor closing."""
        wait_until(lambda: (self.cluster(kernel) or {}).get("status") not in ("starting", "closing"), limit)
        return self.cluster(kernel)

    def supervisors(self):
        """The pids of the supervisors of this server."""
        children = psutil.Process(self.pid).children()
        return [child.pid for child in children if "jupyter_gpudask.supervisor" in command_line(child)]

    def stop(self):
        for kernel in self.kernels:
            kernel.disconnect()
        if self.process.poll() is None:
            self.process.terminate()
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


@contextmanager
def kernel_of(server: Server):
    """A kernel with the magics, whose supervisor has ended afterwards."""
    kernel = server.kernel()
    kernel.ok("%load_ext jupyter_gpudask")
    yield kernel
    kernel.disconnect()
    server.fetch(f"kernels/{kernel.id}", "DELETE", prefix="api/")
    wait_until(lambda: not server.supervisors(), 60)


@contextmanager
def joined_to(server, dashboard):
    """The id of a kernel that reports a connection to a cluster with a dashboard at this address."""
    kernel_id = str(uuid.uuid4())
    fields = {"engine": "cpu", "address": "tcp://127.0.0.1:1", "credentials": None, "dashboard_port": None}
    joined = Ready(**fields, workers=1, pid=0, dashboard=dashboard)
    request = Connect(kernel_id=kernel_id, joined=joined)
    connection = connect_socket(socket_path(server.runtime, server.pid))
    connection.setblocking(True)
    connection.sendall(request.model_dump_json().encode() + b"\n")
    kernel = NotebookKernel(server, kernel_id)
    listed = "clusters"
    wait_until(lambda: kernel_id in str(server.fetch(listed).body))
    try:
        yield kernel
    finally:
        connection.close()
        wait_until(lambda: kernel_id not in str(server.fetch(listed).body))
