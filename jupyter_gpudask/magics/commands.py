"""The commands of ``%gpudask``: what each takes, does and shows, and how a line is parsed and completed.

A command is declared once, as a method of `Commands`: the help, the parser, the completion and the reference in the
documentation are made from it. The limits of its arguments are those of the verb in `jupyter_gpudask.protocol.verbs`,
and the options of ``start`` those of `ClusterSpec`.
"""

from __future__ import annotations

import gc
import inspect
import os
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from IPython.core.completer import CompletionContext, SimpleCompletion, SimpleMatcherResult, context_matcher
from IPython.core.interactiveshell import InteractiveShell

from ..errors import GpuUnavailableError
from ..fallback.log import fallback_log
from ..session.session import Session
from .arguments import (
    CELL_OPTIONS,
    ON_OPTIONS,
    Parser,
    check_on_options,
    names_in,
    parse_words,
    two_columns,
    usage_error,
)
from .cell_transform import describe_on
from .cluster import ClusterAccess, ClusterView
from .output import Note, Text, View, show_note
from .settings import MagicsSettings
from .status import FallbackRow, FallbacksView, FreeView, GpusView, HeldView, LiveStatusView, LogsView, StatusView

if TYPE_CHECKING:
    from ..protocol.state import WorkerState

    _Method = Callable[..., View]

_AS_START = "as for `start`"
_STATE = "has the metrics as `state`"
_PRIORITY = 1000
_RESPONSE_TIMEOUT = 20.0
_MAGIC = re.compile(r"\s*(?:(?:[\w\s,.*()\[\]]+=\s*)?(?P<sign>%{1,2}))?gpudask\s(?P<rest>.*)", re.DOTALL)


@dataclass(frozen=True)
class Command:
    """A command of ``%gpudask``."""

    help: str  # what it does
    arguments: str  # what follows the command
    value: str  # what the value of the magic is
    numbers: tuple[str, ...]  # the names of the numbers that it takes

    @property
    def flags(self) -> list[str]:
        """Its options, except for those of ``start``."""
        return re.findall("--[a-z-]+", self.arguments)


COMMANDS: dict[str, Command] = {}
"""The commands of ``%gpudask``."""


def _command(help_: str, arguments: str = "", value: str = "a line of text") -> Callable[[_Method], _Method]:
    def declare(method: _Method) -> _Method:
        parameters = inspect.signature(method).parameters.values()
        numbers = tuple(each.name for each in parameters if each.annotation == "int" and each.default is each.empty)
        COMMANDS[method.__name__.removeprefix("_")] = Command(help_, arguments, value, numbers)
        return method

    return declare


