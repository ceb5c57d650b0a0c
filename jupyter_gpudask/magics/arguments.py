"""Parse and complete the arguments of ``%gpudask`` and ``%%gpudask``; `ClusterSpec` validates those of clusters."""

from __future__ import annotations

import re
import shlex
import sys
from dataclasses import dataclass
from difflib import get_close_matches
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal, NoReturn

from IPython.core.completer import SimpleCompletion, context_matcher
from IPython.core.error import UsageError
from IPython.core.magic_arguments import MagicArgumentParser

from ..errors import ArgumentsError, GpuDaskError
from .declarations import CELL_OPTIONS, COMMANDS, CONNECT_OPTIONS, ON_OPTIONS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from IPython.core.completer import CompletionContext, SimpleMatcherResult

_MAX_WORKERS = 256
_LINES = 20
_MOST_LINES = 10_000
_PRIORITY = 1000
_MAGIC = re.compile(r"\s*(?:(?:[\w\s,.*()\[\]]+=\s*)?(?P<sign>%{1,2}))?gpudask\s(?P<rest>.*)", re.DOTALL)


def as_usage_error(error: GpuDaskError) -> UsageError:
    """What IPython shows as one sentence; its last line is the address of the error, if there is one."""
    return UsageError("\n".join(filter(None, [str(error), error.address])))


def usage_error(code: str, /, **fields: Any) -> UsageError:
    """The error of arguments that has this code in the catalog."""
    return as_usage_error(ArgumentsError(code, **fields))


@dataclass(frozen=True)
class LineArguments:
    """The arguments of ``%gpudask``."""

    command: str  # one of `COMMANDS`
    # the options of the cluster that were given, by field of `ClusterSpec`; of ``connect``, the arguments of
    # `jupyter_gpudask.session.joined_target.parse_target`
    options: dict[str, Any]
    lines: int  # the value of ``--lines``
    # number, maximum: the number of workers of ``scale``; the smallest and the largest one of ``adapt``
    number: int | None
    cell: str = ""  # the options of ``on``, as they were typed
    release: tuple[str, ...] = ()  # the variables that ``held`` deletes
    maximum: int | None = None


@dataclass(frozen=True)
class CellArguments:
    """The arguments of ``%%gpudask``."""

    array: Literal["cupy", "numpy"]
    dataframe: Literal["cudf", "pandas"]
    move: tuple[str, ...]
    results: Literal["host", "gpu"] | None
    profile: bool
    report: str | None
    compare: bool
    strict: bool

    @property
    def libraries(self) -> tuple[str, ...]:
        """The GPU libraries that the workers need."""
        frames = ("cudf", "dask_cudf") if self.dataframe == "cudf" else ()
        return ("cupy", *frames) if self.array == "cupy" else frames


class _Parser(MagicArgumentParser):
    def __init__(self, prog: str) -> None:
        super().__init__(prog=prog, add_help=False)
        self.allow_abbrev = False
        self._known: list[str] = []
        self._words: list[str] = []

    def add_argument(self, *names: Any, **options: Any) -> Any:
        self._known += [*(name for name in names if name.startswith("-")), *options.get("choices", ())]
        return super().add_argument(*names, **options)

    def parse(self, words: list[str]) -> dict[str, Any]:
        """The values of the arguments, by name."""
        self._words = words
        spaced = re.search(r"(\S+,) +(\d\S*)", " ".join(self._words))
        if spaced:
            raise usage_error("space-after-comma", text=spaced[0], joined=spaced[1] + spaced[2])
        return vars(self.parse_args(words))

    def error(self, message: str) -> NoReturn:
        comment = next((index for index, word in enumerate(self._words) if word.startswith("#")), None)
        if comment is not None:
            self.refuse_comment(" ".join(self._words[comment:]))
        unknown = [word.partition("=")[0] for word in self._words if word.partition("=")[0] not in self._known]
        meant = next((match for word in unknown if (match := self._nearest(word))), None)
        if meant:
            message = message.partition(" (choose from")[0]
        raise usage_error(
            "misspelt-arguments" if meant else "unrecognized-arguments",
            message=message[:1].upper() + message[1:],
            meant=meant or "",
            magic=self.prog,
        )

    def refuse_comment(self, comment: str) -> NoReturn:
        """Raise the error for a comment, which IPython does not remove from the line of a magic."""
        raise usage_error("comment", magic=self.prog, comment=comment)

    def _nearest(self, word: str) -> str | None:
        """What a word may stand for: its only completion, or else the most similar one; none for ``help``."""
        if word.lower() in self._known:
            return word.lower()
        completions = [known for known in self._known if known.startswith(word)]
        if len(completions) == 1:
            return completions[0]
        match = next(iter(get_close_matches(word, ["help", "--help", *self._known], 1, 0.7)), "help")
        return None if match.endswith("help") else match


