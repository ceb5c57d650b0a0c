"""The outcomes of all docstrings, as counts and as a table."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, Any

from .judge import AGREE, DIFFER, FAILS, LEFT_OUT

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .judge import Row


CAUSES = {
    r"^da\.ma\.": "CuPy has no masked arrays",
    r"^da\.isinf$": "Dask on the CPU writes the result into the constants of its graph",
    r"^da\.random\.(Generator\.integers|randint)$": "Dask on the CPU gives one number where NumPy gives three",
    r"^dd\.(SeriesGroupBy\.unique|DataFrame\.to_html|Series\.dt\.to_pytimedelta)$": "the same in another form",
    r"Unsupported type <class 'numpy\.ndarray'>|MixedBackendsError": "NumPy's data, or a list, beside blocks of CuPy",
    r"Implicit conversion to a (host )?NumPy array": "something made only for NumPy is given data of the GPU",
    r"(Unsupported dtype|not supported).*(object|str|datetime|timedelta)": "CuPy has numbers alone",
    r"took over|process died": "no end within the limit, or a crash",
    r"NotImplemented|[Nn]ot implemented|[Nn]ot supported|[Uu]nsupported|No dispatch|Failed to generate metadata|"
    r"inference failed|Cannot interpret frequency|no implementation|has no attribute|unexpected keyword|"
    r"does not support|"
    r"[Nn]ot yet supported|do not currently|must be (all )?the same|must all have|[Nn]ot allowed|\(in (cudf|cupy)\)|"
    r"of type '<class 'cudf": "not in CuPy or cuDF",
    r": rows in another order": "rows in another order",
    r": dtypes |: values \[[ \d.nan]+\] and \['": "another dtype",
}
"""What stands behind a docstring that does not agree, by what its name or its note says; the first that fits."""


def cause(row: Row) -> str:
    """Why a docstring does not agree; empty if it does."""
    if row.outcome not in (DIFFER, FAILS):
        return ""
    fits = (cause for pattern, cause in CAUSES.items() if re.search(pattern, row.name) or re.search(pattern, row.note))
    return next(fits, "another error" if row.outcome == FAILS else "another value")


def counts(rows: Sequence[Row]) -> dict[str, Any]:
    """How many docstrings came out how; and what stands behind them."""
    run = [row for row in rows if row.outcome != LEFT_OUT]
    return {
        "docstrings": len(rows),
        "compared": len(run),
        **Counter(row.outcome for row in rows),
        "agree, with values from the GPU": sum(row.outcome == AGREE and row.on_gpu > 0 for row in rows),
        "examples run": sum(row.ran for row in run),
        "examples that print what is written, in the two runs": [sum(row.as_written[i] for row in run) for i in (0, 1)],
        "values compared": sum(row.compared for row in run),
        "values from the GPU": sum(row.on_gpu for row in run),
        "causes": dict(Counter(filter(None, map(cause, rows))).most_common()),
    }


def table(rows: Sequence[Row], heading: str, introduction: Sequence[str]) -> str:
    """A page of markdown, with one line for each docstring that ran, and then those that did not."""
    lines = [f"# {heading}", "", *introduction, ""]
    facts = {name: count for name, count in counts(rows).items() if isinstance(count, int)}
    lines += ["| | |", "|---|---|", *(f"| {name} | {count} |" for name, count in facts.items()), ""]
    lines += ["| cause, where they do not agree | |", "|---|---|"]
    lines += [*(f"| {name} | {count} |" for name, count in counts(rows)["causes"].items()), ""]
    lines += ["| docstring | outcome | examples run | values, of these on the GPU | note |", "|---|---|---|---|---|"]
    for row in rows:
        if row.outcome != LEFT_OUT:
            random = "dtypes and shapes of random values" if row.random else ""
            stayed = f"stays on the CPU: `{row.stayed}`" if row.stayed and row.on_gpu else ""
            note = _cell("; ".join(filter(None, [cause(row), row.note, stayed, random])))
            examples, values = f"{row.ran} of {row.examples}", f"{row.compared}, {row.on_gpu}"
            lines.append(f"| `{row.name}` | {row.outcome} | {examples} | {values} | {note} |")
    lines += ["", "Left out, because no example runs or none computes anything with Dask:", ""]
    lines += ["| docstring | the first reason |", "|---|---|"]
    lines += [f"| `{row.name}` | {_cell(row.note)} |" for row in rows if row.outcome == LEFT_OUT]
    return "\n".join(lines) + "\n"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ").replace("<", "&lt;")
