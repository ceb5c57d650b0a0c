"""The messages of kernels, the Jupyter server and supervisors: their base, the first of a kernel, and the events."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from pathlib import PurePosixPath
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    TypeAdapter,
    ValidationError,
)

from .. import errors
from ..errors import GpuDaskError, NotOwnedError, ProtocolError
from ..quantities import format_count
from .engines import Engine, has_gpus
from .spec import ClusterSpec
from .state import ClusterState, GpuState, TlsCredentials

PROTOCOL_VERSION = 13
"""Increased with every change that an older parent or supervisor would misread. A new field with a default is none."""

OLDEST_PROTOCOL = 13
"""The oldest version whose messages are understood."""


class Message(BaseModel):
    """A message, sent as one JSON object on one line. Unknown fields, which newer versions may have, are ignored."""

    model_config = ConfigDict(extra="ignore", frozen=True, ser_json_inf_nan="constants")  # as the json module does


def check_protocol(version: int, *, receiver: str, sender: str) -> None:
    """Check that the first message is of a version that this process understands.

    `receiver`, `sender`: in whose environments the packages are that have received it, and sent it. Raises
    `ProtocolError` with the side to upgrade if it is not.
    """
    if OLDEST_PROTOCOL <= version <= PROTOCOL_VERSION:
        return
    old, new = (receiver, sender) if version > PROTOCOL_VERSION else (sender, receiver)
    lower, higher = sorted((version, PROTOCOL_VERSION))
    raise ProtocolError("other-protocol", old=old, new=new, lower=lower, higher=higher)


def _without_bytes(value: object) -> object:
    if isinstance(value, Mapping):
        return {name: each for name, each in value.items() if _is_utf8(name) and _is_utf8(each)}
    return tuple(filter(_is_utf8, value)) if isinstance(value, list | tuple) else value


def _is_utf8(value: object) -> bool:
    """Whether JSON can represent it; Python decodes other bytes from the system as surrogates."""
    try:
        return not isinstance(value, str) or value.encode() is not None
    except UnicodeEncodeError:
        return False


Variables = Annotated[dict[str, str], BeforeValidator(_without_bytes)]
"""Environment variables; those that are not UTF-8 are left out."""

Folders = Annotated[tuple[str, ...], BeforeValidator(_without_bytes)]
"""Folders of an import path; those that are not UTF-8 are left out."""


SentSpec = Annotated[ClusterSpec, PlainSerializer(lambda spec: spec.model_dump(mode="json", exclude_defaults=True))]
"""The options of a cluster, without those that have their defaults: older versions may not know them."""


def parse_message(adapter: TypeAdapter[Any], line: bytes | str) -> Any:
    """Parse one line; raises `ProtocolError` if the line is not a message that `adapter` accepts."""
    try:
        return adapter.validate_json(line)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        raise ProtocolError("not-a-message", version=PROTOCOL_VERSION, error=f"{where} {first['msg']}") from None


Action = Literal["adapt", "dashboard", "keep", "release", "restart", "scale", "stop"]

_OF_OWNER: dict[Any, str] = {
    "adapt": "Its workers are started and stopped there.",
    "keep": "Its GPUs are not kept from here.",
    "release": "Results are released in the notebook.",
    "restart": "It cannot be restarted from here.",
    "scale": "Its workers are started and stopped there.",
    "stop": "It is not stopped from here.",
}

REMOTE_DASHBOARD = "Dask's dashboard is not shown here, because the scheduler of this cluster runs elsewhere."
"""Why the dashboard of another cluster with a scheduler elsewhere is not shown."""


def gateway_dashboard(address: str | None) -> str:
    """Why the dashboard of a cluster of dask-gateway, at that address if it has one, is not shown."""
    if not address:
        return "Dask's dashboard is not shown here: the Gateway gives no address of it."
    return f"Dask's dashboard is not shown here: open it at {address} instead."


def refusal(address: str, action: str) -> NotOwnedError:
    """The error of an action, but not ``dashboard``, on a cluster of somebody else, by its scheduler's address."""
    return NotOwnedError(address=address, why=_OF_OWNER[action])