def parse_line(line: str) -> LineArguments:
    """Parse the arguments of ``%gpudask``; without any the command is ``status``."""
    command, _, rest = line.strip().partition(" ")
    if {"--help", "-h"} & set(line.split()):
        return LineArguments("help", {}, 0, None)
    if command == "on":
        check_on_options(rest)
        return LineArguments(command, {}, 0, None, rest.strip())
    return _parse_connect(line) if command == "connect" else _parse_command(line)


def _parse_command(line: str) -> LineArguments:
    """Parse the arguments of a command for the cluster."""
    from ..protocol.spec import flag_of, start_options  # here, because it imports pydantic

    parser = _Parser("%gpudask")
    parser.add_argument("command", nargs="?", default="status", choices=COMMANDS)
    parser.add_argument("numbers", nargs="*")
    parser.add_argument("--workers", dest="count")
    parser.add_argument("--lines")
    parser.add_argument("--release", default="")
    for flag, option in start_options().items():
        if option.is_repeatable:
            parser.add_argument(flag, dest=option.field, action="append")
        elif option.value_is_optional:
            parser.add_argument(flag, dest=option.field, nargs="?", const="")
        else:
            parser.add_argument(flag, dest=option.field)
    given = {name: value for name, value in _parse_words(parser, line).items() if value is not None}
    command, lines = given.pop("command"), given.pop("lines", None)
    number, maximum = _numbers_of_workers(command, _integers(parser, command, given.pop("numbers")))
    release = _names(given.pop("release"))
    if command != "held" and release:
        raise usage_error("release-not-taken", command=command, names=",".join(release))
    if lines is not None and command != "logs":
        raise usage_error("lines-not-taken", command=command, lines=lines)
    if lines is not None and not (re.fullmatch("[0-9]+", lines) and 1 <= int(lines) <= _MOST_LINES):
        raise usage_error("lines-out-of-range", lines=lines, most=f"{_MOST_LINES:,}")
    if given and command not in ("start", "restart"):
        raise usage_error(
            "options-of-start", command=command, option="--workers" if "count" in given else flag_of(next(iter(given)))
        )
    return LineArguments(
        command,
        _fill_in(given),
        _LINES if lines is None else int(lines),
        number,
        release=release,
        maximum=maximum,
    )


def _integers(parser: _Parser, command: str, words: list[str]) -> list[int]:
    """The words after a command, which are numbers or a mistake."""
    for word in words:
        if not re.fullmatch("-?[0-9]+", word):
            parser.error(f'%gpudask {command} takes no argument "{word}"')
    return [int(word) for word in words]


def _numbers_of_workers(command: str, numbers: list[int]) -> tuple[int | None, int | None]:
    """The numbers of ``scale`` and ``adapt``, which no other command takes."""
    wanted = {"scale": 1, "adapt": 2}.get(command, 0)
    if numbers and not wanted:
        raise usage_error("number-not-taken", command=command, number=numbers[0])
    if len(numbers) != wanted:
        if command == "scale":
            raise usage_error("one-number")
        raise usage_error("two-numbers")
    for number in numbers:
        if not 1 <= number <= _MAX_WORKERS:
            raise usage_error("workers-out-of-range", command=command, workers=number, most=_MAX_WORKERS)
    if sorted(numbers) != numbers:
        raise usage_error("wrong-order", minimum=numbers[0], maximum=numbers[1])
    return (*numbers, None, None)[0], (*numbers, None, None)[1]


def _names(text: str) -> tuple[str, ...]:
    """Names with commas between them."""
    return tuple(name.strip() for name in text.split(",") if name.strip())


