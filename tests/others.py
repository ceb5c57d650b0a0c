"""Clusters that no kernel has started: ``dask scheduler``, ``dask worker`` and the command of this package."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import contextmanager, suppress
from pathlib import Path

from helpers import wait_for_supervisors, wait_until

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


def snapshot(client):
    """What a scheduler and its workers have of plugins, operations and metrics."""

    def of_scheduler(dask_scheduler):
        return (
            sorted(name for name in dask_scheduler.plugins if "gpudask" in name),
            sorted(dask_scheduler.worker_plugins),
            sorted(dask_scheduler.nanny_plugins),
            sorted(dask_scheduler.stream_handlers),
            sorted(dask_scheduler.handlers),
            sorted(map(str, dask_scheduler.tasks)),
        )

    def of_worker(dask_worker):
        import sys

        import distributed.worker

        function = distributed.worker._run_task_simple
        plugins = sorted(name for name in dask_worker.plugins if not name.startswith("functools"))
        path = [folder for folder in sys.path if "dask-scratch-space" not in folder]
        return plugins, sorted(dask_worker.handlers), sorted(dask_worker.metrics), function.__module__, path

    return client.run_on_scheduler(of_scheduler), client.run(of_worker)


class Terminal:
    """``python -m jupyter_gpudask cluster`` in a terminal; `line` is what it prints when the cluster is up."""

    def __init__(self, *options, environment):
        self._keyboard, keyboard = os.openpty()
        self.name = os.ttyname(keyboard).removeprefix("/dev/")
        command = [sys.executable, "-m", "jupyter_gpudask", "cluster", *options]
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(
            command, env=environment, stdin=keyboard, stdout=pipe, stderr=pipe, text=True, start_new_session=True
        )
        os.close(keyboard)
        self.line = self.process.stdout.readline()

    def end(self, number):
        """The exit status after a signal, and what was written to stderr."""
        if number:
            os.killpg(self.process.pid, number)
        _, errors = self.process.communicate(timeout=60)
        os.close(self._keyboard)
        return self.process.returncode, errors


@contextmanager
def terminal(*options, environment=None):
    wait_for_supervisors()
    running = Terminal(*options, environment=environment)
    try:
        yield running
    finally:
        if running.process.poll() is None:
            running.end(signal.SIGTERM)
