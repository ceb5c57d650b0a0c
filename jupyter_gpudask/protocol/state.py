"""The state of a cluster: its GPUs, workers and jobs, what it lacks, and the TLS credentials of its clients."""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field

from ..errors import ConnectError
from .engines import Engine

_MAX_JOBS = 6


class _Model(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)


class LostHost(_Model):
    """A machine that does not respond any more.

    - `host`: the host, as the scheduler reached it.
    - `workers`: the names of the workers that it had.
    - `time`: when its last worker was given up, in seconds since the epoch.
    """

    host: str
    workers: tuple[str, ...]
    time: float

    @property
    def description(self) -> str:
        """The machine in words: ``machine 10.0.0.3 does not respond; its worker 10.0.0.3-0 is lost``."""
        many = len(self.workers) > 1
        lost = f"its {len(self.workers)} workers are lost" if many else f"its worker {self.workers[0]} is lost"
        return f"machine {self.host} does not respond; {lost}"


class JobState(_Model):
    """A job of a batch system, or a pod of Kubernetes, for workers which are not up.

    - `id`: its id in the batch system.
    - `worker`: the name of its worker in Dask, or what the names of its workers begin with.
    - `system`: the name of the batch system, such as ``SLURM``.
    - `status`: its state in the words of the batch system, such as ``PENDING``; empty if that is not known.
    - `reason`: why it waits, in these words, such as ``Resources``.
    - `position`: its place among the jobs of its partition that wait for resources or for jobs of higher priority, by
      priority from 1; `None` if it does not wait for these, or if that is not known.
    - `has_ended`: whether it has ended, so that its workers will not be up.
    - `unit`: what the system calls it: ``job`` or ``pod``.
    """

    id: str
    worker: str
    system: str
    status: str = ""
    reason: str = ""
    position: int | None = None
    has_ended: bool = False
    unit: str = "job"

    @property
    def description(self) -> str:
        """The job in words, such as ``job 12 is pending in SLURM: Resources, position 3``."""
        if self.has_ended:
            if not self.status:
                return f"{self.unit} {self.id} is not in the queue of {self.system} any more"
            return f"{self.unit} {self.id} {_ENDINGS.get(self.status, 'ended')} in {self.system} ({self.status})"
        facts = [] if self.reason in ("", "None") else [self.reason]
        facts += [] if self.position is None else [f"position {self.position}"]
        return f"{self.unit} {self.id} is {self.status.lower() or 'submitted'} in {self.system}" + (
            f": {', '.join(facts)}" if facts else ""
        )


_ENDINGS = {
    "BOOT_FAIL": "ended because its node did not start",
    "CANCELLED": "was cancelled",
    "DEADLINE": "reached its deadline",
    "FAILED": "failed",
    "NODE_FAIL": "ended because its node failed",
    "OUT_OF_MEMORY": "exceeded its memory",
    "PREEMPTED": "made room for another job",
    "TIMEOUT": "reached its time limit",
}


def _of_worker(job: JobState) -> str:
    return "" if job.worker == job.id else f" (worker {job.worker})"


def describe_jobs(jobs: Sequence[JobState]) -> tuple[str, ...]:
    """Sentences on jobs of a batch system, at most 6."""
    shown = jobs if len(jobs) <= _MAX_JOBS else jobs[: _MAX_JOBS - 1]
    sentences = [f"{job.unit.capitalize()}{job.description[len(job.unit) :]}{_of_worker(job)}." for job in shown]
    if len(jobs) > len(shown):
        sentences.append(f"And {len(jobs) - len(shown)} more {jobs[0].unit}s without a worker.")
    return tuple(sentences)


class GpuProcess(_Model):
    """A process that has a CUDA context on a GPU.

    - `pid`: its process id.
    - `memory`: device memory that it uses, in bytes.
    """

    pid: int
    memory: int | None = None


