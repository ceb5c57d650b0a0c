"""A JupyterHub on this machine with two users of the operating system, whom only its processes see."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import subprocess
import sys
import urllib.error
import urllib.request
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
from helpers import fake_gpu_environment, wait_until
from servers import Server
from slurm import free_port

PROGRAMS = Path(sys.executable).parent
USERS = {"anna": 54321, "bert": 54322}

CONFIGURATION = """
c.JupyterHub.bind_url = "http://127.0.0.1:{ports[public]}/"
c.JupyterHub.hub_bind_url = "http://127.0.0.1:{ports[hub]}"
c.ConfigurableHTTPProxy.api_url = "http://127.0.0.1:{ports[proxy]}"
c.ConfigurableHTTPProxy.command = ["{programs}/configurable-http-proxy"]
c.JupyterHub.authenticator_class = "dummy"
c.Authenticator.allow_all = True
c.JupyterHub.spawner_class = "jupyterhub.spawner.LocalProcessSpawner"
c.Spawner.cmd = ["{programs}/jupyterhub-singleuser"]
c.Spawner.args = [
    "--ServerApp.jpserver_extensions={{'jupyter_gpudask': True}}",
    "--GpuDask.lease_directory={folder}/leases",
]
c.Spawner.environment = {{"PYTHONPATH": "{path}", "FAKE_GPUS": "2", "JUPYTERHUB_SINGLEUSER_APP": "jupyter_server.serverapp.ServerApp"}}
c.Spawner.http_timeout = c.Spawner.start_timeout = 180
c.JupyterHub.services = [{{"name": "tests", "api_token": "{token}"}}]
c.JupyterHub.load_roles = [{{
    "name": "tests", "services": ["tests"], "scopes": ["admin:users", "admin:servers", "tokens", "inherit"],
}}]
"""  # noqa: E501

# The users, and an interpreter that they can run if it is in a home directory: both in these mounts only.
MOUNTS = """
set -e
for file in passwd group; do mount --bind "$1/$file" "/etc/$file"; done
if [ -n "$2" ]; then
    mkdir "$1/mount"
    mount -t tmpfs -o mode=755 tmpfs "$1/mount"
    mkdir -p "$1/mount/${3#"$2"/}"
    mount --bind "$3" "$1/mount/${3#"$2"/}"
    mount --rbind "$1/mount" "$2"
fi
shift 3
exec "$@"
"""


class Hub:
    """The hub, which runs as root.

    Parameters
    ----------
    folder
        An empty folder that all users can read.
    """

    def __init__(self, folder: Path) -> None:
        self.folder, self._token = folder, secrets.token_hex(16)
        ports = {name: free_port() for name in ("public", "hub", "proxy")}
        self.url = f"http://127.0.0.1:{ports['public']}"
        (folder / "leases").mkdir()
        (folder / "leases").chmod(0o1777)
        self._write_users()
        path = fake_gpu_environment(cupy=True)["PYTHONPATH"]
        values = {"ports": ports, "programs": PROGRAMS, "folder": folder, "path": path, "token": self._token}
        (folder / "private").mkdir(mode=0o700)
        (folder / "private" / "config.py").write_text(CONFIGURATION.format(**values))
        self.log_path = folder / "private" / "log"
        hidden, base = _hidden_folder(Path(sys.base_prefix)), sys.base_prefix
        with self.log_path.open("wb") as log:
            self.process = subprocess.Popen(
                ["unshare", "--mount", "sh", "-c", MOUNTS, "sh", folder, hidden, base,
                 sys.executable, "-m", "jupyterhub", "--config", folder / "private" / "config.py"],
                stdout=log,
                stderr=log,
                cwd=folder / "private",
                start_new_session=True,
                env={name: value for name, value in os.environ.items() if not name.startswith("JUPYTER")}
                | {"PATH": f"{PROGRAMS}{os.pathsep}{os.environ['PATH']}"},
            )  # fmt: skip
        try:
            wait_until(lambda: self.process.poll() is not None or self._responds(), 120)
            assert self.process.poll() is None, self.log_path.read_text()
        except BaseException:
            self.stop()
            raise

    def _write_users(self) -> None:
        for name in ("passwd", "group"):
            shutil.copyfile(f"/etc/{name}", self.folder / name)
        for name, number in USERS.items():
            home = self.folder / "homes" / name
            home.mkdir(parents=True, mode=0o700)
            os.chown(home, number, number)
            with (self.folder / "passwd").open("a") as file:
                file.write(f"{name}:x:{number}:{number}::{home}:/bin/sh\n")
            with (self.folder / "group").open("a") as file:
                file.write(f"{name}:x:{number}:\n")

    def _responds(self) -> bool:
        try:
            return "version" in self.ask("")
        except (OSError, AssertionError):
            return False

    def ask(self, path: str, method: str = "GET", body: Any = None) -> Any:
        """Send a request to the hub's REST interface; the response, or `None` if it is empty."""
        headers = {"Authorization": f"token {self._token}"}
        content = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"{self.url}/hub/api/{path}", data=content, headers=headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                text = answer.read()
        except urllib.error.HTTPError as error:
            with error:
                raise AssertionError(f"{error}: {error.read()!r}\n{self.log_path.read_text()[-5000:]}") from None
        return json.loads(text) if text else None

    def is_running(self, user: str) -> bool:
        """Whether the server of a user is up."""
        return bool(self.ask(f"users/{user}")["servers"].get("", {}).get("ready"))

    def server_of(self, user: str) -> UserServer:
        """Start the server of a user, and wait until it is up."""
        self.ask(f"users/{user}", "POST")
        self.ask(f"users/{user}/server", "POST")
        wait_until(lambda: self.is_running(user), 180)
        token = self.ask(f"users/{user}/tokens", "POST", {"expires_in": 3600})["token"]
        return UserServer(f"{self.url}/user/{user}/", token, self.folder / "homes" / user)

    def stop_server_of(self, user: str) -> None:
        """Stop the server of a user, and wait until it is gone."""
        self.ask(f"users/{user}/server", "DELETE")
        wait_until(lambda: not self.ask(f"users/{user}")["servers"], 60)

    def stop(self) -> None:
        """Stop the hub, which stops the proxy and the servers."""
        started = psutil.Process(self.process.pid).children(recursive=True) if self.process.poll() is None else []
        self.process.terminate()
        try:
            self.process.wait(60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        for process in started:  # a hub that is stopped while it starts leaves its proxy
            with suppress(psutil.NoSuchProcess):
                process.kill()


class UserServer(Server):
    """The server of a user, behind the hub's proxy."""

    def __init__(self, url: str, token: str, home: Path) -> None:
        self.url, self.token, self.home = url, token, home
        self.runtime = home / ".local" / "share" / "jupyter" / "runtime"
        self.kernels = []


def _hidden_folder(place: Path) -> Path | str:
    """The topmost folder on the way to `place` that other users cannot enter; empty if there is none."""
    for folder in (*reversed(place.parents), place):
        if not folder.stat().st_mode & 0o001:
            return folder
    return ""
