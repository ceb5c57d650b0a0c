"""What GPUs, workers and clusters do at one moment. Bytes are integers; a metric that cannot be had is `None`."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict


class _Model(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)


class GpuProcess(_Model):
    """A process that has a CUDA context on a GPU.

    Attributes
    ----------
    pid
        Its process id.
    memory
        Device memory that it holds, in bytes.
    """

    pid: int
    memory: int | None = None


class GpuState(_Model):
    """One GPU, or one MIG instance.

    Attributes
    ----------
    index
        Its number in the order of the PCI bus.
    uuid
        ``GPU-...`` or ``MIG-...``.
    name
        What its maker calls it.
    memory_total, memory_used
        Device memory in bytes, of all processes together.
    utilization
        Share of the last sample period in which a kernel ran, in percent.
    temperature
        Of the die, in degrees Celsius.
    power
        Drawn by the board, in watts.
    nvlink_bytes, pcie_bytes
        What it has sent and received over NVLink, and over PCIe, in bytes; from when on, the driver decides.
    processes
        Who has a context on it.
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

    Attributes
    ----------
    name
        The worker's name in Dask.
    pid
        Its process id.
    gpu_index, gpu_uuid
        Its GPU; ``None`` on the CPU stand-in.
    utilization
        Of its GPU, in percent.
    device_memory_used, device_memory_total
        Of its GPU, in bytes, of all processes together.
    pool_used, pool_size
        What RMM has handed out on its GPU, and what it holds, in bytes.
    spilled_to_host, spilled_to_disk
        Results that now lie in host memory instead of device memory, and on disk instead of host memory, in bytes.
    memory
        Host memory of the process, in bytes.
    threads
        How many tasks it can run at a time.
    executing, waiting
        Tasks that run, and tasks that were sent to it and do not run yet.
    executed
        How many tasks it has run since it was started.
    out_of_memory
        How many tasks failed on it for want of device memory, since the cluster was started.
    status
        Dask's word for its state: ``running``, ``paused``, ``closing_gracefully``, ...
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
    threads: int = 1
    executing: int = 0
    waiting: int = 0
    executed: int | None = None
    out_of_memory: int = 0
    status: str = "running"


class WorkerExit(_Model):
    """A worker process that was killed or exited with a status other than 0; its nanny starts another.

    Attributes
    ----------
    worker
        The worker's name in Dask.
    pid
        Its process id.
    time
        When it ended, in seconds since the epoch.
    reason
        How it ended, such as ``was killed by signal 9`` or ``exceeded its memory limit``.
    over_memory_limit
        Whether its nanny terminated it because it exceeded its limit of host memory.
    """

    worker: str
    pid: int
    time: float
    reason: str
    over_memory_limit: bool = False


class ClusterState(_Model):
    """A cluster at one moment.

    Attributes
    ----------
    engine
        ``cuda`` or ``cpu``.
    status
        ``starting``, ``ready``, ``closing`` or ``closed``.
    time
        When this was read, in seconds since the epoch.
    workers
        Its workers, in the order of their GPUs.
    tasks_waiting
        Tasks that the scheduler could send to a worker and has not yet.
    tasks_unfinished
        All tasks that are still to be done: those that run, and those that wait for a worker or for other tasks.
    workers_wanted
        How many workers it is to have; `workers` has fewer while one is starting, and more while one is retiring.
    gpus
        UUIDs of the GPUs that are to have a worker: after a `scale` fewer than the cluster holds.
    held
        Size of the results that clients keep on the workers, in bytes: what is lost when the cluster is closed.
    worker_exits
        The newest unexpected exits of worker processes, at most 20, the oldest first.
    """

    engine: Literal["cuda", "cpu"]
    status: Literal["starting", "ready", "closing", "closed"]
    time: float
    workers: tuple[WorkerState, ...] = ()
    tasks_waiting: int = 0
    tasks_unfinished: int = 0
    workers_wanted: int = 0
    gpus: tuple[str, ...] = ()
    held: int = 0
    worker_exits: tuple[WorkerExit, ...] = ()


class TlsCredentials(_Model):
    """PEM texts that let a client in; made for one cluster, and worth nothing elsewhere."""

    ca: str
    certificate: str
    key: str

    def __repr__(self) -> str:  # never in a log or a traceback
        return "TlsCredentials(...)"

    __str__ = __repr__
