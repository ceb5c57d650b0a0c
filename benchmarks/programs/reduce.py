"""Makes a program with a difference smaller, as long as the difference stays."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from .compare import Row
    from .program import Program


def reduced(program: Program, row: Row, judged: Callable[[Program], Row], seconds: float) -> tuple[Program, Row]:
    """The smallest program that was found, and its row.

    Parameters
    ----------
    program, row
        The program, and what came of it.
    judged
        Runs a program and compares.
    seconds
        For all attempts together.
    """
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        for smaller in _smaller(program):
            if time.monotonic() >= deadline:
                return program, row
            found = judged(smaller)
            if (found.outcome, found.host, found.way) == (row.outcome, row.host, row.way):
                program, row = smaller, found
                break
        else:
            return program, row
    return program, row


def _smaller(program: Program) -> Iterator[Program]:
    """Programs with one thing less, those with one step less first."""
    for place in range(len(program.steps) - 1, -1, -1):
        yield replace(program, steps=(*program.steps[:place], *program.steps[place + 1 :]))
    used = "\n".join(step.text for step in program.steps)
    for name, data in program.data.items():
        if name != "v" and f"{name}" not in used.replace("where", ""):
            yield replace(program, data={other: kept for other, kept in program.data.items() if other != name})
            continue
        for smaller in data.smaller():
            yield replace(program, data={**program.data, name: smaller})
