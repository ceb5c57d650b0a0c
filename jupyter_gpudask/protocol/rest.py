"""Request and response bodies of the REST API, and the messages of the WebSocket ``gpudask/api/stream``."""

from __future__ import annotations

import re
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field

from ..errors import GpuDaskError
from .engines import Engine
from .messages import Action
from .spec import ClusterSpec, start_options
from .state import CellRun, ClusterState, GpuProcess, GpuState

Status = Literal["starting", "ready", "closing", "closed", "failed"]

_SHARED = re.compile(r"shared-([1-9]\d{0,2})")


def shared_id(number: int) -> str:
    """The id of a shared cluster, in place of that of a kernel; `shared_name` gives its name."""
    return f"shared-{number}"


def shared_name(cluster_id: str) -> str:
    """The name that users see of a shared cluster, which belongs to no kernel; empty for a kernel's."""
    match = _SHARED.fullmatch(cluster_id)
    return f"Shared cluster {match[1]}" if match else ""


class _Answer(BaseModel):
    model_config = ConfigDict(frozen=True, json_schema_serialization_defaults_required=True)


class _Question(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class ErrorDetails(_Answer):
    """An error of the catalog as data, from which a client can make its sentences in another language.

    - `code`: its key in the catalog.
    - `reason`, `fix`: the sentences of the catalog, with ``{fields}``; ``{--pool}`` stands for an option.
    - `fields`: the values of the fields.
    - `labels`: the labels in the start form of the options in the sentences and in `fields`.
    - `field`: the field of the start form that it is about; may be empty.
    - `actions`: what to offer: ``wait`` in line for GPUs, ``share`` them, ``use-cpu`` or ``start-on-free``.
    """

    code: str
    reason: str
    fix: str = ""
    fields: dict[str, str] = Field(default_factory=dict)
    labels: dict[str, str] = Field(default_factory=dict)
    field: str = ""
    actions: tuple[str, ...] = ()

    @classmethod
    def of(cls, error: GpuDaskError | None) -> Self | None:
        """The details of an error; `None` if there is none, or it is of another version."""
        if error is None or not error.entry.reason:
            return None
        entry = {name: getattr(error.entry, name) for name in ("reason", "fix", "actions")}
        words = " ".join([error.entry.reason, error.entry.fix, *error.fields.values()])
        used = set(re.findall(r"--[a-z-]+", words))
        labels = {flag: option.title for flag, option in start_options().items() if flag in used and option.title}
        return cls(code=error.code, fields=error.fields, labels=labels, field=error.field, **entry)


class Problem(_Answer):
    """The error of a request.

    - `message`: what is wrong, as a sentence.
    - `fix`: what to do about it; may be empty.
    - `kind`: the name of the class in `jupyter_gpudask.errors`; empty for other errors.
    - `field`: the field of the request body that is wrong; may be empty.
    - `error`: the same as data; `None` for errors of other libraries.
    - `others`: the other fields that are wrong.
    """

    message: str
    fix: str = ""
    kind: str = ""
    field: str = ""
    error: ErrorDetails | None = None
    others: tuple[Problem, ...] = ()


class GpuUser(_Answer):
    """A process that has a CUDA context on a GPU.

    - `pid`: its process id.
    - `name`, `user`: the name of the program and of the user who runs it; `None` if unknown.
    - `memory`: device memory that it uses, in bytes.
    - `kernel_id`: the kernel, if the process is a kernel or belongs to its cluster; `None` for other processes.
    - `notebook`: the name of the notebook, if the process is its kernel; else `None`.
    """

    pid: int
    name: str | None = None
    user: str | None = None
    memory: int | None = None
    kernel_id: str | None = None
    notebook: str | None = None


class GpuHolder(_Answer):
    """A cluster that has reserved a GPU.

    - `name`: the name of a notebook, or of a program.
    - `kernel_id`: the kernel of the cluster; `None` if unknown.
    - `share`: whether other clusters that share may reserve it too.
    """

    name: str
    kernel_id: str | None = None
    share: bool = False


class GpuInfo(GpuState):
    """A GPU, the clusters that have reserved it, and the processes that use it.

    Requests get `users`, and not what is read for them; browsers get the rates of its traffic.

    - `holders`: the clusters that have reserved it.
    - `users`: the processes that use it.
    - `hidden_use`: whether no cluster has reserved it and more of its memory is used than by the listed processes: NVML
      does not list processes of other containers.
    """

    model_config = ConfigDict(frozen=True, json_schema_serialization_defaults_required=True)

    nvlink_bytes: int | None = Field(None, exclude=True)
    pcie_bytes: int | None = Field(None, exclude=True)
    processes: tuple[GpuProcess, ...] = Field((), exclude=True)
    holders: tuple[GpuHolder, ...] = ()
    users: tuple[GpuUser, ...] = ()
    hidden_use: bool = False


class WaitingStart(_Answer):
    """A start that stands in line for GPUs.

    - `user`: who waits, and since when: ``user anna since 14:05``, or a notebook of the server's user.
    - `own`: whether that is the user of this server.
    - `kernel_id`: the kernel, if that is the user of this server; else `None`.
    - `since`: when it entered the line, in seconds since the epoch.
    - `gpus`: UUIDs of the GPUs of this machine any of which it could get.
    - `count`: how many of them it needs.
    """

    user: str
    own: bool
    kernel_id: str | None
    since: float
    gpus: tuple[str, ...]
    count: int


class GpuList(_Answer):
    """The GPUs of the machine.

    - `gpus`: in PCI bus order.
    - `waiting`: the starts that stand in line for them, the first one first, at most 50.
    - `reason`, `fix`: why there are none, or fewer than before, and what to do; else empty.
    - `error`: the same as data.
    """

    gpus: tuple[GpuInfo, ...] = ()
    waiting: tuple[WaitingStart, ...] = ()
    reason: str = ""
    fix: str = ""
    error: ErrorDetails | None = None


class Preset(_Answer):
    """A cluster preset: options of a cluster under a name that the administrator chose.

    - `name`: the name with which it is requested.
    - `title`: the title that users see.
    - `spec`: the options.
    """

    name: str
    title: str
    spec: ClusterSpec


class PresetList(_Answer):
    """The cluster presets.

    - `presets`: the cluster presets.
    - `default`: the options of a cluster that is requested without options.
    - `only`: whether clusters with other options than these are refused.
    """

    presets: tuple[Preset, ...]
    default: ClusterSpec
    only: bool = False


class ClusterInfo(_Answer):
    """A cluster of a kernel, or a shared cluster, which belongs to no kernel.

    - `kernel_id`: the kernel; ``shared-1`` for the first shared cluster.
    - `name`: the names of its notebooks, or the kernel's name; that of a shared cluster.
    - `notebooks`: paths of the notebooks and consoles that use the kernel, or are connected to the shared cluster.
    - `status`: ``starting``, ``ready``, ``closing``, ``closed`` or ``failed``.
    - `reason`, `fix`: why it failed or was closed, and what to do.
    - `error`: the same as data.
    - `log`: the last lines of the log of the process that failed.
    - `reserved_gpus`: UUIDs of the GPUs that others had reserved, if it did not start for that.
    - `spec`: the options.
    - `since`: when this status began, in seconds since the epoch.
    - `workers_ready`, `workers_total`: the progress of the start.
    - `notes`: sentences on what a start waits for, on hosts that are lost, and on jobs of a batch system without a
      worker.
    - `place`: the place of a start in the line for GPUs, from 1; 0 if it does not wait for them.
    - `wanted_by`: who waits for its GPUs and gets them at `given_over_at`, such as ``user anna since 14:05``; empty for
      nobody.
    - `given_over_at`: when the cluster is closed for that, in seconds since the epoch; `None` if it is not.
    - `engine`: ``cuda`` or ``cpu``; `None` until it is decided.
    - `cpu_reason`: why ``auto`` uses the CPU; else empty.
    - `gpus`: UUIDs of its GPUs.
    - `pid`: the pid of the supervisor; `None` if there is none.
    - `dashboard`: the path of Dask's dashboard below the server's base URL; `None` if there is none. That of a joined
      cluster redirects to pages that have no rights at the server.
    - `joined`: where the scheduler is, as `Ready.place`, if the kernel is connected to a cluster that somebody else
      started, or the name of the shared cluster; else empty.
    - `limits`: the actions that are not possible, and why, as sentences; `dashboard` stands for Dask's plots, too.
    - `automatic`: whether the kernel runs every cell that uses Dask as if ``%%gpudask`` stood above it: ``%gpudask
      on``.
    - `busy`: whether the kernel executes a cell, which may use the cluster later.
    - `cells`: the last ``%%gpudask`` cells of the kernel, the newest last, which may be running; at most 6.
    - `state`: its last reported state.
    """

    kernel_id: str
    name: str
    notebooks: tuple[str, ...] = ()
    status: Status
    reason: str = ""
    fix: str = ""
    error: ErrorDetails | None = None
    log: str = ""
    reserved_gpus: tuple[str, ...] = ()
    spec: ClusterSpec
    since: float
    workers_ready: int = 0
    workers_total: int = 0
    notes: tuple[str, ...] = ()
    place: int = 0
    wanted_by: str = ""
    given_over_at: float | None = None
    engine: Engine | None = None
    cpu_reason: str = ""
    gpus: tuple[str, ...] = ()
    pid: int | None = None
    dashboard: str | None = None
    joined: str = ""
    limits: dict[Action, str] = Field(default_factory=dict)
    automatic: bool = False
    busy: bool = False
    cells: tuple[CellRun, ...] = ()
    state: ClusterState | None = None


class ClusterList(_Answer):
    """The clusters of this server."""

    clusters: tuple[ClusterInfo, ...]


class CreateCluster(_Question):
    """Request body that starts the cluster of a kernel, or a shared cluster.

    - `kernel_id`: the kernel; empty for a new shared cluster.
    - `spec`: its options; options that are left out are those of the cluster preset.
    - `preset`: the name of a cluster preset; empty for the default.
    """

    kernel_id: str = Field(max_length=100)
    spec: dict[str, Any] = Field(default_factory=dict)
    preset: str = Field("", max_length=100)


class ClusterLogs(_Answer):
    """The last lines of the logs of a cluster, by worker name; ``supervisor`` is the log of Dask's scheduler."""

    logs: dict[str, str]


class GpuMetrics(_Answer):
    """Metrics of a GPU in the history; see `GpuState`.

    - `nvlink`, `pcie`: traffic over NVLink, and over PCIe, sent and received, in bytes per second since the previous
      sample. If the driver has no 64-bit counter for PCIe, it is that of 20 ms in each direction.
    """

    utilization: float | None = None
    memory_used: int | None = None
    nvlink: int | None = None
    pcie: int | None = None


class MachineMetrics(_Answer):
    """Metrics of the machine in the history.

    - `cpu`: the part of the time since the previous sample in which the processors were busy, in percent of all of
      them.
    - `memory_used`: host memory in use, in bytes.
    - `disk`, `network`: traffic of the disks, and of the network, in both directions, in bytes per second since the
      previous sample.
    """

    cpu: float | None = None
    memory_used: int | None = None
    disk: int | None = None
    network: int | None = None


class WorkerMetrics(_Answer):
    """Metrics of a worker in the history; see `WorkerState`."""

    pool_used: int | None = None
    spilled_to_host: int | None = None
    spilled_to_disk: int | None = None
    memory: int | None = None
    cpu: float | None = None
    executed: int | None = None


class Sample(_Answer):
    """All metrics of one time.

    - `time`: in seconds since the epoch.
    - `gpus`: by UUID.
    - `workers`: by kernel id, then by worker name.
    - `machine`: the machine itself.
    """

    time: float
    gpus: dict[str, GpuMetrics] = {}
    workers: dict[str, dict[str, WorkerMetrics]] = {}
    machine: MachineMetrics = MachineMetrics()


class CellBand(CellRun):
    """A cell in the history.

    - `kernel_id`, `notebook`: its kernel, and the path of its notebook then; empty without one.
    """

    model_config = ConfigDict(frozen=True, json_schema_serialization_defaults_required=True)

    kernel_id: str
    notebook: str = ""


class HistoryPart(_Answer):
    """Samples and cells of the times when a cluster was busy, with a page of the panel open or not.

    - `step`: the distance of the samples, in seconds; each has the means or the largest values of that time.
    - `samples`, `cells`: the oldest first.
    """

    step: float
    samples: tuple[Sample, ...] = ()
    cells: tuple[CellBand, ...] = ()


class StreamMessage(_Answer):
    """One message; at most one is sent per second.

    - `type`: ``full`` for the first message, which has the full state; ``changes`` for the others.
    - `time`: when it was created, in seconds since the epoch.
    - `gpus`: the GPUs; `None` if nothing has changed.
    - `clusters`: the clusters that have changed; in the first message, all.
    - `removed`: the kernels whose cluster was removed.
    - `memory_total`: the host memory of the machine, in bytes.
    - `history`: the samples since the requested time or since the last message; the newest is last.
    """

    type: Literal["full", "changes"]
    time: float
    gpus: GpuList | None = None
    clusters: tuple[ClusterInfo, ...] = ()
    removed: tuple[str, ...] = ()
    memory_total: int | None = None
    history: tuple[Sample, ...] = ()


LIVE_OUTPUT = "jupyter_gpudask"
"""The metadata key of an output that is shown as a widget and stored with a static representation."""