def joined_limits(address: str) -> dict[Action, str]:
    """The sentence of each action that is not possible on a cluster that somebody else started."""
    return {action: refusal(address, action).reason for action in _OF_OWNER}


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


class _OfEngine(Message):
    engine: Engine

    @property
    def has_gpus(self) -> bool:
        """Whether each worker has a GPU, which cells then use."""
        return has_gpus(self.engine)


class Progress(_OfEngine):
    """`ready` of `total` workers are up.

    - `gpus`: UUIDs of the GPUs that the cluster has reserved, which are known before the first worker is up.
    - `notes`: sentences on what the start waits for, such as jobs of a batch system.
    - `place`: the place in the line for GPUs, from 1; 0 if it does not wait for them.
    """

    type: Literal["progress"] = "progress"
    gpus: tuple[str, ...] = ()
    ready: int
    total: int
    notes: tuple[str, ...] = ()
    place: int = 0


class Ready(_OfEngine):
    """The cluster is up.

    - `engine`: ``cuda`` or ``cpu``; never ``auto``.
    - `cpu_reason`: why the cluster is on the CPU, when ``auto`` found no GPU; else empty.
    - `address`: the address of the scheduler, with its protocol.
    - `credentials`: the TLS credentials for clients; `None` if the protocol does not support TLS.
    - `dashboard_port`: the port of Dask's dashboard on the loopback address; `None` if it is off.
    - `dashboard_token`: the value of the argument ``token`` with which a browser can open the dashboard; empty if no
      browser can.
    - `gpus`: the GPUs of the workers.
    - `workers`: the number of workers.
    - `pid`: the process id of the supervisor.
    - `spec`: the options that the Jupyter server decided on; `None` if there is no such server.
    - `found`: whether the cluster existed already when the kernel asked the Jupyter server for it.
    - `price_per_gpu_hour`, `currency`: what a GPU costs per hour, as the administrator of the Jupyter server has set
      it; 0 without a price.
    - `dashboard_path`: the path of Dask's dashboard at the address of the Jupyter server; empty if no server shows it.
    - `dashboard`: the address of the dashboard of a cluster that somebody else started; else empty.
    - `limits`: what cannot be done with the cluster, and why, as sentences.
    - `scheduler_id`: the id of the scheduler, as in the scheduler files of Dask.
    - `name`: the name of a shared cluster of the Jupyter server to which the kernel is connected; else empty.
    """

    type: Literal["ready"] = "ready"
    protocol: int = PROTOCOL_VERSION
    cpu_reason: str = ""
    address: str
    credentials: TlsCredentials | None
    dashboard_port: int | None
    dashboard_token: str = Field(default="", repr=False)
    gpus: tuple[GpuState, ...] = ()
    workers: int
    pid: int
    spec: SentSpec | None = None
    found: bool = False
    price_per_gpu_hour: float = 0.0
    currency: str = ""
    dashboard_path: str = ""
    dashboard: str = ""
    limits: dict[Action, str] = Field(default_factory=dict)
    scheduler_id: str = ""
    name: str = ""

    @property
    def is_owned(self) -> bool:
        """Whether this kernel or its server started the cluster; other clusters are left as they were."""
        return "stop" not in self.limits

    @property
    def dashboard_link(self) -> str:
        """Where a browser can open Dask's dashboard: a path at the Jupyter server, or an address; empty if nowhere."""
        if self.dashboard_port and self.dashboard_token:
            return f"http://127.0.0.1:{self.dashboard_port}/status?token={self.dashboard_token}"
        if self.dashboard and self.dashboard_token:
            return f"{self.dashboard}?token={self.dashboard_token}"
        return self.dashboard or self.dashboard_path

    @property
    def place(self) -> str:
        """Where the scheduler is: its address, or of a cluster of a terminal the name of its directory, or `name`."""
        is_socket = self.address.startswith("unix://")
        return self.name or (PurePosixPath(self.address).parent.name if is_socket else self.address)

    def describe(self, state: ClusterState | None = None) -> str:
        """Describe the cluster in a few words, such as ``2 × NVIDIA H200`` or ``CPU cluster, 4 workers``.

        One that somebody else started has its place, such as ``2 GPU workers at tcp://10.0.0.1:8786``.

        `state`: the current state; after ``scale`` it adds how many GPUs have a worker: ``1 of 2 × NVIDIA H200``.
        """
        workers = self.workers
        if state is not None and state.workers_wanted:
            workers = state.workers_wanted
        if not self.is_owned:
            return f"{format_count(workers, 'GPU worker' if self.has_gpus else 'worker')} at {self.place}"
        if not self.has_gpus:
            return f"CPU cluster, {format_count(workers, 'worker')}"
        if not self.gpus:
            return format_count(workers, "GPU worker")
        names = sorted({gpu.name for gpu in self.gpus})
        scaled = f"{workers} of " if workers < len(self.gpus) else ""
        return f"{scaled}{len(self.gpus)} × {' and '.join(names)}"


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

    - `wanted_by`: who waits for them, as the notice said, such as ``user anna since 14:05``; empty if there was no
      notice.
    """

    content = "wanted_by"

    type: Literal["kept"] = "kept"
    wanted_by: str = ""


class _Failure(Message):
    """An error.

    - `kind`: the name of a class of `jupyter_gpudask.errors`.
    - `code`: the key of the error in the catalog.
    - `fields`: the values of its message.
    - `reason`, `fix`: its message, for a receiver that does not have the code.
    - `log`: the end of the cluster's log.
    - `reserved_gpus`: UUIDs of GPUs that others have reserved, if it did not start for that.
    """

    kind: str = "GpuDaskError"
    code: str = ""
    fields: dict[str, str] = Field(default_factory=dict)
    reason: str
    fix: str = ""
    log: _Log = ""
    reserved_gpus: tuple[str, ...] = ()

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
        return kind.restore(self.state)


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
    """Parse one line from a supervisor; raises `ProtocolError` if the line is not an event of this version."""
    event: Event = parse_message(_events, line)
    return event


class Interpreter(Message):
    """How to start a process with the interpreter and environment of a kernel.

    - `path`: additional folders for `sys.path`.
    - `settings`: the settings of Dask's configuration that the kernel has changed, if the kernel has sent them.
    """

    python: str
    environment: Variables = Field(repr=False)  # it can hold secrets
    path: Folders = ()
    settings: dict[str, Any] = Field(default_factory=dict, repr=False)


class Request(Message):
    """The first line that a kernel sends to its Jupyter server."""

    protocol: int = PROTOCOL_VERSION
    kernel_id: str


class Attach(Request):
    """Attach to the kernel's cluster; fails without one."""

    type: Literal["attach"] = "attach"


