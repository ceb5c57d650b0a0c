"""Clusters whose workers are started over SSH, from a profile of `distributed.SSHCluster`; the scheduler is here."""

from __future__ import annotations

import asyncio
import json
import math
import shlex
import sys
from pathlib import Path
from typing import IO, Any

from distributed import Scheduler, SpecCluster, SSHCluster
from distributed.core import Status
from distributed.deploy.ssh import Worker

from ..errors import ClusterStartError, GpuUnavailableError, SpecError
from ..installation import pip_install
from ..machine.directories import worker_log
from ..protocol.engines import ENGINES
from ..protocol.spec import ClusterSpec

_ENVIRONMENT = ("PYTHONUNBUFFERED=1",)  # what tasks print is in the log at once
# After this part of the start timeout the start fails because of the host that does not respond, which it names.
_PART_OF_START = 0.5


def is_ssh_cluster(class_: Any) -> bool:
    """Whether `class_` is `distributed.SSHCluster`, which is a function."""
    return class_ is SSHCluster


def make_cluster(options: dict[str, Any], spec: ClusterSpec, common: dict[str, Any], logs: Path) -> Any:
    """A cluster with workers on other hosts; see `create_cluster`.

    The options are those of `distributed.SSHCluster`. The first host is this machine, where the scheduler runs, as the
    others reach it.

    Raises `SpecError` if the option ``worker_class`` is not that of the engine, or ``hosts`` has no host for workers.
    """
    engine = ENGINES[spec.class_engine]
    worker_class = engine.worker_class
    if options.get("worker_class", worker_class) != worker_class:
        raise SpecError("worker-class", value=options["worker_class"], engine=spec.engine, allowed=worker_class)
    defined = SSHCluster(**options, asynchronous=True)  # it checks the options, and gives each worker its own
    here, *others = options["hosts"]
    if not others:
        raise SpecError("hosts", value=", ".join(options["hosts"]))
    per_host = (options.get("worker_options") or {}).get("n_workers", 1)
    names = others if len(set(others)) == len(others) else [f"{host}-{number}" for number, host in enumerate(others)]
    hosts = {}
    for name, remote in zip(names, defined.worker_spec.values(), strict=True):
        given = remote["options"] | {"gpu": engine.has_gpus, "security": common["security"], "logs": logs}
        given["limit"] = _PART_OF_START * spec.start_timeout
        hosts[name] = {"cls": RemoteWorkers, "options": given}
        if per_host > 1:
            hosts[name]["group"] = [f"-{number}" for number in range(per_host)]
    scheduler = {
        "host": here,
        "port": 0,
        "protocol": "tls://",
        "security": common["security"],
        "dashboard_address": common["dashboard_address"],
        **common["scheduler_kwargs"],
        **(options.get("scheduler_options") or {}),
    }
    return HostsCluster(hosts, per_host, spec.workers or len(hosts) * per_host, scheduler, security=common["security"])


class HostsCluster(SpecCluster):
    """A cluster on given hosts, with a fixed number of workers on each that is used.

    - `workers`: the number of workers at first.

    - `capacity`: the number of workers on all hosts.
    """

    def __init__(
        self, hosts: dict[str, Any], per_host: int, workers: int, scheduler: dict[str, Any], security: Any
    ) -> None:
        self._hosts, self._per_host = hosts, per_host
        self.capacity = len(hosts) * per_host
        check_capacity(workers, self.capacity)
        used = dict(list(hosts.items())[: math.ceil(workers / per_host)])
        super().__init__(used, {"cls": Scheduler, "options": scheduler}, asynchronous=True, security=security)

    def scale(self, n: int = 0, memory: Any = None, cores: Any = None) -> Any:
        """Scale to the hosts that `n` workers need."""
        return super().scale(math.ceil(n / self._per_host), memory=memory, cores=cores)

    def new_worker_spec(self) -> dict[str, Any]:
        """A host that is not used."""
        return dict([next(host for host in self._hosts.items() if host[0] not in self.worker_spec)])


def check_capacity(workers: int, capacity: int) -> None:
    """Raise `GpuUnavailableError` if the hosts of a cluster profile have fewer workers."""
    if workers > capacity:
        raise GpuUnavailableError("too-few-hosts", workers=workers, capacity=capacity)


class RemoteWorkers(Worker):
    """The workers of one host: ``python -m jupyter_gpudask worker``, started over SSH.

    The credentials go to its standard input, and so neither to a command line nor to a file. The workers end with this
    input, and so with the connection: SSH servers do not pass on signals to processes of root.
    """

    def __init__(self, *arguments: Any, gpu: bool, security: Any, logs: Path, limit: float, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._limit = limit
        self._gpu, self._security, self._logs = gpu, security, logs
        self._log: IO[bytes] | None = None
        self._watching: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Connect and start the process; the workers register with the scheduler by themselves."""
        try:
            import asyncssh
        except ImportError:
            raise ClusterStartError("no-asyncssh", install=pip_install("ssh")) from None
        try:
            async with asyncio.timeout(self._limit):
                self.connection = await asyncssh.connect(self.address, **self.connect_options)
        except TimeoutError:
            raise ClusterStartError("ssh-timeout", host=self.address, limit=self._limit) from None
        except (OSError, asyncssh.Error, TypeError, ValueError) as error:  # the last two for invalid options and keys
            if isinstance(error, OSError) and error.filename:
                raise ClusterStartError("ssh-file", file=error.filename, error=error.strerror) from None
            raise ClusterStartError(
                "ssh-failed", host=self.address, error=str(error).rstrip(".") or type(error).__name__
            ) from None
        self._log = worker_log(self._logs, self.name).open("ab", buffering=0)
        self.proc = await self.connection.create_process(
            self.command(), stdout=self._log, stderr=asyncssh.STDOUT, encoding=None
        )
        keys = self._security.get_tls_config_for_role("worker")
        credentials = {"ca": keys["ca_file"], "certificate": keys["cert"], "key": keys["key"]}
        self.proc.stdin.write(json.dumps(credentials).encode() + b"\n")
        self._watching = asyncio.create_task(self._watch(self.proc))
        await super(Worker, self).start()

    async def _watch(self, process: Any) -> None:
        await process.wait()
        if self.status == Status.running:  # it was not closed
            self.status = Status.failed

    def command(self) -> str:
        """The command line of the workers, for the shell of the host."""
        environment = [*_ENVIRONMENT]
        if self._gpu:
            environment.append("CUDA_VISIBLE_DEVICES=" + ",".join(map(str, range(self.n_workers))))
        words = ["env", *environment, self.remote_python or sys.executable, "-P", "-m", "jupyter_gpudask", "worker"]
        words += [self.scheduler, "--security", "-", "--name", str(self.name)]
        words += [] if self._gpu else ["--cpu", "--nworkers", str(self.n_workers)]
        for option, value in self.kwargs.items():
            words += [f"--{option.replace('_', '-')}", str(value)]
        return shlex.join(words)

    async def close(self) -> None:
        """End the process and the connection."""
        if self._watching is not None:
            self._watching.cancel()
        await super().close()
        if self._log is not None:
            self._log.close()
