"""What the Jupyter server and the browser say to each other: the bodies of the REST interface."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from .spec import ClusterSpec
from .state import ClusterState, GpuState

Status = Literal["starting", "ready", "closing", "closed", "failed"]


class _Answer(BaseModel):
    model_config = ConfigDict(frozen=True, json_schema_serialization_defaults_required=True)


class _Question(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Problem(_Answer):
    """Why a request was refused.

    Attributes
    ----------
    message
        What is wrong, as a sentence for the user.
    fix
        What to do about it; empty when there is nothing to do.
    kind
        The name of the error in `jupyter_gpudask.errors`; empty for what is none of those.
    field
        The field of the body that is wrong, if it is one.
    """

    message: str
    fix: str = ""
    kind: str = ""
    field: str = ""


class GpuUser(_Answer):
    """A process that has a CUDA context on a GPU.

    Attributes
    ----------
    pid
        Its process id.
    name, user
        Of the program, and of who runs it; `None` where that cannot be known.
    memory
        Device memory that it holds, in bytes.
    kernel_id
        The kernel that it is, or to whose cluster it belongs; `None` for a foreign process.
    notebook
        The name of the notebook whose kernel it is itself; else `None`.
    """

    pid: int
    name: str | None = None
    user: str | None = None
    memory: int | None = None
    kernel_id: str | None = None
    notebook: str | None = None


class GpuHolder(_Answer):
    """A cluster that holds a GPU.

    Attributes
    ----------
    name
        In words: a notebook, or a program.
    kernel_id
        Whose cluster it is; `None` where that is not known.
    share
        Whether it lets others hold it too.
    """

    name: str
    kernel_id: str | None = None
    share: bool = False


class GpuInfo(GpuState):
    """A GPU, who holds it, and who uses it.

    Attributes
    ----------
    holders
        The clusters that hold it.
    users
        The processes on it.
    hidden_use
        Whether nobody holds it, and yet more of its memory is in use than the listed processes explain: NVML does
        not list those of other containers.
    """

    model_config = ConfigDict(frozen=True, json_schema_serialization_defaults_required=True)

    holders: tuple[GpuHolder, ...] = ()
    users: tuple[GpuUser, ...] = ()
    hidden_use: bool = False


class GpuList(_Answer):
    """The GPUs of the machine.

    Attributes
    ----------
    gpus
        In the order of the PCI bus.
    reason, fix
        Why there are none, or fewer than there were; empty when all is well.
    """

    gpus: tuple[GpuInfo, ...] = ()
    reason: str = ""
    fix: str = ""


class Profile(_Answer):
    """A spec that the administrator has given a name.

    Attributes
    ----------
    name
        By which a cluster of it is asked for.
    title
        What the user reads.
    spec
        What it is.
    """

    name: str
    title: str
    spec: ClusterSpec


class ProfileList(_Answer):
    """The profiles, and the spec of a cluster for which nothing is said."""

    profiles: tuple[Profile, ...]
    default: ClusterSpec


class ClusterInfo(_Answer):
    """A kernel's cluster.

    Attributes
    ----------
    kernel_id
        Whose it is.
    name
        What the user calls it: its notebooks, or the kernel's name.
    notebooks
        Paths of the notebooks and consoles of the kernel.
    status
        ``starting``, ``ready``, ``closing``, ``closed`` or ``failed``.
    reason, fix
        Why it failed or was closed, and what to do.
    log
        The last lines of what failed.
    spec
        What was asked for.
    since
        When this status began, in seconds since the epoch.
    workers_ready, workers_total
        How far the start is.
    engine
        ``cuda`` or ``cpu``; `None` until that is decided.
    stand_in
        Why the CPU stands in for GPUs, or empty.
    gpus
        UUIDs of its GPUs.
    pid
        Of the supervisor; `None` when there is none.
    dashboard
        Where Dask's dashboard is, after the server's base URL; `None` when there is none.
    state
        What its workers do, as last reported.
    """

    kernel_id: str
    name: str
    notebooks: tuple[str, ...] = ()
    status: Status
    reason: str = ""
    fix: str = ""
    log: str = ""
    spec: ClusterSpec
    since: float
    workers_ready: int = 0
    workers_total: int = 0
    engine: Literal["cuda", "cpu"] | None = None
    stand_in: str = ""
    gpus: tuple[str, ...] = ()
    pid: int | None = None
    dashboard: str | None = None
    state: ClusterState | None = None


class ClusterList(_Answer):
    """The clusters of this server."""

    clusters: tuple[ClusterInfo, ...]


class CreateCluster(_Question):
    """Start the cluster of a kernel.

    Attributes
    ----------
    kernel_id
        Whose it will be.
    spec
        What cluster; what is left out is as in the profile.
    profile
        The name of a profile; empty for the default.
    """

    kernel_id: str = Field(min_length=1, max_length=100)
    spec: dict[str, Any] = Field(default_factory=dict)
    profile: str = Field("", max_length=100)


class RestartCluster(_Question):
    """Start it anew; what `spec` leaves out stays as it was."""

    spec: dict[str, Any] = Field(default_factory=dict)


class ScaleCluster(_Question):
    """Have `workers` workers."""

    workers: int = Field(ge=1, le=256)


class ClusterLogs(_Answer):
    """The last lines of the logs of a cluster, by the name of the worker; ``supervisor`` is Dask's scheduler."""

    logs: dict[str, str]