class Commands:
    """Runs the commands; the parameters of a method are the arguments of the command."""

    def __init__(
        self, shell: InteractiveShell, session: Session, access: ClusterAccess, settings: MagicsSettings
    ) -> None:
        self._shell, self._session, self._access, self._settings = shell, session, access, settings

    def run(self, command: str, arguments: dict[str, Any]) -> View:
        """Run a command, and return what it shows."""
        __tracebackhide__ = True
        run: _Method = getattr(self, f"_{command}")
        return run(**arguments)

    @_command(
        "start the cluster, or report that it is already running; without a GPU, a CPU cluster",
        "[OPTIONS]",
        "has the Dask client as `client`",
    )
    def _start(self, **options: Any) -> View:
        __tracebackhide__ = True
        cluster, new = self._access.launch(options)
        return ClusterView(cluster, None if new else self._session.state())

    @_command("close the cluster, if there is one, and release the GPUs")
    def _stop(self) -> View:
        self._session.require_owned("stop")
        return Note("The cluster is closed." if self._session.stop() else "There was no cluster.")

    @_command(
        "close the cluster and start a new one with the same options, changed by those given", "[OPTIONS]", _AS_START
    )
    def _restart(self, **changes: Any) -> View:
        __tracebackhide__ = True
        options = self._session.restart_options(changes)
        self._session.stop()
        return ClusterView(self._access.launch(options)[0])

    @_command("add or retire workers until there are N", "N", _STATE)
    def _scale(self, workers: int) -> View:
        return StatusView(self._session.require().scale(workers))

    @_command("let Dask close idle workers and start them when there is work, from MIN to MAX", "MIN MAX", _STATE)
    def _adapt(self, minimum: int, maximum: int) -> View:
        cluster = self._session.require()
        return StatusView(cluster.ask(cluster.process.adapt, minimum, maximum))

    @_command("show the state of each worker", value=_STATE)
    def _status(self) -> View:
        if self._settings.on:
            show_note(self._shell, describe_on(self._settings.on_options))
        state = self._session.state()
        if not hasattr(self._shell, "kernel"):
            return StatusView(state)
        return LiveStatusView(state, lambda: self._session.attached().state())

    @_command(
        "show the GPUs of the machine, the clusters that have reserved them, and their processes",
        value="has the metrics as `gpus`, and the clusters by UUID as `holders`",
    )
    def _gpus(self) -> View:
        from ..machine.gpus import list_gpus
        from ..machine.leases import LeaseFolder, holders_of

        cluster = self._session.cluster
        supervisor = None if cluster is None else cluster.ready.pid
        try:
            gpus = list_gpus()
        except GpuUnavailableError as error:  # an answer, which does not end "Run all"
            return Note(str(error))
        return GpusView(gpus, holders_of(LeaseFolder().read(), own=(os.getpid(), supervisor)))

    @_command(
        "show the results that are held on the workers; --release x,df deletes these variables",
        "[--release NAMES]",
        "has the bytes as `total`, by worker as `workers`, and by variable as `variables`",
    )
    def _held(self, release: tuple[str, ...] = ()) -> View:
        """List the results, after the given variables are deleted, together with what IPython keeps of them."""
        from ..client.calls import report_variables, wait_until_released
        from ..polars.choice import kept_bytes

        gpus = {worker.name: worker.gpu_index for worker in self._session.state().workers}
        client = self._session.require().client
        variables = self._shell.user_ns
        missing = [name for name in release if name not in _user_variables(variables)]
        if missing:
            raise usage_error("no-variable", name=missing[0])
        if release:
            before = set(client.futures)
            for name in release:
                self._shell.del_var(name)  # as %xdel does: also from Out, _ and __
            gc.collect()
            wait_until_released(client, before)
        held = report_variables(client, _user_variables(variables))
        return HeldView(held, gpus, release, polars=kept_bytes(client))

    @_command("keep the GPUs of an idle cluster, although somebody waits for them")
    def _keep(self) -> View:
        cluster = self._session.require()
        wanted_by = cluster.ask(cluster.process.keep)
        kept = "The cluster keeps its GPUs; its idle time begins anew."
        return Note(f"{kept} They are wanted by {wanted_by}." if wanted_by else kept)

    @_command("release device memory that is allocated but not used", value="has the released bytes as `freed`, by GPU")
    def _free(self) -> View:
        from ..client.calls import run_on_workers
        from ..gpu_libraries import release_memory
        from ..polars.choice import leave

        cluster = self._session.cluster
        freed: dict[str, int] = {}
        workers: tuple[WorkerState, ...] = ()
        if cluster is not None and cluster.ready.has_gpus:
            leave(cluster.client)
            names = run_on_workers(cluster.client, _name_of, _RESPONSE_TIMEOUT)
            released = run_on_workers(cluster.client, release_memory, _RESPONSE_TIMEOUT)
            workers = self._session.state().workers
            sizes = {names.get(address, address): size for address, size in released.items()}
            has_hosts = not cluster.is_owned or len({worker.host for worker in workers}) > 1
            for worker in workers:  # several workers of somebody else may share a GPU
                gpu = f"{worker.host} GPU {worker.gpu_index}" if has_hosts else f"GPU {worker.gpu_index}"
                freed[gpu] = freed.get(gpu, 0) + sizes.get(worker.name, 0)
        freed["kernel"] = release_memory()
        return FreeView(freed, workers, pool=cluster is not None and cluster.spec.pool is not None)

    @_command("check the driver, the GPUs, packages, settings and workers", value="has the lines as `findings`")
    def _doctor(self) -> View:
        from .doctor import examine

        return examine(self._session.reconnect())

    @_command(
        "show the last N lines (1 to 10,000; default 20) of the logs of the scheduler and of each worker",
        "[--lines N]",
        "has the texts as `logs`, by name",
    )
    def _logs(self, lines: int = 20) -> View:
        return LogsView(self._session.require().log(lines))

    @_command("run every following cell that uses Dask as if %%gpudask stood above it", "[OPTIONS]")
    def _on(self, options: str = "") -> View:
        self._settings.on_options, self._settings.on = options, True
        return Note(describe_on(options))

    @_command("undo %gpudask on")
    def _off(self) -> View:
        was_on, self._settings.on = self._settings.on, False
        return Note("Cells run as usual." if was_on else "%gpudask was not on.")

    @_command(
        "show what has run on the CPU in this kernel because CuPy or cuDF lack it", value="has the rows as `fallbacks`"
    )
    def _fallbacks(self) -> View:
        rows = [
            FallbackRow(place.operation, place.line, blocks, fallback_log.seconds[place], place.reason)
            for place, blocks in fallback_log.blocks.copy().items()
        ]
        if not rows:
            return Note("Nothing has run on the CPU because CuPy or cuDF lack it.")
        return FallbacksView(sorted(rows, key=lambda row: -row.seconds))

    @_command("run pandas and scikit-learn on a GPU, for code that does not use Dask")
    def _accelerate(self) -> View:
        from .accelerate import accelerate

        return accelerate(self._shell, self._session)

    @_command(
        "use a cluster that somebody else started, at tcp://HOST:PORT, tls://HOST:PORT, unix://DIRECTORY:NUMBER or "
        "gateway://NAME",
        "[ADDRESS | --scheduler-file FILE] [--security FILE] [--start-timeout SECONDS]",
        _AS_START,
    )
    def _connect(self, **arguments: str) -> View:
        return ClusterView(self._session.connect(arguments, lambda: None))

    @_command("disconnect from that cluster, which stays as it was")
    def _disconnect(self) -> View:
        address = self._session.disconnect()
        if address:
            return Note(f"Disconnected from {address}.")
        return Note("This kernel is not connected to a cluster of somebody else.")

    @_command("show the commands, and the options of start")
    def _help(self) -> View:
        return Text(f"{commands_help()}\n\nOptions of start and restart:\n{start_help()}")

    @_command("show the versions of this package and of Dask")
    def _version(self) -> View:
        return Note(", ".join(f"{name} {version(name)}" for name in ("jupyter_gpudask", "dask", "distributed")))


