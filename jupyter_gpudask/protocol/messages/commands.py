"""Commands to a supervisor, from its parent or, through the Jupyter server, from a kernel."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, TypeAdapter

from ..cluster.cluster_class import ClusterClass
from .message import PROTOCOL_VERSION, Folders, Message, SentSpec, parse_message


class _Command(Message):
    id: int = 0


class Start(_Command):
    """Start a cluster; the first command, sent once.

    Attributes
    ----------
    spec
        The options of the cluster.
    cluster_class
        The Dask cluster class of a cluster profile, if the spec names such a profile.
    path
        Folders from which workers can import modules besides those of their environment: the kernel's `sys.path`.
    settings
        The settings of Dask's configuration that the kernel has changed, nested as there.
    holder
        The name under which the GPUs are held and which other users of them see: a notebook, or a program.
    kernel_id
        The kernel of the cluster, if known.
    max_workers
        The largest number of workers allowed; `None` for no limit.
    max_gpus
        The largest number of GPUs that all clusters of the user may hold together; `None` for no limit.
    gpu_metrics
        Whether states include metrics from NVML; false for a parent that reads NVML itself.
    dashboard_secret
        If given, Dask's dashboard answers requests whose header ``X-Gpudask-Secret`` has this value, whatever the spec
        says.
    """

    type: Literal["start"] = "start"
    protocol: int = PROTOCOL_VERSION
    spec: SentSpec
    cluster_class: ClusterClass | None = None
    path: Folders = ()
    settings: dict[str, Any] = Field(default_factory=dict)
    holder: str = ""
    kernel_id: str = ""
    max_workers: int | None = None
    max_gpus: int | None = None
    gpu_metrics: bool = True
    dashboard_secret: str | None = None

    def __repr__(self) -> str:  # never in a log or a traceback
        return f"Start(spec={self.spec!r})"

    __str__ = __repr__


class SendState(_Command):
    """Report the state once."""

    type: Literal["send_state"] = "send_state"


class Watch(_Command):
    """Report the state every `interval` seconds; 0 stops the reports."""

    type: Literal["watch"] = "watch"
    interval: float = Field(1.0, ge=0, le=3600)


class SendLogs(_Command):
    """Send the last `lines` lines of a worker's log."""

    type: Literal["send_logs"] = "send_logs"
    worker: str
    lines: int = Field(50, ge=1, le=10_000)


class Scale(_Command):
    """Scale the cluster to `workers` workers; with GPUs, to that many of the GPUs that it holds."""

    type: Literal["scale"] = "scale"
    workers: int = Field(ge=1, le=256)


class Adapt(_Command):
    """Close workers that are idle and start them when there is work, within a range; `Scale` ends it."""

    type: Literal["adapt"] = "adapt"
    minimum: int = Field(ge=1, le=256)
    maximum: int = Field(ge=1, le=256)


class Reset(_Command):
    """Delete every result, task, actor and named object, and keep the workers."""

    type: Literal["reset"] = "reset"


class Release(_Command):
    """Release the finished results that clients hold on the workers; unfinished tasks go on."""

    type: Literal["release"] = "release"


class Rename(_Command):
    """Change the name under which the GPUs are held; it has no answer."""

    type: Literal["rename"] = "rename"
    holder: str


class ReportAutomatic(_Command):
    """Report whether ``%gpudask on`` is active in the kernel.

    A kernel sends it to its Jupyter server, which shows it in the browser; it has no answer.
    """

    type: Literal["report_automatic"] = "report_automatic"
    on: bool


class ReportCell(_Command):
    """Report that a cell has ended; a kernel sends it to its Jupyter server, which counts it; it has no answer.

    Attributes
    ----------
    fallback_blocks
        How many blocks it has computed on the host because CuPy or cuDF lack the operation.
    """

    type: Literal["report_cell"] = "report_cell"
    fallback_blocks: int = Field(0, ge=0, le=10**9)


class Keep(_Command):
    """Keep the GPUs of an idle cluster, which somebody waits for.

    Only a kernel sends it, to its Jupyter server, which decides when idle clusters give up their GPUs.
    """

    type: Literal["keep"] = "keep"


EndReason = Literal["stopped", "kernel ended", "server ended", "idle", "handed over", "lifetime"]
"""Why a parent closes a cluster; the record of the use of GPUs has it."""


class Close(_Command):
    """Close the cluster, for this reason, and end the supervisor."""

    type: Literal["close"] = "close"
    reason: EndReason = "stopped"


Command = (
    Start
    | SendState
    | Watch
    | SendLogs
    | Scale
    | Adapt
    | Reset
    | Release
    | Rename
    | ReportAutomatic
    | ReportCell
    | Keep
    | Close
)

_commands: TypeAdapter[Command] = TypeAdapter(Annotated[Command, Field(discriminator="type")])


def parse_command(line: bytes | str) -> Command:
    """Parse one line from a parent.

    Raises
    ------
    ProtocolError
        The line is not a command of this version.
    """
    command: Command = parse_message(_commands, line)
    return command
