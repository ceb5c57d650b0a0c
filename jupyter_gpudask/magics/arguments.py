"""The options of ``%%gpudask``, declared once, and the parser of both magics.

Completion, help and the reference in the documentation are made from the declaration, too.
"""

from __future__ import annotations

import re
import shlex
import textwrap
from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from functools import lru_cache
from typing import Any, Literal, NoReturn

from IPython.core.error import UsageError
from IPython.core.magic_arguments import MagicArgumentParser

from ..errors import ArgumentsError, GpuDaskError

ARRAYS = ("cupy", "numpy")
DATAFRAMES = ("cudf", "pandas")
RESULTS = ("host", "gpu")

_COLUMN, _WIDTH = 23, 110


@dataclass(frozen=True)
class CellOption:
    """An option of ``%%gpudask``."""

    help: str  # what it does
    metavar: str = ""  # stands for the value in the help; empty if the option has none
    choices: tuple[str, ...] = ()  # the values that it can have; empty if it can have others
    default: str = ""  # the value without the option, if it is one of the choices and does not depend on a setting
    for_one_cell: bool = False  # whether it makes sense for one cell only, and not after ``%gpudask on``


CELL_OPTIONS = {
    "--array": CellOption("the library of new Dask arrays: cupy or numpy", "NAME", ARRAYS, "cupy"),
    "--dataframe": CellOption("the library of new Dask dataframes: cudf or pandas", "NAME", DATAFRAMES, "cudf"),
    "--move": CellOption("move these collections from outside the cell to the GPUs for the cell: x,df or all", "NAMES"),
    "--results": CellOption(
        "where the results of compute() are: host, as NumPy and pandas objects, or gpu, as CuPy and cuDF objects "
        "on the GPU of the kernel",
        "WHERE",
        RESULTS,
    ),
    "--strict": CellOption("refuse operations that CuPy or cuDF lack, instead of computing them on the CPU"),
    "--profile": CellOption("show what each operation cost on the cluster, and advice"),
    "--report": CellOption("write Dask's performance report of the cell to an HTML file", "FILE", for_one_cell=True),
    "--compare": CellOption(
        "also run the cell on the CPU, with copies of the variables, and compare times and results", for_one_cell=True
    ),
}
"""The options of ``%%gpudask``."""

ON_OPTIONS = tuple(flag for flag, option in CELL_OPTIONS.items() if not option.for_one_cell)
"""The options of ``%gpudask on``."""


def as_usage_error(error: GpuDaskError) -> UsageError:
    """What IPython shows as one sentence; its last line is the address of the error, if there is one."""
    return UsageError("\n".join(filter(None, [str(error), error.address])))


def usage_error(code: str, /, **fields: Any) -> UsageError:
    """The error of arguments that has this code in the catalog."""
    return as_usage_error(ArgumentsError(code, **fields))


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


class Parser(MagicArgumentParser):
    """The parser of a magic, whose errors name what may be meant."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog=prog, add_help=False)
        self.allow_abbrev = False
        self._known: list[str] = []
        self._words: list[str] = []

    def add_argument(self, *names: Any, **options: Any) -> Any:
        """Add an argument, as argparse does."""
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
        """Raise the error for arguments that argparse refuses."""
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


@lru_cache  # it takes longer than an empty cell
def parse_cell(line: str) -> CellArguments:
    """Parse the arguments of ``%%gpudask``."""
    parser = Parser("%%gpudask")
    for flag, option in CELL_OPTIONS.items():
        if option.choices:
            parser.add_argument(flag, choices=option.choices, default=option.default or None)
        elif option.metavar:
            parser.add_argument(flag)
        else:
            parser.add_argument(flag, action="store_true")
    given = parse_words(parser, line)
    for other in ("report", "profile"):
        if given["compare"] and given[other]:
            raise usage_error("compare-with", other=other)
    move = names_in(given.pop("move") or "")
    return CellArguments(**given, move=move)


def check_on_options(line: str) -> None:
    """Check the options of ``%gpudask on``, some of which make sense for one cell only."""
    parsed = parse_cell(line)
    if parsed.compare or parsed.report is not None:
        option = "--compare" if parsed.compare else "--report"
        raise usage_error("not-for-all-cells", option=option)
    if parsed.move not in ((), ("all",)):
        raise usage_error("move-not-for-all-cells", names=",".join(parsed.move))


def parse_words(parser: Parser, line: str) -> dict[str, Any]:
    """Parse the arguments of a magic; of those that were not typed, the values are `None` or defaults."""
    try:
        words = shlex.split(line)
    except ValueError as error:
        if comment := re.search(r"(?:^|\s)(#.*)", line):  # with an apostrophe
            parser.refuse_comment(comment[1])
        raise usage_error("quotation", error=error) from None
    return parser.parse(words)


def names_in(text: str) -> tuple[str, ...]:
    """Names with commas between them."""
    return tuple(name.strip() for name in text.split(",") if name.strip())


def cell_help() -> str:
    """The options of ``%%gpudask``."""
    rows = []
    for flag, option in CELL_OPTIONS.items():
        default = f" (default: {option.default})" if option.default else ""
        rows.append((f"{flag} {option.metavar}".rstrip(), option.help + default))
    return two_columns(rows)


def two_columns(rows: Iterable[tuple[str, str]]) -> str:
    """Lines of two columns, the second of which is wrapped."""
    lines = []
    for head, text in rows:
        wrapped = textwrap.wrap(text, _WIDTH - _COLUMN, break_on_hyphens=False)
        if len(head) >= _COLUMN:
            wrapped.insert(0, "")
        margins = [head, *[""] * (len(wrapped) - 1)]
        lines += [f"{left:<{_COLUMN}}{right}".rstrip() for left, right in zip(margins, wrapped, strict=True)]
    return "\n".join(lines)