def _user_variables(variables: Mapping[str, Any]) -> dict[str, Any]:
    """The variables of the user, without what IPython keeps."""
    return {name: value for name, value in variables.items() if not name.startswith("_") and name not in ("In", "Out")}


def _name_of(dask_worker: Any) -> str:
    return str(dask_worker.name)


def commands_help() -> str:
    """The commands of ``%gpudask``."""
    return two_columns((f"{name} {command.arguments}".strip(), command.help) for name, command in COMMANDS.items())


def start_help() -> str:
    """The options of ``%gpudask start`` and ``restart``, with their defaults."""
    from ..protocol.spec import start_options

    rows = []
    for flag, option in start_options().items():
        head = f"{flag} {f'[{option.metavar}]' if option.value_is_optional else option.metavar}"
        text = option.help + (f" (default: {option.default})" if option.default else "")
        rows.append((head, text + ("; may be repeated" if option.is_repeatable else "")))
    return two_columns(rows)


def parse_line(line: str) -> tuple[str, dict[str, Any]]:
    """Parse the arguments of ``%gpudask``: the name of the command and its arguments; without any it is ``status``."""
    command, _, rest = line.strip().partition(" ")
    if {"--help", "-h"} & set(line.split()):
        return "help", {}
    if command == "on":
        check_on_options(rest)
        return command, {"options": rest.strip()}
    return _parse_command(line)


def _parse_command(line: str) -> tuple[str, dict[str, Any]]:
    from ..protocol.spec import fields_of, start_options  # here, because it imports pydantic

    parser, options = Parser("%gpudask"), start_options()
    parser.add_argument("command", nargs="?", default="status", choices=COMMANDS)
    parser.add_argument("words", nargs="*")
    takers = {"--workers": "start"} | dict.fromkeys(options, "start")
    takers |= {flag: name for name, command in COMMANDS.items() for flag in command.flags if flag not in takers}
    for flag in takers:
        parser.add_argument(flag, **(options[flag].parsing if flag in options else {"dest": flag}))
    given = {name: value for name, value in parse_words(parser, line).items() if value is not None}
    command, words = given.pop("command"), given.pop("words")
    for flag in given:
        if flag not in COMMANDS[command].flags and (command not in ("start", "restart") or takers[flag] != "start"):
            raise usage_error("not-taken", command=command, option=flag, taker=takers[flag])
    arguments = _parse_words(parser, command, words)
    if (lines := given.pop("--lines", None)) is not None:
        most = _limit("send_logs", "lines")
        if not (re.fullmatch("[0-9]+", lines) and 1 <= int(lines) <= most):
            raise usage_error("lines-out-of-range", lines=lines, most=f"{most:,}")
        arguments["lines"] = int(lines)
    if "--release" in given:
        arguments["release"] = names_in(given.pop("--release"))
    if "address" in arguments and "--scheduler-file" in given:
        raise usage_error("address-and-file")
    return command, arguments | fields_of(given)


