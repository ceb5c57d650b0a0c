"""A SLURM of one node, this machine with two processors, with its own munged, on the loopback interface."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
from typing import TYPE_CHECKING

from helpers import wait_until

if TYPE_CHECKING:
    from pathlib import Path

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "squeue", "scancel")

CONFIGURATION = """
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmUser=root
AuthInfo=socket={folder}/munge/socket
SlurmctldPort={controller_port}
SlurmdPort={node_port}
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerParameters=batch_sched_delay=0
JobAcctGatherType=jobacct_gather/none
MpiDefault=none
KillWait=2
NodeName={host} NodeAddr=127.0.0.1 CPUs=2 RealMemory=1000
PartitionName=main Nodes={host} Default=YES MaxTime=INFINITE
"""


class Slurm:
    """The daemons, and what the queue has."""

    def __init__(self, folder: Path) -> None:
        self.configuration = folder / "slurm.conf"
        (munge := folder / "munge").mkdir(mode=0o700)
        (munge / "key").write_bytes(os.urandom(1024))
        (munge / "key").chmod(0o600)
        for name in ("state", "spool"):
            (folder / name).mkdir()
        self.host = socket.gethostname().partition(".")[0]
        ports = [free_port(), free_port()]
        self.configuration.write_text(
            CONFIGURATION.format(folder=folder, host=self.host, controller_port=ports[0], node_port=ports[1])
        )
        self.environment = {"SLURM_CONF": str(self.configuration)}
        self.processes = []
        self._start(
            *("munged", "--foreground", "--force", f"--key-file={munge}/key", f"--socket={munge}/socket"),
            *(f"--pid-file={munge}/pid", f"--log-file={munge}/log", f"--seed-file={munge}/seed"),
        )
        wait_until((munge / "socket").exists, 60)
        self.controller = self._start("slurmctld", "-D", "-f", str(self.configuration))
        self._start("slurmd", "-D", "-f", str(self.configuration))
        wait_until(lambda: self.run("sinfo", "--noheader", "--format=%T") == "idle", 60)

    def _start(self, *command: str) -> subprocess.Popen:
        process = subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env={**os.environ, **self.environment}
        )
        self.processes.append(process)
        return process

    def run(self, *command: str) -> str:
        """The output of a program of SLURM."""
        environment = {**os.environ, **self.environment}
        return subprocess.run(command, capture_output=True, text=True, env=environment, check=False).stdout.strip()

    def jobs(self) -> dict[str, str]:
        """The states of the jobs in the queue, by id."""
        return dict(line.split("|") for line in self.run("squeue", "--noheader", "--format=%i|%T").splitlines())

    def pause(self) -> None:
        """Let the controller accept connections and answer nothing, until it `resume`s."""
        self.controller.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        self.controller.send_signal(signal.SIGCONT)

    def stop(self) -> None:
        self.resume()
        for process in reversed(self.processes):
            process.terminate()
        for process in self.processes:
            process.wait(30)


def missing_programs() -> list[str]:
    return [name for name in PROGRAMS if shutil.which(name) is None]


def free_port() -> int:
    """A port on which nothing listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]
