"""A server of dask-gateway whose clusters are processes of this user, in a folder of its own."""

from __future__ import annotations

import json
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING

from helpers import wait_until
from slurm import free_port

if TYPE_CHECKING:
    from collections.abc import Mapping

PROGRAMS = Path(sys.executable).parent

CONFIGURATION = """
c.DaskGateway.address = "127.0.0.1:{private}"
c.DaskGateway.backend_class = "dask_gateway_server.backends.local.UnsafeLocalBackend"
c.Proxy.address = "127.0.0.1:{public}"
c.Proxy.tcp_address = "127.0.0.1:{schedulers}"
c.SimpleAuthenticator.password = {password!r}
c.UnsafeLocalBackend.clusters_directory = "{folder}/clusters"
c.ClusterConfig.scheduler_cmd = ["{programs}/dask", "scheduler"]
c.ClusterConfig.worker_cmd = ["{programs}/python", "-m", "jupyter_gpudask", "worker"{kind}]

from dask_gateway_server.options import Integer, Options, String

def configuration(options):
    chosen = {{"cluster_max_workers": options.limit}}
    return chosen | ({{"scheduler_cmd": [options.scheduler]}} if options.scheduler else {{}})

c.Backend.cluster_options = Options(Integer("limit", 8), String("scheduler", ""), handler=configuration)
"""


class GatewayServer:
    """The server, and the options of its clusters.

    Parameters
    ----------
    folder
        An empty folder.
    environment
        The environment of the server and of its clusters.
    gpu
        Whether its workers have GPUs.
    """

    password = "a-password-of-the-tests"  # noqa: S105

    def __init__(self, folder: Path, environment: Mapping[str, str], *, gpu: bool = False) -> None:
        ports = {name: free_port() for name in ("private", "public", "schedulers")}
        (folder / "clusters").mkdir()
        (folder / "config.py").write_text(
            CONFIGURATION.format(
                kind="" if gpu else ', "--cpu"', folder=folder, programs=PROGRAMS, password=self.password, **ports
            )
        )
        self._private = ports["private"]
        self.log_path = folder / "log"
        self.options = {
            "address": f"http://127.0.0.1:{ports['public']}",
            "proxy_address": f"127.0.0.1:{ports['schedulers']}",
            "auth": "basic",
        }
        with self.log_path.open("wb") as log:
            self.process = subprocess.Popen(
                [PROGRAMS / "dask-gateway-server", "-f", folder / "config.py"],
                stdout=log,
                stderr=log,
                env=environment,
                cwd=folder,
            )
        try:
            wait_until(lambda: self.process.poll() is not None or self._responds(), 60)
            assert self.process.poll() is None, self.log_path.read_text()
        except BaseException:
            self.stop()
            raise

    def _responds(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.options['address']}/api/health", timeout=30) as answer:
                return json.loads(answer.read())["status"] == "pass"
        except (OSError, ValueError):
            return False

    def stop(self) -> None:
        """Stop the server, which stops its clusters."""
        self.process.terminate()
        self.process.wait(60)