def _parse_words(parser: Parser, command: str, words: list[str]) -> dict[str, Any]:
    """The words after a command: an address, or the numbers of workers that it takes."""
    if command == "connect" and len(words) <= 1:
        return {"address": words[0]} if words else {}
    wanted = COMMANDS[command].numbers
    for word in words:
        if not wanted or not re.fullmatch("-?[0-9]+", word):
            parser.error(f'%gpudask {command} takes no argument "{word}"')
    numbers = [int(word) for word in words]
    most = min((_limit(command, name) for name in wanted), default=0)
    if len(numbers) != len(wanted) or sorted(numbers) != numbers or not all(1 <= each <= most for each in numbers):
        raise usage_error("numbers", command=command, arguments=COMMANDS[command].arguments, most=most)
    return dict(zip(wanted, numbers, strict=True))


def _limit(verb: str, argument: str) -> int:
    from ..protocol.verbs import VERBS

    limit: int = next(each.le for each in VERBS[verb].command.model_fields[argument].metadata if hasattr(each, "le"))
    return limit


def make_matcher(namespace: Mapping[str, Any]) -> Callable[[CompletionContext], SimpleMatcherResult]:
    """Create a matcher for IPython's completer.

    It suppresses other matchers in lines of these magics, because Jedi would complete the line as Python.
    """

    def match(context: CompletionContext) -> SimpleMatcherResult:
        found = _MAGIC.fullmatch(context.text_until_cursor)
        if found is None or (not found["sign"] and "gpudask" in namespace):
            return {"completions": [], "suppress": False}
        *before, typed = re.split(r"[\s=]+", found["rest"])
        typed = typed.rpartition(",")[2]
        words = _cell_words(before, namespace) if found["sign"] == "%%" else _line_words(before, namespace)
        return {
            "completions": [SimpleCompletion(word, type="magic") for word in words if word.startswith(typed)],
            "matched_fragment": typed,
            "ordered": True,
            "suppress": True,
        }

    matcher: Callable[[CompletionContext], SimpleMatcherResult]
    matcher = context_matcher(identifier="jupyter_gpudask", priority=_PRIORITY)(match)
    return matcher


def _cell_words(before: list[str], namespace: Mapping[str, Any]) -> Iterable[str]:
    """The words that may follow the arguments `before` of ``%%gpudask``."""
    last = before[-1] if before else ""
    if last == "--move":
        return ["all", *_collections(namespace)]
    if last.startswith("--") and not (last in CELL_OPTIONS and not CELL_OPTIONS[last].metavar):
        return CELL_OPTIONS[last].choices if last in CELL_OPTIONS else ()
    return [option for option in CELL_OPTIONS if option not in before]


def _line_words(before: list[str], namespace: Mapping[str, Any]) -> Iterable[str]:
    """The words that may follow the arguments `before` of ``%gpudask``."""
    from ..protocol.spec import start_options

    last, options = before[-1] if before else "", start_options()
    if last in options and not options[last].value_is_optional:
        return options[last].words
    if last == "--release":
        return _collections(namespace)
    if any(last in command.flags for command in COMMANDS.values()):
        return ()
    command = next((word for word in before if word in COMMANDS), None)
    if command == "on":
        values = {flag: option.choices for flag, option in CELL_OPTIONS.items() if option.choices} | {
            "--move": ("all",)
        }
        return values.get(last, [option for option in ON_OPTIONS if option not in before])
    return _command_words(command, before)


def _command_words(command: str | None, before: list[str]) -> Iterable[str]:
    from ..protocol.spec import start_options

    if command is None:
        return COMMANDS
    if command in ("start", "restart"):
        options = start_options().items()
        return [flag for flag, option in options if flag not in before or option.is_repeatable]
    return [flag for flag in COMMANDS[command].flags if flag not in before]


def _collections(namespace: Mapping[str, Any]) -> list[str]:
    is_collection = getattr(sys.modules.get("dask.base"), "is_dask_collection", None)  # another thread may import it
    if is_collection is None:
        return []
    names = [name for name, value in namespace.items() if not name.startswith("_") and is_collection(value)]
    return sorted(names)
