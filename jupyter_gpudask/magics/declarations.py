"""The commands of ``%gpudask`` and the options of ``%%gpudask``, declared once, and their help.

The parser, the completion and the reference in the documentation are made from them, too. The options of
``%gpudask start`` are those of `ClusterSpec`.
"""

from __future__ import annotations

import textwrap
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

TEXT = "a line of text"

_AS_START = "as for `start`"
_STATE = "has the metrics as `state`"
ARRAYS = ("cupy", "numpy")
DATAFRAMES = ("cudf", "pandas")
RESULTS = ("host", "gpu")
CONNECT_OPTIONS = ("--scheduler-file", "--security", "--start-timeout")
"""The options of ``%gpudask connect``."""

_COLUMN, _WIDTH = 23, 110


@dataclass(frozen=True)
class Command:
    """A command of ``%gpudask``."""

    help: str  # what it does
    arguments: str = ""  # what follows the command
    value: str = TEXT  # what the value of the magic is


@dataclass(frozen=True)
class CellOption:
    """An option of ``%%gpudask``."""

    help: str  # what it does
    metavar: str = ""  # stands for the value in the help; empty if the option has none
    choices: tuple[str, ...] = ()  # the values that it can have; empty if it can have others
    default: str = ""  # the value without the option, if it is one of the choices and does not depend on a setting
    for_one_cell: bool = False  # whether it makes sense for one cell only, and not after ``%gpudask on``


COMMANDS = {
    "start": Command(
        "start the cluster, or report that it is already running; without a GPU, a CPU cluster",
        "[OPTIONS]",
        "has the Dask client as `client`",
    ),
    "stop": Command("close the cluster, if there is one, and release the GPUs"),
    "restart": Command(
        "close the cluster and start a new one with the same options, changed by those given",
        "[OPTIONS]",
        _AS_START,
    ),
    "scale": Command("add or retire workers until there are N", "N", _STATE),
    "adapt": Command(
        "let Dask close idle workers and start them when there is work, from MIN to MAX", "MIN MAX", _STATE
    ),
    "status": Command("show the state of each worker", value=_STATE),
    "gpus": Command(
        "show the GPUs of the machine, the clusters that hold them, and their processes",
        value="has the metrics as `gpus`, and the clusters by UUID as `holders`",
    ),
    "held": Command(
        "show the results that are held on the workers; --release x,df deletes these variables",
        "[--release NAMES]",
        "has the bytes as `total`, by worker as `workers`, and by variable as `variables`",
    ),
    "keep": Command("keep the GPUs of an idle cluster, although somebody waits for them"),
    "free": Command(
        "release device memory that is held but not used", value="has the released bytes as `freed`, by GPU"
    ),
    "doctor": Command(
        "check the driver, the GPUs, packages, settings and workers", value="has the lines as `findings`"
    ),
    "logs": Command(
        "show the last N lines (1 to 10,000; default 20) of the logs of the scheduler and of each worker",
        "[--lines N]",
        "has the texts as `logs`, by name",
    ),
    "on": Command("run every following cell that uses Dask as if %%gpudask stood above it", "[OPTIONS]"),
    "off": Command("undo %gpudask on"),
    "fallbacks": Command(
        "show what has run on the CPU in this kernel because CuPy or cuDF lack it",
        value="has the rows as `fallbacks`",
    ),
    "accelerate": Command("run pandas and scikit-learn on a GPU, for code that does not use Dask"),
    "connect": Command(
        "use a cluster that somebody else started, at tcp://HOST:PORT, tls://HOST:PORT or gateway://NAME",
        "[ADDRESS] [--security FILE] | --scheduler-file FILE",
        _AS_START,
    ),
    "disconnect": Command("disconnect from that cluster, which stays as it was"),
    "help": Command("show the commands, and the options of start"),
    "version": Command("show the versions of this package and of Dask"),
}
"""The commands of ``%gpudask``."""

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


def commands_help() -> str:
    """The commands of ``%gpudask``."""
    return _two_columns((f"{name} {command.arguments}".strip(), command.help) for name, command in COMMANDS.items())


def start_help() -> str:
    """The options of ``%gpudask start`` and ``restart``, with their defaults."""
    from ..protocol.spec import start_options

    rows = []
    for flag, option in start_options().items():
        head = f"{flag} {f'[{option.metavar}]' if option.value_is_optional else option.metavar}"
        text = option.help + (f" (default: {option.default})" if option.default else "")
        rows.append((head, text + ("; may be repeated" if option.is_repeatable else "")))
    return _two_columns(rows)


def cell_help() -> str:
    """The options of ``%%gpudask``."""
    rows = []
    for flag, option in CELL_OPTIONS.items():
        default = f" (default: {option.default})" if option.default else ""
        rows.append((f"{flag} {option.metavar}".rstrip(), option.help + default))
    return _two_columns(rows)


def _two_columns(rows: Iterable[tuple[str, str]]) -> str:
    lines = []
    for head, text in rows:
        wrapped = textwrap.wrap(text, _WIDTH - _COLUMN, break_on_hyphens=False)
        if len(head) >= _COLUMN:
            wrapped.insert(0, "")
        margins = [head, *[""] * (len(wrapped) - 1)]
        lines += [f"{left:<{_COLUMN}}{right}".rstrip() for left, right in zip(margins, wrapped, strict=True)]
    return "\n".join(lines)
