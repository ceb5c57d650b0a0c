"""The outcomes of all docstrings, as counts and as a table."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from .judge import AGREE, LEFT_OUT

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .judge import Row


def counts(rows: Sequence[Row]) -> dict[str, Any]:
    """How many docstrings came out how; and what stands behind them."""
    run = [row for row in rows if row.outcome != LEFT_OUT]
    return {
        "docstrings": len(rows),
        "run on the CPU": len(run),
        **Counter(row.outcome for row in rows),
        "agree, on the GPU": sum(row.outcome == AGREE and row.on_gpu > 0 for row in rows),
        "examples run": sum(row.ran for row in run),
        "values compared": sum(row.compared for row in run),
        "values from the GPU": sum(row.on_gpu for row in run),
    }


def table(rows: Sequence[Row], heading: str, introduction: Sequence[str]) -> str:
    """A page of markdown, with one line for each docstring that ran, and then those that did not."""
    lines = [f"# {heading}", "", *introduction, ""]
    lines += ["| | |", "|---|---|", *(f"| {name} | {count} |" for name, count in counts(rows).items()), ""]
    lines += ["| docstring | outcome | examples run | values, of these on the GPU | note |", "|---|---|---|---|---|"]
    for row in rows:
        if row.outcome != LEFT_OUT:
            random = "dtypes and shapes of random values" if row.random else ""
            stayed = f"stays on the CPU: `{row.stayed}`" if row.stayed and row.on_gpu else ""
            note = _cell("; ".join(filter(None, [row.note, stayed, random])))
            examples, values = f"{row.ran} of {row.examples}", f"{row.compared}, {row.on_gpu}"
            lines.append(f"| `{row.name}` | {row.outcome} | {examples} | {values} | {note} |")
    lines += ["", "Left out, because no example runs on the CPU or none computes anything with Dask:", ""]
    lines += ["| docstring | the first reason |", "|---|---|"]
    lines += [f"| `{row.name}` | {_cell(row.note)} |" for row in rows if row.outcome == LEFT_OUT]
    return "\n".join(lines) + "\n"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ").replace("<", "&lt;")
