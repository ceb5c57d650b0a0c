"""Events from a supervisor, to its parent or, through the Jupyter server, to a kernel."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import AfterValidator, Field, TypeAdapter

from ... import errors
from ...errors import GpuDaskError
from ..cluster.limits import Action
from ..cluster.state import ClusterState, GpuState, TlsCredentials
from .message import PROTOCOL_VERSION, Message, SentSpec, parse_message

_LONGEST_LOG = 2**18
"""In characters, of which each has at most six bytes in JSON: an event has at most `transport.EVENT_LIMIT` bytes."""

_Log = Annotated[str, AfterValidator(lambda text: text[-_LONGEST_LOG:])]


class _Answer(Message):
    """`answers` is the `id` of the command that this answers; `None` for an event that no command asked for.

    The field `content` has the result of a verb.
    """

    content: ClassVar[str]

    answers: int | None = None

    @classmethod
    def of(cls, result: Any, **fields: Any) -> Self:
        """The event that reports the result of a command with these arguments, some of which the event repeats."""
        return cls(**{cls.content: result}, **{name: fields[name] for name in cls.model_fields if name in fields})

    @property
    def result(self) -> Any:
        """The result of the verb."""
        return getattr(self, self.content)


class Progress(Message):
    """`ready` of `total` workers are up.

    Attributes
    ----------
    gpus
        UUIDs of the GPUs that the cluster holds, which are known before the first worker is up.
    notes
        Sentences on what the start waits for, such as jobs of a batch system.
    """

    type: Literal["progress"] = "progress"
    engine: Literal["cuda", "cpu"]
    gpus: tuple[str, ...] = ()
    ready: int
    total: int
    notes: tuple[str, ...] = ()


class Ready(Message):
    """The cluster is up.

    Attributes
    ----------
    engine
        ``cuda`` or ``cpu``; never ``auto``.
    stand_in
        Why the CPU stands in for GPUs, when ``auto`` found none; else empty.
    address
        The address of the scheduler, with its protocol.
    credentials
        The TLS credentials for clients; `None` if the protocol does not support TLS.
    dashboard_port
        The port of Dask's dashboard on the loopback address; `None` if it is off.
    dashboard_token
        The value of the argument ``token`` with which a browser can open the dashboard; empty if no browser can.
    gpus
        The GPUs of the workers.
    workers
        The number of workers.
    pid
        The process id of the supervisor.
    spec
        The options that the Jupyter server decided on; `None` if there is no such server.
    found
        Whether the cluster existed already when the kernel asked the Jupyter server for it.
    price_per_gpu_hour, currency
        What a GPU costs per hour, as the administrator of the Jupyter server has set it; 0 without a price.
    dashboard_path
        The path of Dask's dashboard at the address of the Jupyter server; empty if no server shows it.
    limits
        What cannot be done with the cluster, and why, as sentences.
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
    spec: SentSpec | None = None
    found: bool = False
    price_per_gpu_hour: float = 0.0
    currency: str = ""
    dashboard_path: str = ""
    limits: dict[Action, str] = Field(default_factory=dict)

    @property
    def dashboard_link(self) -> str:
        """Where a browser can open Dask's dashboard: a path at the Jupyter server, or an address; empty if nowhere."""
        if self.dashboard_port and self.dashboard_token:
            return f"http://127.0.0.1:{self.dashboard_port}/status?token={self.dashboard_token}"
        return self.dashboard_path


class Joined(Ready):
    """A connection to a scheduler that somebody else started.

    Attributes
    ----------
    dashboard
        The address of Dask's dashboard; empty if it is off.
    """

    dashboard: str = ""


class StateReport(_Answer):
    """The state of the cluster."""

    content = "state"

    type: Literal["state"] = "state"
    state: ClusterState


class LogText(_Answer):
    """The last lines of a worker's log."""

    content = "text"

    type: Literal["logs"] = "logs"
    worker: str
    text: _Log


class Kept(_Answer):
    """The cluster keeps its GPUs.

    Attributes
    ----------
    wanted_by
        Who waits for them, as the notice said, such as ``user anna since 14:05``; empty if there was no notice.
    """

    content = "wanted_by"

    type: Literal["kept"] = "kept"
    wanted_by: str = ""


class _Failure(Message):
    """An error.

    Attributes
    ----------
    kind
        The name of a class of `jupyter_gpudask.errors`.
    code, fields
        The key of the error in the catalog, and the values of its sentences.
    reason, fix
        Its sentences, for a receiver that does not have the code.
    log, held
        As of `GpuDaskError`.
    """

    kind: str = "GpuDaskError"
    code: str = ""
    fields: dict[str, str] = Field(default_factory=dict)
    reason: str
    fix: str = ""
    log: _Log = ""
    held: tuple[str, ...] = ()

    @classmethod
    def from_error(cls, error: GpuDaskError, **others: Any) -> Self:
        """The event that reports `error`."""
        values = {name: getattr(error, name) for name in _Failure.model_fields if name != "kind"}
        return cls(kind=type(error).__name__, **values, **others)

    @property
    def state(self) -> dict[str, Any]:
        """The attributes of the exception that this event reports."""
        return {name: getattr(self, name) for name in _Failure.model_fields if name != "kind"}

    def to_error(self) -> GpuDaskError:
        """The exception that this event reports; a `ClusterStartError` if this version does not have its class."""
        kind = getattr(errors, self.kind, None)
        if not (isinstance(kind, type) and issubclass(kind, GpuDaskError)):
            kind = errors.ClusterStartError
        return kind.restored(self.state)


class Refused(_Answer, _Failure):
    """A command was not valid or could not be carried out; the cluster keeps running."""

    type: Literal["refused"] = "refused"


class Failed(_Failure):
    """The cluster did not start, or ended unexpectedly."""

    type: Literal["failed"] = "failed"


class Closed(Message):
    """The last event: the cluster is closed and all its processes have ended."""

    type: Literal["closed"] = "closed"


Answer = StateReport | LogText | Kept | Refused

Event = Progress | Ready | StateReport | LogText | Kept | Refused | Failed | Closed

_events: TypeAdapter[Event] = TypeAdapter(Annotated[Event, Field(discriminator="type")])


def parse_event(line: bytes | str) -> Event:
    """Parse one line from a supervisor.

    Raises
    ------
    ProtocolError
        The line is not an event of this version.
    """
    event: Event = parse_message(_events, line)
    return event