class GpuState(_Model):
    """One GPU, or one MIG instance.

    - `index`: its index in PCI bus order.
    - `uuid`: ``GPU-...`` or ``MIG-...``.
    - `name`: the product name.
    - `memory_total`, `memory_used`: device memory in bytes, total and used by all processes.
    - `utilization`: part of the last sample period in which a CUDA kernel ran, in percent.
    - `temperature`: in degrees Celsius.
    - `power`: in watts.
    - `nvlink_bytes`, `pcie_bytes`: bytes sent and received over NVLink, and over PCIe, since a time that the driver
      chooses.
    - `processes`: the processes with a CUDA context on it.
    """

    index: int
    uuid: str
    name: str
    memory_total: int | None = None
    memory_used: int | None = None
    utilization: float | None = None
    temperature: float | None = None
    power: float | None = None
    nvlink_bytes: int | None = None
    pcie_bytes: int | None = None
    processes: tuple[GpuProcess, ...] = ()


class WorkerState(_Model):
    """One worker of a cluster.

    - `name`: the worker's name in Dask.
    - `pid`: its process id.
    - `gpu_index`, `gpu_uuid`: its GPU; `None` on the CPU cluster.
    - `utilization`: the utilization of its GPU, in percent.
    - `device_memory_used`, `device_memory_total`: the memory of its GPU in bytes, used by all processes and total.
    - `pool_used`, `pool_size`: bytes that RMM has allocated on its GPU, and the size of its pool.
    - `spilled_to_host`, `spilled_to_disk`: bytes of results spilled from device memory to host memory, and from host
      memory to disk.
    - `memory`: host memory of the process, in bytes.
    - `cpu`: processor time that the process takes, in percent of one processor.
    - `threads`: the number of tasks it can run at a time.
    - `executing`, `waiting`: the numbers of tasks that it runs, and that are assigned to it and do not run yet.
    - `executed`: the number of tasks it has run since it was started.
    - `polars`: whether it runs a query of Polars.
    - `result_bytes`: bytes of the results on it that clients hold, also spilled; a copy counts on each worker.
    - `out_of_memory`: the number of its tasks that ran out of device memory, since the cluster was started.
    - `status`: its status in Dask: ``running``, ``paused``, ``closing_gracefully``, ...
    - `host`: the host of the worker, as the scheduler reaches it.
    - `others`: the number of tasks of other clients that it runs, or that are assigned to it, if the kernel is
      connected to a cluster of somebody else; `executing` and `waiting` count those of the kernel only.
    """

    name: str
    pid: int | None = None
    gpu_index: int | None = None
    gpu_uuid: str | None = None
    utilization: float | None = None
    device_memory_used: int | None = None
    device_memory_total: int | None = None
    pool_used: int | None = None
    pool_size: int | None = None
    spilled_to_host: int | None = None
    spilled_to_disk: int | None = None
    memory: int | None = None
    cpu: float | None = None
    threads: int = 1
    executing: int = 0
    waiting: int = 0
    executed: int | None = None
    polars: bool = False
    result_bytes: int = 0
    out_of_memory: int = 0
    status: str = "running"
    host: str = ""
    others: int | None = None

    def with_gpu(self, gpu: GpuState | None) -> Self:
        """The state with the metrics of its GPU; unchanged without one."""
        if gpu is None:
            return self
        used, total = gpu.memory_used, gpu.memory_total
        metrics = {"utilization": gpu.utilization, "device_memory_used": used, "device_memory_total": total}
        return self.model_copy(update={"gpu_index": gpu.index, "gpu_uuid": gpu.uuid, **metrics})


class WorkerExit(_Model):
    """A worker process that was killed or exited with a status other than 0; its nanny starts another.

    - `worker`: the worker's name in Dask.
    - `pid`: its process id.
    - `time`: when it ended, in seconds since the epoch.
    - `reason`: how it ended, such as ``was killed by signal 9`` or ``used 8 GiB of host memory, and its limit is 8
      GiB``.
    - `over_memory_limit`: whether its nanny terminated it because it exceeded its limit of host memory.
    """

    worker: str
    pid: int
    time: float
    reason: str
    over_memory_limit: bool = False


