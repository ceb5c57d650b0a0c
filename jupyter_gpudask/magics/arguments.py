"""What can be typed after ``%gpudask`` and ``%%gpudask``, parsed once; `ClusterSpec` checks the values."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NoReturn

from IPython.core.error import UsageError
from IPython.core.magic_arguments import MagicArgumentParser

if TYPE_CHECKING:
    from argparse import Namespace

START_OPTIONS = {
    "--gpus": "which GPUs: all, a count, or indices and UUIDs with commas (0,3 or GPU-5a0c...)",
    "--pool": "device memory that RMM reserves on each GPU: a fraction, a size such as 20GB, or none",
    "--spilling": "who moves data off a full GPU: dask, cudf or off",
    "--spill-threshold": "device memory above which results move to the host: a fraction or a size; no cap",
    "--memory-limit": "host memory of each worker: auto, a fraction, a size or none",
    "--threads": "threads of each worker",
    "--share": "whether other clusters that share too may hold the same GPUs: yes or no",
    "--protocol": "how workers talk: tcp (with TLS) or ucx (NVLink, InfiniBand; no TLS)",
    "--resources": "Dask resources of each worker, such as GPU=1; may be repeated",
    "--environment": "a variable NAME=VALUE for each worker; may be repeated",
    "--start-timeout": "seconds in which all workers must be up",
    "--engine": "auto, cuda or cpu",
    "--dashboard": "whether browsers can open Dask's dashboard, where no Jupyter server shows it: yes or no",
    "--profile": "a profile of the Jupyter server, by its name",
}
"""Options of ``%gpudask start`` that take one value, with what each means."""

COMMANDS = {
    "start": "start this kernel's cluster",
    "stop": "close it and free the GPUs",
    "restart": "close it and start it anew, with other options if you give some",
    "scale": "have another number of workers: %gpudask scale 2",
    "status": "what its workers are doing",
    "gpus": "the GPUs of this machine, and who holds them",
    "free": "give back device memory that is held without need",
    "doctor": "check driver, packages, GPUs and workers",
    "logs": "the last lines that its workers logged",
}
"""What ``%gpudask`` can do, with what each means."""

ARRAYS = ("cupy", "numpy")
DATAFRAMES = ("cudf", "pandas")

REPEATED_OPTIONS = frozenset({"--resources", "--environment"})
"""Those of them that may be given several times."""


@dataclass(frozen=True)
class LineArguments:
    """A ``%gpudask`` line: the command, and the options of the spec that were given."""

    command: str
    options: dict[str, Any]
    lines: int
    number: int | None


CELL_OPTIONS = {
    "--array": "cupy or numpy",
    "--dataframe": "cudf or pandas",
    "--move": "collections from outside the cell that are moved to the GPUs for it: x,df or all",
    "--to-host": "give results as NumPy and pandas",
    "--report": "write Dask's performance report to this file",
    "--compare": "run the cell on the CPU as well, and compare times and results",
}
"""Options of ``%%gpudask``, with what each means."""


@dataclass(frozen=True)
class CellArguments:
    """A ``%%gpudask`` line: the backends of the cell, and what else is done with it."""

    array: Literal["cupy", "numpy"]
    dataframe: Literal["cudf", "pandas"]
    move: tuple[str, ...]
    to_host: bool
    report: str | None
    compare: bool


class _Parser(MagicArgumentParser):
    def __init__(self, prog: str) -> None:
        super().__init__(prog=prog, add_help=False)
        self.allow_abbrev = False

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message[:1].upper()}{message[1:]}. Type {self.prog}? for help.")


def parse_line(line: str) -> LineArguments:
    """Read what stands after ``%gpudask``; nothing means ``status``.

    Raises
    ------
    IPython.core.error.UsageError
        It cannot be read.
    """
    parser = _Parser("%gpudask")
    parser.add_argument("command", nargs="?", default="status", choices=list(COMMANDS))
    parser.add_argument("number", nargs="?", type=int)
    parser.add_argument("--cpu", nargs="?", const="")
    parser.add_argument("--lines", default=20, type=int)
    parser.add_argument("--dashboard", nargs="?", const="yes")
    for option in START_OPTIONS.keys() - {"--dashboard"}:
        parser.add_argument(option, action="append" if option in REPEATED_OPTIONS else "store")
    given = _parsed(parser, line)
    given = {name: value for name, value in given.items() if value is not None}
    command, lines, number = given.pop("command"), given.pop("lines"), given.pop("number", None)
    if (number is None) == (command == "scale"):
        raise UsageError(
            "Say how many workers: %gpudask scale 2" if number is None else f"%gpudask {command} takes no number."
        )
    if "cpu" in given:
        workers = given.pop("cpu")
        given |= {"engine": "cpu"} | ({"workers": workers} if workers else {})
    if given and command not in ("start", "restart"):
        raise UsageError(f"%gpudask {command} takes no such options; they belong to %gpudask start.")
    return LineArguments(command, given, lines, number)


def parse_cell(line: str) -> CellArguments:
    """Read what stands after ``%%gpudask``.

    Raises
    ------
    IPython.core.error.UsageError
        It cannot be read.
    """
    parser = _Parser("%%gpudask")
    parser.add_argument("--array", choices=ARRAYS, default="cupy")
    parser.add_argument("--dataframe", choices=DATAFRAMES, default="cudf")
    parser.add_argument("--move", default="")
    parser.add_argument("--to-host", action="store_true")
    parser.add_argument("--report")
    parser.add_argument("--compare", action="store_true")
    given = _parsed(parser, line)
    if given["compare"] and given["report"]:
        raise UsageError("--compare runs the cell twice and writes no report. Leave one of the two out.")
    names = tuple(name.strip() for name in given.pop("move").split(",") if name.strip())
    return CellArguments(**given, move=names)


def _parsed(parser: _Parser, line: str) -> dict[str, Any]:
    try:
        words = shlex.split(line)
    except ValueError as error:
        raise UsageError(f"Cannot read the line: {error}.") from None
    parsed: Namespace = parser.parse_args(words)
    return vars(parsed)
