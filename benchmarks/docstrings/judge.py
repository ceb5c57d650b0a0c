"""Runs one docstring twice, and says whether the two runs agree."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from .agreement import difference, of_open_order, undetermined
from .translate import translated
from .workers import RunError, Side, Worker

if TYPE_CHECKING:
    from .collect import Docstring
    from .execute import Outcome

AGREE, DIFFER, FAILS, LEFT_OUT = "agree", "differ", "fails", "left out"
"""Of a docstring: everything agrees; a value differs; an example fails in the second run only; nothing to compare."""

LIMIT = 40.0
"""Seconds for the examples of one docstring, in each of the two runs."""


@dataclass
class Row:
    """What came of one docstring."""

    name: str
    outcome: str
    note: str = ""
    examples: int = 0
    """How many examples it has."""
    ran: int = 0
    """How many of them run in the first run; the others are not compared."""
    compared: int = 0
    """How many values were compared."""
    on_gpu: int = 0
    """How many of those came from CuPy or cuDF in the second run."""
    stayed: str = ""
    """The first example that leaves a Dask collection without anything of CuPy or cuDF in it."""
    random: bool = False
    """Whether some were compared by dtype and shape alone."""
    as_written: tuple[int, int] = (0, 0)
    """How many examples print what the docstring says, in each run."""


def judge(docstring: Docstring, first: Side, second: Side, workers: dict[Side, Worker], limit: float = LIMIT) -> Row:
    """Run `docstring` on both sides and compare.

    Parameters
    ----------
    docstring
        Whose examples to run.
    first, second
        How to run them; what fails on the first is not run on the second.
    workers
        Where each side runs; one worker may serve both.
    limit
        Seconds for each run.
    """
    sources = translated(docstring)
    row = Row(docstring.name, LEFT_OUT, examples=len(sources))
    try:
        before = workers[first].run(first, docstring, sources, None, limit)
    except RunError as error:
        row.note = str(error)
        return row
    kept = {number: outcome for number, outcome in before.items() if outcome.error is None}
    row.ran = len(kept)
    if not any(outcome.graphs and outcome.values for outcome in kept.values()):
        row.note = next((outcome.error for outcome in before.values() if outcome.error), "computes nothing with Dask")
        return row
    try:
        after = workers[second].run(second, docstring, sources, set(kept), limit)
    except RunError as error:
        row.outcome, row.note = FAILS, str(error)
        return row
    row.as_written = sum(one.as_written for one in kept.values()), sum(other.as_written for other in after.values())
    _compare(row, sources, kept, after)
    return row


def _compare(row: Row, sources: list[str], before: dict[int, Outcome], after: dict[int, Outcome]) -> None:
    random, open_order = undetermined(sources), of_open_order(sources)
    row.outcome = AGREE
    row.random = any(random[number] for number in before)
    for number, one in before.items():
        other = after[number]
        if other.error:
            if row.outcome != FAILS:
                row.outcome, row.note = FAILS, f"`{_first_line(one.source)}`: {other.error}"
            continue
        for name, error in other.failed.items():
            if name in one.values and row.outcome != FAILS:
                row.outcome, row.note = FAILS, f"`{_first_line(one.source)}`, computed: {error}"
        for name in one.values.keys() - other.failed.keys():
            pair = one.values.get(name), other.values.get(name)
            row.compared += 1
            row.on_gpu += pair[1] is not None and pair[1].on_gpu
            if pair[1] is not None and pair[1].of_dask and not pair[1].on_gpu:
                row.stayed = row.stayed or _first_line(one.source)
            found = difference(*pair, values=not random[number], order=not open_order[number])
            if found and row.outcome == AGREE:
                row.outcome, row.note = DIFFER, f"`{_first_line(one.source)}`: {found}"


def _first_line(source: str) -> str:
    line = source.splitlines()[0].partition("# doctest")[0].strip()
    return line if len(line) <= 80 else line[:79] + "…"