class WorkState(_Model):
    """The work in progress: what was submitted since the cluster was last idle, or since the kernel's last cell began.

    - `tasks`: the number of tasks.
    - `blocks`: the number of blocks that they compute; a task counts as one block, unless several were fused into it.
    - `done`: how many of these blocks are computed.
    - `seconds_left`: an estimate of how long the rest takes; `None` while too little is done.
    """

    tasks: int = 0
    blocks: int = 0
    done: int = 0
    seconds_left: float | None = None

    @property
    def description(self) -> str:
        """What is done, such as ``23 of 144 blocks``."""
        unit = "block" if self.blocks > self.tasks else "task"
        return f"{self.done:,} of {self.blocks:,} {unit}{'' if self.blocks == 1 else 's'}"


class CellRun(_Model):
    """A ``%%gpudask`` cell that runs or has run.

    - `id`: its id in the notebook, which leads to it; empty outside of one.
    - `number`: its number in the kernel: 5 of ``[5]``.
    - `began`: when it began, in seconds since the epoch.
    - `seconds`: how long it took; `None` while it runs.
    - `peak`: the highest peak of allocated device memory of any GPU, in bytes.
    - `fallbacks`: what ran on the CPU instead of the GPUs, in words, such as ``median (line 3), 10 blocks``.
    - `fallback_blocks`: how many blocks it computed on the host because CuPy or cuDF lack the operation.
    - `failed`: whether it raised an error.
    - `interrupted`: whether that is because the user has interrupted it.
    """

    id: str = Field("", max_length=100)
    number: int | None = None
    began: float
    seconds: float | None = Field(None, ge=0)
    peak: int | None = None
    fallbacks: tuple[Annotated[str, Field(max_length=300)], ...] = Field((), max_length=20)
    fallback_blocks: int = Field(0, ge=0, le=10**9)
    failed: bool = False
    interrupted: bool = False


class ClusterState(_Model):
    """The state of a cluster at one time.

    - `engine`: ``cuda`` or ``cpu``.
    - `status`: ``starting``, ``ready``, ``closing`` or ``closed``.
    - `time`: when the state was read, in seconds since the epoch.
    - `workers`: its workers, in the order of its GPUs, or by host.
    - `tasks_unfinished`: the number of all unfinished tasks: those that run, and those that wait for a worker or for
      other tasks.
    - `work`: what is done of the tasks that were submitted last.
    - `workers_wanted`: the requested number of workers; `workers` has fewer while one starts, and more while one is
      retired.
    - `gpus`: UUIDs of the GPUs that have a worker or will have one; after a `scale` fewer than the cluster has.
    - `result_bytes`: bytes of the results that clients hold on the workers, which are lost when the cluster is closed.
    - `worker_exits`: the newest unexpected exits of worker processes, at most 20, the oldest first.
    - `lost_hosts`: the machines that do not respond any more, at most 20, the newest last; the others do their work.
    - `jobs`: the jobs of a batch system, or the pods of Kubernetes, whose workers are not up, and the newest jobs that
      have ended, at most 20.
    - `others_unfinished`: the number of unfinished tasks of other clients, if the kernel is connected to a cluster of
      somebody else; the other counts of tasks and `result_bytes` are those of the kernel.
    - `adaptive_range`: the smallest and the largest number of workers, while workers are closed and started as the work
      requires.
    - `seconds_without_workers`: for how long the cluster has had no worker, if that is longer than its start timeout.
    - `closes_at`: when the Jupyter server will close the cluster because of its maximum lifetime, in seconds since the
      epoch; `None` earlier than 10 minutes before.
    """

    engine: Engine
    status: Literal["starting", "ready", "closing", "closed"]
    time: float
    workers: tuple[WorkerState, ...] = ()
    tasks_unfinished: int = 0
    work: WorkState = WorkState()
    workers_wanted: int = 0
    gpus: tuple[str, ...] = ()
    result_bytes: int = 0
    worker_exits: tuple[WorkerExit, ...] = ()
    lost_hosts: tuple[LostHost, ...] = ()
    jobs: tuple[JobState, ...] = ()
    others_unfinished: int | None = None
    adaptive_range: tuple[int, int] | None = None
    seconds_without_workers: float | None = None
    closes_at: float | None = None

    @property
    def notes(self) -> tuple[str, ...]:
        """Sentences on what the workers do not show: the lifetime, that there is none, lost hosts, and jobs."""
        empty = f"the cluster has {self.without_workers}" if self.without_workers else ""
        described = [*filter(None, [self.end, empty]), *(lost.description for lost in self.lost_hosts)]
        return (*(f"{each[0].upper()}{each[1:]}." for each in described), *describe_jobs(self.jobs))

    @property
    def end(self) -> str:
        """When the cluster will be closed, in words; empty if that is not soon."""
        if self.closes_at is None:
            return ""
        at = time.strftime("%H:%M", time.localtime(self.closes_at))
        return f"the cluster will be closed at {at}, the end of its maximum lifetime"

    @property
    def without_workers(self) -> str:
        """For how long the cluster has had no worker, in words; empty if it has one, or will soon."""
        seconds = self.seconds_without_workers
        if seconds is None:
            return ""
        period = f"{seconds:.0f} s" if seconds < 600 else f"{seconds / 60:.0f} min"
        return f"had no worker for {period}{'; its tasks wait for one' if self.tasks_unfinished else ''}"

    @property
    def logged(self) -> tuple[str, ...]:
        """What has a log: the names of the workers, and the ids of the jobs without a worker."""
        return (*(worker.name for worker in self.workers), *(job.id for job in self.jobs))


