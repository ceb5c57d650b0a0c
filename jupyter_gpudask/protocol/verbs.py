"""The verbs of a cluster, each declared once, as a method of `ClusterVerbs`.

The parameters of the method are the arguments, with their limits. From the declaration follow the command on the wire
and its answer, and the operation of the REST interface. Who asks inherits the method, which sends the command; who
answers overrides it, so that `answer` finds it.
"""

# mypy: disable-error-code="empty-body"

import inspect
import logging
from collections.abc import Awaitable, Callable, Generator
from dataclasses import dataclass
from functools import wraps
from typing import Annotated, Any, Literal, ParamSpec, TypeVar, Union

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, create_model, model_validator

from ..errors import GpuDaskError, ProtocolError
from .messages import (
    PROTOCOL_VERSION,
    Answer,
    Folders,
    Kept,
    LogText,
    Message,
    Refused,
    SentSpec,
    StateReport,
    parse_message,
)
from .spec import ClusterClass
from .state import CellRun, ClusterState

logger = logging.getLogger(__name__)

SUPERVISOR = "supervisor"
"""The name of the log of the process in which the scheduler runs."""

_P = ParamSpec("_P")
_R = TypeVar("_R", bound=Awaitable[Any])

Workers = Annotated[int, Field(ge=1, le=256)]


class Command(Message):
    """A command to a supervisor, from its parent or, through the Jupyter server, from a kernel."""

    type: str
    id: int = 0

    @property
    def arguments(self) -> dict[str, Any]:
        """The arguments of the verb."""
        return {name: getattr(self, name) for name in type(self).model_fields if name not in Command.model_fields}


class Start(Command):
    """Start a cluster; the first command, sent once.

    - `spec`: the options of the cluster.
    - `cluster_class`: the Dask cluster class of a cluster preset, if the spec names such a preset.
    - `path`: folders from which workers can import modules besides those of their environment: the kernel's `sys.path`.
    - `settings`: the settings of Dask's configuration that the kernel has changed, nested as there.
    - `holder`: the name under which the GPUs are reserved and which other users of them see: a notebook, or a program.
    - `kernel_id`: the kernel of the cluster, if known.
    - `max_workers`: the largest number of workers allowed; `None` for no limit.
    - `max_gpus`: the largest number of GPUs that all clusters of the user may reserve together; `None` for no limit.
    - `gpu_metrics`: whether states include metrics from NVML; false for a parent that reads NVML itself.
    - `dashboard_secret`: if given, Dask's dashboard answers requests whose header ``X-Gpudask-Secret`` has this value,
      whatever the spec says.
    """

    type: Literal["start"] = "start"
    protocol: int = PROTOCOL_VERSION
    spec: SentSpec
    cluster_class: ClusterClass | None = None
    path: Folders = ()
    settings: dict[str, Any] = Field(default_factory=dict, repr=False)
    holder: str = ""
    kernel_id: str = ""
    max_workers: int | None = None
    max_gpus: int | None = None
    gpu_metrics: bool = True
    dashboard_secret: str | None = Field(default=None, repr=False)


EndReason = Literal["stopped", "kernel ended", "server ended", "idle", "handed over", "lifetime"]
"""Why a parent closes a cluster; the record of the use of GPUs has it."""


