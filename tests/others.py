"""Clusters that this package has not started: ``dask scheduler`` and ``dask worker``, run as a user runs them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

from helpers import wait_until

DASK = str(Path(sys.executable).parent / "dask")


class OthersCluster:
    """A scheduler without the GPU libraries, and its workers.

    Parameters
    ----------
    folder
        For the scheduler file and the logs.
    options
        Options of ``dask scheduler``.
    """

    def __init__(self, folder: Path, *options: str, environment: dict[str, str] | None = None) -> None:
        self.folder = folder
        self.file = folder / "scheduler.json"
        self.processes: list[subprocess.Popen] = []
        self.scheduler = self.run(
            DASK, "scheduler", "--host", "127.0.0.1", "--port", "0", "--dashboard-address", "127.0.0.1:0", "--no-show",
            "--scheduler-file", str(self.file), *options, environment=environment,
        )  # fmt: skip
        wait_until(lambda: self.scheduler.poll() is not None or self._address(), 60)
        self.address = self._address()

    def _address(self) -> str:
        with suppress(OSError, ValueError):
            return json.loads(self.file.read_text())["address"]
        return ""

    def run(self, *command: str, environment: dict[str, str] | None = None) -> subprocess.Popen:
        """Start a process of the cluster, which `close` ends."""
        log = (self.folder / f"{len(self.processes)}.log").open("w")
        process = subprocess.Popen(
            command, env=environment, stdout=log, stderr=log, cwd=self.folder, start_new_session=True
        )
        log.close()
        self.processes.append(process)
        return process

    def add_worker(self, name: str, *options: str, environment: dict[str, str] | None = None) -> subprocess.Popen:
        """Start ``dask worker`` with one thread."""
        command = (DASK, "worker", self.address, "--name", name, "--nthreads", "1", "--no-dashboard", *options)
        return self.run(*command, environment=environment)

    def logs(self) -> str:
        """The end of the log of each process, for the message of an assertion."""
        return "\n".join(f"{log.name}:\n{log.read_text()[-3000:]}" for log in sorted(self.folder.glob("*.log")))

    def close(self) -> None:
        """End all processes."""
        for process in self.processes:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
