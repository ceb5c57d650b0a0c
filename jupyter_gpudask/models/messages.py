"""The supervisor's protocol: one JSON object a line, commands on its stdin and events on its stdout."""

from __future__ import annotations

from typing import Annotated, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from ..errors import ProtocolError
from .maker import ClusterClass
from .spec import ClusterSpec
from .state import ClusterState, GpuState, TlsCredentials

PROTOCOL_VERSION = 3
"""Raised with every change that an older parent or supervisor would misread."""


class _Message(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Start(_Message):
    """The first command: make this cluster.

    Attributes
    ----------
    spec
        What cluster.
    made_by
        The class that makes it, where a profile of the administrator's names one.
    parent
        The pid whose death ends the supervisor.
    path
        Folders from which workers can import modules besides those of their environment: the kernel's `sys.path`.
    holder
        Who holds the GPUs, in the words that others are told: the notebook, or the program.
    kernel_id
        The kernel whose cluster it is, where that is known.
    max_workers
        More than this many workers are refused; `None` for no limit.
    environment
        The variables of the supervisor from now on; `None` leaves those that it was started with.
    dashboard_secret
        If given, Dask's dashboard answers only requests whose header ``X-Gpudask-Secret`` is this.
    """

    type: Literal["start"] = "start"
    protocol: int = PROTOCOL_VERSION
    spec: ClusterSpec
    made_by: ClusterClass | None = None
    parent: int
    path: tuple[str, ...] = ()
    holder: str = ""
    kernel_id: str = ""
    max_workers: int | None = None
    environment: dict[str, str] | None = None
    dashboard_secret: str | None = None

    def __repr__(self) -> str:  # never in a log or a traceback
        return f"Start(spec={self.spec!r})"

    __str__ = __repr__


class SendState(_Message):
    """Report the state once."""

    type: Literal["send_state"] = "send_state"


class Watch(_Message):
    """Report the state every `interval` seconds; 0 ends that."""

    type: Literal["watch"] = "watch"
    interval: float = Field(1.0, ge=0, le=3600)


class SendLogs(_Message):
    """Send the last `lines` lines of the log of the worker of that name."""

    type: Literal["send_logs"] = "send_logs"
    worker: str
    lines: int = Field(50, ge=1, le=10_000)


class Scale(_Message):
    """Have `workers` workers; on GPUs, as many of those that the cluster holds. The answer is a state."""

    type: Literal["scale"] = "scale"
    workers: int = Field(ge=1, le=256)


class Empty(_Message):
    """Forget every result, task, actor and name; the workers stay. The answer is a state."""

    type: Literal["empty"] = "empty"


class Close(_Message):
    """Close the cluster and end."""

    type: Literal["close"] = "close"


Command = Start | SendState | Watch | SendLogs | Scale | Empty | Close


class Progress(_Message):
    """`ready` of `total` workers of this engine are up.

    Attributes
    ----------
    gpus
        UUIDs of the GPUs that the cluster holds, which are known before the first worker is up.
    """

    type: Literal["progress"] = "progress"
    engine: Literal["cuda", "cpu"]
    gpus: tuple[str, ...] = ()
    ready: int
    total: int


class Ready(_Message):
    """The cluster is up.

    Attributes
    ----------
    engine
        ``cuda`` or ``cpu``; never ``auto``.
    stand_in
        Why the CPU stands in for GPUs, when ``auto`` found none; else empty.
    address
        Of the scheduler, with its protocol.
    credentials
        What a client must show; ``None`` where the protocol knows no TLS.
    dashboard_port
        Of Dask's dashboard, on the loopback address.
    gpus
        The GPUs of the workers.
    workers
        How many there are.
    pid
        Of the supervisor.
    spec
        What was asked for, where the Jupyter server has decided that; else `None`.
    """

    type: Literal["ready"] = "ready"
    protocol: int = PROTOCOL_VERSION
    engine: Literal["cuda", "cpu"]
    stand_in: str = ""
    address: str
    credentials: TlsCredentials | None
    dashboard_port: int | None
    gpus: tuple[GpuState, ...] = ()
    workers: int
    pid: int
    spec: ClusterSpec | None = None


class StateReport(_Message):
    """The state of the cluster."""

    type: Literal["state"] = "state"
    state: ClusterState


class LogText(_Message):
    """The end of a log, as asked for."""

    type: Literal["logs"] = "logs"
    worker: str
    text: str


class Refused(_Message):
    """A command was not understood or could not be carried out; the cluster goes on."""

    type: Literal["refused"] = "refused"
    reason: str
    fix: str = ""


class Failed(_Message):
    """The cluster did not come up, or ends by itself. `kind` is the name of the error in `errors`."""

    type: Literal["failed"] = "failed"
    kind: str
    reason: str
    fix: str = ""
    log: str = ""


class Closed(_Message):
    """The last event: everything is closed."""

    type: Literal["closed"] = "closed"


Event = Progress | Ready | StateReport | LogText | Refused | Failed | Closed

_M = TypeVar("_M")

_commands: TypeAdapter[Command] = TypeAdapter(Annotated[Command, Field(discriminator="type")])
_events: TypeAdapter[Event] = TypeAdapter(Annotated[Event, Field(discriminator="type")])


def parse_command(line: bytes | str) -> Command:
    """Read one line of a supervisor's stdin.

    Raises
    ------
    ProtocolError
        The line is no command of this version.
    """
    return _parse(_commands, line)


def parse_event(line: bytes | str) -> Event:
    """Read one line of a supervisor's stdout.

    Raises
    ------
    ProtocolError
        The line is no event of this version.
    """
    return _parse(_events, line)


def _parse(adapter: TypeAdapter[_M], line: bytes | str) -> _M:
    try:
        return adapter.validate_json(line)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        raise ProtocolError(f"Not a message of protocol {PROTOCOL_VERSION}: {where} {first['msg']}.") from None
