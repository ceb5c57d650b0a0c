"""Reports a cell to the Jupyter server, which shows it in the panel and in the history."""

from __future__ import annotations

import time
from collections import Counter
from typing import TYPE_CHECKING, Any

from ..fallback.log import fallback_log
from ..quantities import format_count

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

    from ..overlay import CellRecord
    from ..protocol.state import ClusterState
    from ..session.session import Session

_MOST_FALLBACKS, _LONGEST_FALLBACK = 20, 300


class ReportedCell:
    """A cell, which begins now.

    - `peak`: the highest peak of allocated device memory of any GPU that is known, in bytes.
    - `seconds`: how long its line says that it took; `None` without a line.
    - `is_watched`: whether somebody may answer questions of the cell, and sees it run; not if a tool such as nbclient
      runs the notebook.
    """

    def __init__(self, shell: InteractiveShell, session: Session, record: CellRecord) -> None:
        self.peak: int | None = None
        self.seconds: float | None = None
        self._shell, self._session, self._record = shell, session, record
        self._began = time.time()
        self._clock = time.monotonic()
        inputs = shell.history_manager and shell.history_manager.input_hist_raw  # releases count at other moments
        self._number = len(inputs) - 1 if inputs else None
        parent: Any = getattr(shell, "get_parent", dict)()
        self.is_watched: bool = (parent.get("content") or {}).get("allow_stdin", True)
        self._id = str((parent.get("metadata") or {}).get("cellId", ""))[:100]
        self._sent: Any = None
        self._report()

    def update(self, state: ClusterState) -> None:
        """Report what is known while the cell runs, if it has changed."""
        used = [worker.pool_used or 0 for worker in state.workers if worker.gpu_index is not None]
        self.peak = max([*used, self.peak or 0]) or None
        self._report()

    def end(self) -> None:
        """Report the end of the cell."""
        result = self._shell.last_execution_result
        self._report(
            seconds=time.monotonic() - self._clock if self.seconds is None else self.seconds,
            failed=result is not None and not result.success,
            interrupted=result is not None and isinstance(result.error_in_exec, KeyboardInterrupt),
            fallback_blocks=sum(fallback_log.blocks_of(self._record.id).values()),
        )

    def _report(self, **known: Any) -> None:
        from ..protocol.state import CellRun  # it imports pydantic

        cluster = self._session.cluster
        on_host = [describe_place(*each) for each in self._record.on_host.items()]
        fallbacks = [each[:_LONGEST_FALLBACK] for each in (*on_host, *describe_fallbacks(self._record.id))]
        cell = CellRun(
            id=self._id,
            number=self._number,
            began=self._began,
            peak=self.peak,
            fallbacks=tuple(fallbacks[:_MOST_FALLBACKS]),
            **known,
        )
        if cluster is not None and cell != self._sent:
            self._sent = cell
            cluster.notify(cluster.process.report_cell, cell)


def fallbacks_of(cell: str) -> tuple[tuple[str, int, int], ...]:
    """The operations of a cell that ran on the CPU: name, line and number of blocks of each, by lines."""
    blocks: Counter[tuple[str, int]] = Counter()
    for place, number in fallback_log.blocks_of(cell).items():
        blocks[place.operation, place.line] += number
    rows = ((operation, line, number) for (operation, line), number in blocks.items())
    return tuple(sorted(rows, key=lambda row: (row[1], row[0])))


def describe_place(name: str, line: int) -> str:
    """A name with its line, if that is known."""
    return f"{name} (line {line})" if line else name


def describe_fallback(fallback: tuple[str, int, int]) -> str:
    """What `fallbacks_of` gives, in words."""
    operation, line, blocks = fallback
    return f"{describe_place(operation, line)}, {format_count(blocks, 'block')}"


def describe_fallbacks(cell: str) -> list[str]:
    """The operations of a cell that ran on the CPU because CuPy or cuDF lack them: name, line and blocks of each."""
    return list(map(describe_fallback, fallbacks_of(cell)))