class AttachOrStart(Request):
    """Attach to the kernel's cluster, or start one if there is none, with these attributes of a spec."""

    type: Literal["start"] = "start"
    options: dict[str, Any]
    interpreter: Interpreter


class CheckOptions(Request):
    """Check the options of a cluster that would replace the existing one; answered by `Closed` or `Failed`."""

    type: Literal["check"] = "check"
    options: dict[str, Any]


class Connect(Request):
    """Show a cluster of somebody else: from now on the server sends commands, and the kernel answers them."""

    type: Literal["connect"] = "connect"
    joined: Ready


class Find(Request):
    """Where the shared cluster `name` is; answered by `Ready`, with the credentials, or `Failed`."""

    type: Literal["find"] = "find"
    name: str


class _Version(BaseModel):
    protocol: int


KernelRequest = Attach | AttachOrStart | CheckOptions | Connect | Find

_requests: TypeAdapter[KernelRequest] = TypeAdapter(Annotated[KernelRequest, Field(discriminator="type")])


def parse_request(line: bytes) -> KernelRequest:
    """Parse the first line from a kernel; raises `ProtocolError` for others, and for unknown versions."""
    with suppress(ValidationError):
        version = _Version.model_validate_json(line).protocol
        check_protocol(version, receiver="Jupyter server", sender="kernel")
    request: KernelRequest = parse_message(_requests, line)
    return request
