"""The outcomes of all tests, as counts and as a table."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any

from .judge import AGREES, COMPARED, GRAPH, TYPES, VALUE

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from .judge import Row


def counts(rows: Sequence[Row]) -> dict[str, Any]:
    """How many tests came out how."""
    of_outcome = Counter(row.outcome for row in rows)
    compared = sum(of_outcome[outcome] for outcome in COMPARED)
    agree = [row for row in rows if row.outcome == AGREES]
    return {
        "tests": len(rows),
        "pass on the CPU and ran under the switch": compared,
        **{outcome: of_outcome[outcome] for outcome in (*COMPARED, "left out", "not run") if of_outcome[outcome]},
        "agree, in percent": _percent(len(agree), compared),
        "agree, or differ only in types or the graph, in percent": _percent(
            len(agree) + of_outcome[TYPES] + of_outcome[GRAPH], compared
        ),
        "agree, and compared a collection on the GPU": sum(row.on_gpu for row in agree),
        "agree, with something on the CPU": sum(bool(row.on_cpu) for row in agree),
    }


def _percent(part: int, whole: int) -> float | None:
    return round(100 * part / whole, 1) if whole else None


def table(rows: Sequence[Row], introduction: Sequence[str]) -> str:
    """A page of markdown: all counts, those of each file, and the tests that do not agree, other values first."""
    lines = ["# Dask's own tests, on the CPU and with the switch on", "", *introduction, "", "| | |", "|---|---|"]
    lines += [f"| {name} | {count} |" for name, count in counts(rows).items()]
    lines += ["", "| file | passes on the CPU | agrees | other outcomes |", "|---|---|---|---|"]
    for file, of_file in _grouped(rows, lambda row: row.name.partition("::")[0]).items():
        outcomes = Counter(row.outcome for row in of_file if row.outcome in COMPARED)
        others = ", ".join(f"{outcome}: {n}" for outcome, n in outcomes.most_common() if outcome != AGREES)
        lines.append(f"| {file} | {outcomes.total()} | {outcomes[AGREES]} | {others} |")
    lines += ["", "| on the CPU, in tests that agree | tests |", "|---|---|"]
    operations = Counter(operation for row in rows if row.outcome == AGREES for operation in row.on_cpu)
    lines += [f"| {_cell(operation)} | {n} |" for operation, n in operations.most_common()]
    lines += ["", "| test | outcome | parameters | the first of them |", "|---|---|---|---|"]
    differing = [row for row in rows if row.outcome in COMPARED and row.outcome != AGREES]
    all_of = Counter(_function(row) for row in rows if row.outcome in COMPARED)
    groups = _grouped(differing, lambda row: (row.outcome, _function(row)))
    for (outcome, function), group in sorted(groups.items(), key=lambda item: (item[0][0] != VALUE, item[0])):
        words = f"`{_cell(group[0].line)}` {_cell(group[0].note)}" if group[0].line else _cell(group[0].note)
        lines.append(f"| `{function}` | {outcome} | {len(group)} of {all_of[function]} | {words} |")
    return "\n".join(lines) + "\n"


def _function(row: Row) -> str:
    return row.name.partition("[")[0]


def _grouped(rows: Iterable[Row], key: Any) -> dict[Any, list[Row]]:
    groups = defaultdict(list)
    for row in rows:
        groups[key(row)].append(row)
    return groups


def _cell(text: str) -> str:
    return re.sub(r"\s+", " ", text)[:300].replace("|", "\\|").replace("<", "&lt;").replace("`", "'")
