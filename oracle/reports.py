"""The command lines of the oracle's programs, and their reports: JSON, and a page of markdown."""

from __future__ import annotations

import argparse
import os
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

sys.path.append(str(Path(__file__).parents[1] / "benchmarks"))
from harness import gpu_names, header, publish
from sides import has_stand_in

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

ONE_THREAD = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS")


def parser(description: str | None, *, limit: float = 60.0, seconds: float | None = None) -> argparse.ArgumentParser:
    """The options of the programs; those of one that can be cut short and continued, if there are `seconds` for it."""
    made = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    gpu = bool(gpu_names())
    stand_in = any(Path(folder).name == "fake_cupy" for folder in sys.path)
    made.add_argument("--array", choices=["cupy", "numpy"], default="cupy" if gpu or stand_in else "numpy")
    with_cudf = gpu or has_stand_in()
    made.add_argument("--dataframe", choices=["cudf", "pandas"], default="cudf" if with_cudf else "pandas")
    made.add_argument("--processes", type=int, default=max(1, min(16, os.cpu_count() or 1)), help="pairs of them")
    made.add_argument("--limit", type=float, default=limit, help="seconds for one run of a part")
    if seconds is not None:
        made.add_argument("--seconds", type=float, default=seconds, help="for all of it; what is left is not run")
        help_ = "written as the parts run; one that exists is continued"
        made.add_argument("--rows", type=Path, metavar="FILE", help=help_)
    help_ = "exit with an error if fewer of what was compared agree"
    made.add_argument("--least", type=float, metavar="PERCENT", help=help_)
    made.add_argument("--out", type=Path, help="the JSON file to write")
    made.add_argument("--table", type=Path, help="the markdown file to write")
    return made


def percent(part: int, whole: int) -> float | None:
    """How many of the whole, in percent with one decimal place."""
    return round(100 * part / whole, 1) if whole else None


def finish(
    arguments: argparse.Namespace,
    title: str,
    report: dict[str, Any],
    parts: Iterable[str],
    *,
    hide: str,
    agree: float | None,
) -> None:
    """Print the report without its long part `hide`, and write it, and a page with its ``counts`` and the `parts`.

    Ends the program with an error if a smaller part than ``--least`` agrees, or nothing was compared.
    """
    report = header() | report
    publish(report, arguments.out, hide=hide)
    if arguments.table:
        arguments.table.write_text(page(title, report, parts))
    if arguments.least is not None and (agree is None or agree < arguments.least):
        sys.exit(f"{'Nothing was compared' if agree is None else f'{agree} % agree'}, {arguments.least} % must.")


def page(title: str, report: Mapping[str, Any], parts: Iterable[str]) -> str:
    """A page of markdown: where it ran, the counts, and the other lines."""
    facts = ", ".join(f"{name} {version}" for name, version in report["versions"].items())
    where = f"{', '.join(report['gpus']) or 'No GPU'}, {report['date']}; {facts}."
    counts = {name: count for name, count in report["counts"].items() if not isinstance(count, dict | list)}
    lines = [f"# {title}", "", f"{where} `{report['command']}`, {report['seconds']:.0f} s", ""]
    return "\n".join([*lines, *rows_of(("", ""), counts.items()), *parts]) + "\n"


def rows_of(head: Iterable[str], rows: Iterable[Iterable[Any]]) -> Iterator[str]:
    """The lines of a table, and an empty one."""
    names = list(head)
    yield f"| {' | '.join(names)} |"
    yield "|---" * len(names) + "|"
    for row in rows:
        yield f"| {' | '.join(str(cell) for cell in row)} |"
    yield ""


def cell(text: str) -> str:
    """A text in a cell of a table."""
    return re.sub(r"\s+", " ", text)[:500].replace("|", "\\|").replace("<", "&lt;")
