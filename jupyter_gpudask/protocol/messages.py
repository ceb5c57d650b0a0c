"""The supervisor's protocol: one JSON object a line, commands on its stdin and events on its stdout."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, TypeAdapter, ValidationError

from ..errors import ProtocolError
from .cluster_class import ClusterClass
from .spec import ClusterSpec
from .state import ClusterState, GpuState, TlsCredentials

PROTOCOL_VERSION = 6
"""Raised with every change that an older parent or supervisor would misread."""


def _variables(environment: object) -> object:
    if not isinstance(environment, Mapping):
        return environment
    return {name: value for name, value in environment.items() if _is_text(name) and _is_text(value)}


def _folders(path: object) -> object:
    return tuple(folder for folder in path if _is_text(folder)) if isinstance(path, list | tuple) else path


def _is_text(value: object) -> bool:
    """Whether JSON can carry it: what Linux gives us need not be UTF-8, for which Python has surrogates."""
    try:
        return not isinstance(value, str) or value.encode() is not None
    except UnicodeEncodeError:
        return False


Variables = Annotated[dict[str, str], BeforeValidator(_variables)]
"""Environment variables; those that are not UTF-8 are left out."""

Folders = Annotated[tuple[str, ...], BeforeValidator(_folders)]
"""Folders to import from; those that are not UTF-8 are left out."""


class _Message(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class _Command(_Message):
    id: int = 0


class _Answer(_Message):
    """`answers` is the `id` of the command that this answers, and `None` where no command asked for it."""

    answers: int | None = None


class Start(_Command):
    """The first command: make this cluster.

    Attributes
    ----------
    spec
        What cluster.
    cluster_class
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
    gpu_metrics
        Whether states have the metrics of the GPUs; a parent that reads these itself asks for none.
    dashboard_secret
        If given, Dask's dashboard answers requests whose header ``X-Gpudask-Secret`` is this, whatever the spec says
        of it.
    """

    type: Literal["start"] = "start"
    protocol: int = PROTOCOL_VERSION
    spec: ClusterSpec
    cluster_class: ClusterClass | None = None
    parent: int
    path: Folders = ()
    holder: str = ""
    kernel_id: str = ""
    max_workers: int | None = None
    environment: Variables | None = None
    gpu_metrics: bool = True
    dashboard_secret: str | None = None

    def __repr__(self) -> str:  # never in a log or a traceback
        return f"Start(spec={self.spec!r})"

    __str__ = __repr__


class SendState(_Command):
    """Report the state once."""

    type: Literal["send_state"] = "send_state"


class Watch(_Command):
    """Report the state every `interval` seconds; 0 ends that."""

    type: Literal["watch"] = "watch"
    interval: float = Field(1.0, ge=0, le=3600)


class SendLogs(_Command):
    """Send the last `lines` lines of the log of the worker of that name."""

    type: Literal["send_logs"] = "send_logs"
    worker: str
    lines: int = Field(50, ge=1, le=10_000)


class Scale(_Command):
    """Have `workers` workers; on GPUs, as many of those that the cluster holds. The answer is a state."""

    type: Literal["scale"] = "scale"
    workers: int = Field(ge=1, le=256)


class Empty(_Command):
    """Forget every result, task, actor and name; the workers stay. The answer is a state."""

    type: Literal["empty"] = "empty"


class Rename(_Command):
    """From now on others are told that this holds the GPUs; there is no answer."""

    type: Literal["rename"] = "rename"
    holder: str


class Close(_Command):
    """Close the cluster and end."""

    type: Literal["close"] = "close"


Command = Start | SendState | Watch | SendLogs | Scale | Empty | Rename | Close


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
        Of Dask's dashboard, on the loopback address; `None` where that is off.
    dashboard_token
        What opens it to a browser, as the argument ``token`` of its address; empty where no browser can open it.
    gpus
        The GPUs of the workers.
    workers
        How many there are.
    pid
        Of the supervisor.
    spec
        What was asked for, where the Jupyter server has decided that; else `None`.
    found
        Whether the Jupyter server had it already when it was asked for.
    """

    type: Literal["ready"] = "ready"
    protocol: int = PROTOCOL_VERSION
    engine: Literal["cuda", "cpu"]
    stand_in: str = ""
    address: str
    credentials: TlsCredentials | None
    dashboard_port: int | None
    dashboard_token: str = Field("", repr=False)
    gpus: tuple[GpuState, ...] = ()
    workers: int
    pid: int
    spec: ClusterSpec | None = None
    found: bool = False


class StateReport(_Answer):
    """The state of the cluster."""

    type: Literal["state"] = "state"
    state: ClusterState


class LogText(_Answer):
    """The end of a log, as asked for."""

    type: Literal["logs"] = "logs"
    worker: str
    text: str


class Refused(_Answer):
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


Answer = StateReport | LogText | Refused

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