def _fill_in(given: dict[str, Any]) -> dict[str, Any]:
    """The options with the values that they have if they are typed without one."""
    count = given.pop("count", None)
    if "workers" in given:  # from --cpu, with or without a number
        given["engine"] = "cpu"
        if not given["workers"]:
            del given["workers"]
    if count is not None:
        given["workers"] = count
    for name in {"dashboard", "wait"} & given.keys():
        given[name] = given[name] or "yes"
    return given


def _parse_connect(line: str) -> LineArguments:
    parser = _Parser("%gpudask")
    parser.add_argument("command")
    parser.add_argument("address", nargs="?")
    for option in CONNECT_OPTIONS:
        parser.add_argument(option)
    given = {name: value for name, value in _parse_words(parser, line).items() if value is not None}
    command = given.pop("command")
    if {"address", "scheduler_file"} <= given.keys():
        raise usage_error("address-and-file")
    return LineArguments(command, given, lines=0, number=None)


@lru_cache  # it takes longer than an empty cell
def parse_cell(line: str) -> CellArguments:
    """Parse the arguments of ``%%gpudask``."""
    parser = _Parser("%%gpudask")
    for flag, option in CELL_OPTIONS.items():
        if option.choices:
            parser.add_argument(flag, choices=option.choices, default=option.default or None)
        elif option.metavar:
            parser.add_argument(flag)
        else:
            parser.add_argument(flag, action="store_true")
    given = _parse_words(parser, line)
    for other in ("report", "profile"):
        if given["compare"] and given[other]:
            raise usage_error("compare-with", other=other)
    move = _names(given.pop("move") or "")
    return CellArguments(**given, move=move)


def check_on_options(line: str) -> None:
    """Check the options of ``%gpudask on``, some of which make sense for one cell only."""
    parsed = parse_cell(line)
    if parsed.compare or parsed.report is not None:
        option = "--compare" if parsed.compare else "--report"
        raise usage_error("not-for-all-cells", option=option)
    if parsed.move not in ((), ("all",)):
        raise usage_error("move-not-for-all-cells", names=",".join(parsed.move))


def _parse_words(parser: _Parser, line: str) -> dict[str, Any]:
    try:
        words = shlex.split(line)
    except ValueError as error:
        if comment := re.search(r"(?:^|\s)(#.*)", line):  # with an apostrophe
            parser.refuse_comment(comment[1])
        raise usage_error("quotation", error=error) from None
    return parser.parse(words)


_CELL_VALUES = {flag: option.choices for flag, option in CELL_OPTIONS.items() if option.choices}
_CELL_FLAGS = frozenset(flag for flag, option in CELL_OPTIONS.items() if not option.metavar)  # these take no value


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
    if last.startswith("--") and last not in _CELL_FLAGS:
        return _CELL_VALUES.get(last, ())
    return [option for option in CELL_OPTIONS if option not in before]


def _line_words(before: list[str], namespace: Mapping[str, Any]) -> Iterable[str]:
    """The words that may follow the arguments `before` of ``%gpudask``."""
    from ..protocol.spec import start_options

    last, options = before[-1] if before else "", start_options()
    if last in options and not options[last].value_is_optional:
        return options[last].words
    if last == "--release":
        return _collections(namespace)
    if last in ("--lines", *CONNECT_OPTIONS):
        return ()
    command = next((word for word in before if word in COMMANDS), None)
    if command == "on":
        values = _CELL_VALUES | {"--move": ("all",)}
        return values.get(last, [option for option in ON_OPTIONS if option not in before])
    return _command_words(command, before)


def _command_words(command: str | None, before: list[str]) -> Iterable[str]:
    """The words that may follow a command for the cluster."""
    from ..protocol.spec import start_options

    if command is None:
        return COMMANDS
    if command in ("start", "restart"):
        options = start_options().items()
        return [flag for flag, option in options if flag not in before or option.is_repeatable]
    flags = {"logs": ("--lines",), "held": ("--release",), "connect": CONNECT_OPTIONS}.get(command, ())
    return [flag for flag in flags if flag not in before]


def _collections(namespace: Mapping[str, Any]) -> list[str]:
    dask = sys.modules.get("dask.base")
    if dask is None:
        return []
    names = [name for name, value in namespace.items() if not name.startswith("_") and dask.is_dask_collection(value)]
    return sorted(names)
