"""The rows of a run: counts, groups of equal differences, and a table."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from .compare import FINDINGS

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from .compare import Row


def groups(rows: Iterable[Row]) -> list[list[Row]]:
    """The differences, equal ones together: the largest group first, and in it the smallest program."""
    found = defaultdict(list)
    for row in rows:
        if row.outcome in FINDINGS:
            found[row.group].append(row)
    ordered = [sorted(group, key=lambda row: (not row.source, len(row.source), row.seed)) for group in found.values()]
    return sorted(ordered, key=lambda group: (-len(group), group[0].group))


def counts(rows: Sequence[Row]) -> dict[str, Any]:
    """How many programs came out how."""
    return {
        "programs": len(rows),
        **dict(Counter(row.outcome for row in rows).most_common()),
        "fail in Dask on the CPU, too": sum(row.fails for row in rows),
        "Dask on the CPU is unlike NumPy or pandas": sum(row.unlike_host for row in rows),
        "with something on the CPU": sum(bool(row.on_cpu) for row in rows),
    }


def summary(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """One entry for each group of differences, with its smallest program."""
    return [
        {"programs": len(group), "seeds": [row.seed for row in group][:20], **asdict(group[0])}
        for group in groups(rows)
    ]


def table(rows: Sequence[Row], introduction: Sequence[str]) -> str:
    """A page of markdown: the counts, and each group of differences with a program to paste."""
    lines = ["# Random programs, on the CPU and with the switch on", "", *introduction, "", "| | |", "|---|---|"]
    lines += [f"| {name} | {count} |" for name, count in counts(rows).items()]
    for group in groups(rows):
        first = group[0]
        lines += ["", f"## {first.outcome}: {first.last} ({len(group)})", ""]
        lines += [
            f"Seeds {', '.join(str(row.seed) for row in group[:20])}. NumPy or pandas: {first.host or 'unknown'}."
        ]
        lines += ["", f"    {first.note}", "", "```python", first.source.rstrip(), "```"]
    return "\n".join(lines) + "\n"
