"""The result of ``%%gpudask --compare``."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from .base import View, format_table, html_table

if TYPE_CHECKING:
    from ..compare.rules import Comparison
    from ..compare.run import Run


class ComparisonView(View):
    """The times of both runs, the speed-up, and whether the results agree.

    Attributes
    ----------
    seconds
        The times of the run on the CPU and of the run on the GPUs.
    agreements
        The comparison of each result, by name.
    """

    _HEADS = ("result", "agrees", "details")

    def __init__(self, cpu: Run, gpu: Run, comparisons: dict[str, Comparison]) -> None:
        self.seconds = cpu.seconds, gpu.seconds
        self.agreements = comparisons
        self._cpu, self._gpu = cpu, gpu

    @property
    def speedup(self) -> float:
        """The time on the CPU divided by the time on the GPUs."""
        return self._cpu.seconds / self._gpu.seconds

    def __str__(self) -> str:
        return f"{self._headline()}\n{format_table(self._HEADS, self._rows())}" if self._rows() else self._headline()

    def to_html(self) -> str:
        """The times, and a table of the results."""
        lines = "<br>".join(escape(line) for line in self._headline().splitlines())
        return f"<div>{lines}</div>{html_table(self._HEADS, self._rows(), 'left') if self._rows() else ''}"

    def _headline(self) -> str:
        lines = [f"{run.seconds:8.2f} s on {run.where}" for run in (self._cpu, self._gpu)]
        if self._gpu.error is not None:
            lines[1] += f", where it failed: {type(self._gpu.error).__name__}: {self._gpu.error}"
        else:
            factor = self.speedup if self.speedup >= 1 else 1 / self.speedup
            lines.append(f"{factor:8.1f} times {'faster' if self.speedup >= 1 else 'slower'} on the GPUs")
        return "\n".join(lines)

    def _rows(self) -> list[tuple[str, str, str]]:
        words = {True: "yes", False: "NO", None: "–"}
        return [(name, words[result.agrees], result.text) for name, result in self.agreements.items()]