class _Body(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


@dataclass(frozen=True)
class Verb:
    """What is made of a declaration.

    - `name`: the name of the method.
    - `summary`: what it does, as a sentence.
    - `command`: the model of the command.
    - `body`: the model of the body of a request; `None` without arguments.
    - `answer`: the event that answers the command; `None` if nothing does.
    - `operation`: the name of the operation of the REST interface, ``POST clusters/<kernel_id>/<name>``; empty if it is
      none.
    - `is_done_later`: whether the change is not complete when the operation responds.
    """

    name: str
    summary: str
    command: type[Command]
    body: type[BaseModel] | None
    answer: type[StateReport | LogText | Kept] | None
    operation: str
    is_done_later: bool


VERBS: dict[str, Verb] = {}
"""The verbs, by the type of their commands."""


def _verb(
    sent_as: str = "",
    *,
    answer: type[StateReport | LogText | Kept] | None = StateReport,
    operation: str = "",
    is_done_later: bool = False,
    check: Callable[[Any], Any] | None = None,
) -> Callable[[Callable[_P, _R]], Callable[_P, _R]]:
    """Declare a method as a verb; see `Verb`.

    `sent_as`: the type of the command, by default the name of the method. `check`: checks the arguments together, as a
    validator of pydantic.
    """

    def declare(method: Callable[_P, _R]) -> Callable[_P, _R]:
        name, summary, signature = method.__name__, inspect.getdoc(method) or "", inspect.signature(method)
        _, *parameters = signature.parameters.values()
        fields: dict[str, Any] = {
            each.name: (each.annotation, ... if each.default is each.empty else each.default) for each in parameters
        }
        sent_fields: dict[str, Any] = {"type": (Literal[sent_as or name], sent_as or name), **fields}
        checks: dict[str, Any] = {} if check is None else {"check": model_validator(mode="after")(check)}
        command = create_model(name.title(), __base__=Command, __doc__=summary, __validators__=checks, **sent_fields)
        body = create_model(f"{name.title()}Cluster", __base__=_Body, __doc__=summary, __validators__=checks, **fields)
        first, _, _ = summary.partition("\n")
        VERBS[sent_as or name] = Verb(name, first, command, body if fields else None, answer, operation, is_done_later)

        @wraps(method)
        def ask(*given: _P.args, **named: _P.kwargs) -> _R:
            arguments = signature.bind(*given, **named).arguments
            cluster = arguments.pop("self")
            asked: _R = cluster.call(command(**arguments))
            return asked

        return ask

    return declare


def _is_range(arguments: Any) -> Any:
    if arguments.minimum > arguments.maximum:
        raise ValueError(f"The minimum {arguments.minimum} is more than the maximum {arguments.maximum}.")
    return arguments


class _Done:
    def __await__(self) -> Generator[None, None, None]:
        yield from ()


DONE = _Done()
"""What a verb without a result gives; it need not be awaited."""


class ClusterVerbs:
    """The verbs of a cluster, except for its start.

    Each raises `ClusterLostError` if the cluster has ended or does not respond, and `NotOwnedError` if somebody else
    started the cluster and the verb changes it.
    """

    def call(self, command: Command) -> Awaitable[Any]:
        """Carry out a command; this class ignores those that have no answer, and refuses the others."""
        verb = VERBS.get(command.type)
        if verb is None or verb.answer is not None:
            raise ProtocolError("command-not-possible", command=command.type)
        return DONE

    @_verb("send_state")
    async def state(self) -> ClusterState:
        """The current state of the cluster."""

    @_verb("send_logs", answer=LogText)
    async def worker_log(self, worker: str, lines: Annotated[int, Field(ge=1, le=10_000)] = 50) -> str:
        """The last lines of the log of a worker, or of `SUPERVISOR`; empty if there is none."""

    @_verb(operation="scaleCluster", is_done_later=True)
    async def scale(self, workers: Workers) -> ClusterState:
        """Change the number of workers; they start or stop after the response."""

    @_verb(operation="adaptCluster", is_done_later=True, check=_is_range)
    async def adapt(self, minimum: Workers, maximum: Workers) -> ClusterState:
        """Let the number of workers follow the work, within a range, until the cluster is scaled."""

    @_verb(operation="releaseResults")
    async def release(self) -> ClusterState:
        """Release the finished results that clients hold on the workers; unfinished tasks go on."""

    @_verb(operation="keepCluster", answer=Kept)
    async def keep(self) -> str:
        """Keep the GPUs of an idle cluster, which somebody waits for; its idle time begins anew.

        The result is who waits, as the notice said; empty if nobody does. Only a Jupyter server gives such notices.
        """

    @_verb(answer=None, operation="restartCluster", is_done_later=True)
    def restart(self, spec: dict[str, Any] = {}) -> Awaitable[None]:  # noqa: B006 - pydantic copies it
        """Restart the cluster, with other options if some are given.

        Only a Jupyter server does that; the response does not wait for the end of the old cluster.
        """

    @_verb()
    async def reset(self) -> ClusterState:
        """Delete every result, task, actor and named object, and keep the workers."""

    @_verb(answer=None)
    def watch(self, interval: Annotated[float, Field(ge=0, le=3600)] = 1.0) -> Awaitable[None]:
        """Report the state every `interval` seconds; 0 stops the reports."""

    @_verb(answer=None)
    def rename(self, holder: str) -> Awaitable[None]:
        """Change the name under which the GPUs are reserved."""

    @_verb(answer=None)
    def report_automatic(self, on: bool) -> Awaitable[None]:
        """Report whether ``%gpudask on`` is active in the kernel, to a Jupyter server, which shows it."""

    @_verb(answer=None)
    def report_cell(self, cell: CellRun) -> Awaitable[None]:
        """Report a cell that has begun, runs or has ended, to a Jupyter server, which shows it."""

    @_verb(answer=None)
    def close(self, reason: EndReason = "stopped") -> Awaitable[None]:
        """Close the cluster, for this reason; the last event, `Closed`, follows."""

    async def logs(self, lines: int = 200) -> dict[str, str]:
        """The last lines of each log, by the name of the worker or the job, and of that of `SUPERVISOR`."""
        names = (SUPERVISOR, *(await self.state()).logged)
        return {name: await self.worker_log(name, lines) for name in names}


COMMANDS: tuple[type[Command], ...] = (Start, *(verb.command for verb in VERBS.values()))

_any_command: Any = Union[COMMANDS]  # noqa: UP007 - of a tuple
_commands: TypeAdapter[Command] = TypeAdapter(Annotated[_any_command, Field(discriminator="type")])


def parse_command(line: bytes | str) -> Command:
    """Parse one line from a parent; raises `ProtocolError` if the line is not a command of this version."""
    command: Command = parse_message(_commands, line)
    return command


def carry_out(command: Command, cluster: Any) -> Awaitable[Any]:
    """Call the method of `cluster` for the verb of a command; raises `ProtocolError` for `Start`."""
    if command.type not in VERBS:
        raise ProtocolError("command-not-possible", command=command.type)
    carried_out: Awaitable[Any] = getattr(cluster, VERBS[command.type].name)(**command.arguments)
    return carried_out


async def answer(command: Command, cluster: ClusterVerbs) -> Answer | None:
    """Carry out a command, and return the event to send: a `Refused` for every error; the cluster keeps running."""
    try:
        result = await carry_out(command, cluster)
    except GpuDaskError as error:
        return Refused.from_error(error, answers=command.id)
    except Exception as error:  # whatever Dask or the system raises
        logger.exception("The command %s failed", command.type)
        return Refused(answers=command.id, reason=f"{type(error).__name__}: {error}.")
    event = VERBS[command.type].answer
    return None if event is None else event.of(result, answers=command.id, **command.arguments)