class TlsCredentials(_Model):
    """TLS credentials of a client, as PEM text; valid for one cluster only."""

    ca: str = Field(repr=False)
    certificate: str = Field(repr=False)
    key: str = Field(repr=False)


def names_of(workers: Sequence[WorkerState], *, with_hosts: bool = True) -> list[str]:
    """A name for each worker, such as ``GPU 0``, or ``Worker 3`` without a GPU.

    Several workers on one GPU are numbered: ``GPU 0, worker 2``. The panel uses the same names.

    `workers`: all workers of a cluster. `with_hosts`: whether names have the host of the worker, if there are several
    hosts: ``node-a GPU 0``.
    """
    are_several = with_hosts and len({worker.host for worker in workers}) > 1
    places = [
        (worker.host, f"Worker {worker.name}" if worker.gpu_index is None else f"GPU {worker.gpu_index}")
        for worker in workers
    ]
    counts, numbers = Counter(places), Counter[tuple[str, str]]()
    names = []
    for host, name in places:
        numbers[host, name] += 1
        number = f", worker {numbers[host, name]}" if counts[host, name] > 1 else ""
        names.append(f"{host} {name}{number}" if are_several else f"{name}{number}")
    return names


_CREDENTIALS = ("ca", "certificate", "key")


def read_credentials(name: str) -> TlsCredentials:
    """Read a YAML or JSON file with the texts ``ca``, ``certificate`` and ``key``.

    Each is a PEM text, or the path of a PEM file, relative to the folder of the file. With the name ``-`` they are the
    first line of the standard input.

    Raises `ConnectError` if the file, or one that it names, cannot be read, or lacks a text; the message has nothing of
    its content.
    """
    import yaml  # type: ignore[import-untyped]

    file = Path(name).expanduser()
    try:
        content: Any = yaml.safe_load(sys.stdin.readline() if name == "-" else file.read_text())
    except OSError as error:
        raise _unreadable(name, error) from None
    except (ValueError, yaml.YAMLError):
        content = None  # what the parser says could show a key
    if not isinstance(content, dict) or not all(isinstance(content.get(key), str) for key in _CREDENTIALS):
        raise ConnectError("security-incomplete", file=name, names=", ".join(_CREDENTIALS))
    return TlsCredentials(**{key: _pem_text(content[key], file.parent) for key in _CREDENTIALS})


def _pem_text(value: str, folder: Path) -> str:
    if "\n" in value:
        return value
    try:
        return (folder / Path(value).expanduser()).read_text()
    except (OSError, ValueError) as error:
        raise _unreadable(value, error) from None


def _unreadable(name: str, error: Exception) -> ConnectError:
    reason = getattr(error, "strerror", None) or "it is no text"
    return ConnectError("security-unreadable", file=name, error=reason)
