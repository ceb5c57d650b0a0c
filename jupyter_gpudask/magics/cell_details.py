"""What the line under a cell unfolds: what each operation cost and where it ran, from what Dask counts anyway."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape

from ..client.calls import OperationTotals
from ..profiling.measurements import FETCH_SHARE, MIN_CELL, SPILL_SHARE, Operation, operation_of
from .output import SHORTEST, format_seconds, format_table

_MAX_OPERATIONS = 8
_BUSY_SHARE = 0.5
# Of an exported notebook, too.
_STYLE = (
    "margin: 0.3em 0; white-space: pre; overflow-x: auto; "
    "font: var(--jp-code-font-size, 13px) var(--jp-code-font-family, monospace)"
)


@dataclass
class CellDetails:
    """The operations of a cell.

    - `operations`: by name; times are summed over all threads.
    - `seconds`: the duration of the cell.
    - `threads`: of all workers.
    - `device`: where they ran, but for `fallbacks`: ``GPU`` or ``CPU``.
    - `fallbacks`: what ran on the CPU of a cluster with GPUs: name, line and number of blocks.
    """

    operations: Mapping[str, Operation]
    seconds: float
    threads: int
    device: str
    fallbacks: Sequence[tuple[str, int, int]]

    @classmethod
    def of(cls, totals: Mapping[str, OperationTotals], **others: object) -> CellDetails:
        """From the totals of the prefixes of tasks."""
        operations: dict[str, Operation] = {}
        for prefix, (blocks, compute, transfer, spill) in totals.items():
            operation = operations.setdefault(operation_of(prefix), Operation())
            operation.add(Operation(tasks=blocks, seconds=compute, between_workers=transfer, spilling=spill))
        return cls(operations, **others)  # type: ignore[arg-type]

    def to_html(self) -> str:
        """A table of the operations, the longest first, and why the cell took long, as far as that is known."""
        heads = ["operation", "blocks", "ran on", "time"]
        moves = any(each.between_workers >= SHORTEST for each in self.operations.values())
        spills = any(each.spilling >= SHORTEST for each in self.operations.values())
        heads += ["between workers"] * moves + ["spilling"] * spills
        longest = sorted(self.operations.items(), key=lambda item: -item[1].seconds)
        longest = [item for item in longest if item[1].seconds >= SHORTEST] or longest
        rows = [
            [
                name,
                f"{each.tasks:,}",
                self._where(name, each.tasks),
                format_seconds(each.seconds),
                *[format_seconds(each.between_workers)] * moves,
                *[format_seconds(each.spilling)] * spills,
            ]
            for name, each in longest[:_MAX_OPERATIONS]
        ]
        hidden = len(longest) - _MAX_OPERATIONS
        notes = [f"And {hidden} more operations."] * (hidden > 0)
        notes += [*self.reasons(), "Times are sums of all workers; an operation includes those fused into it."]
        # Not a table: the styles of its cells would be most of a saved notebook.
        table = f'<pre style="{_STYLE}">{escape(format_table(heads, rows))}</pre>'
        return table + "".join(f"<div>{escape(note)}</div>" for note in notes)

    def _where(self, name: str, tasks: int) -> str:
        on_cpu = sum(blocks for operation, _, blocks in self.fallbacks if operation == name)
        if not on_cpu:
            return self.device
        return "CPU" if on_cpu >= tasks else f"{self.device}, {on_cpu:,} blocks on the CPU"

    def reasons(self) -> Iterator[str]:
        """Why the cell took long, as sentences."""
        operations = self.operations.values()
        compute = sum(each.seconds for each in operations)
        for part, what, advice, least in (
            ("between_workers", "moving blocks between workers", "Chunks along the axis of the operation avoid that.",
             FETCH_SHARE),
            ("spilling", "spilling", "Persist less, delete what is not needed, or use smaller chunks.", SPILL_SHARE),
        ):  # fmt: skip
            total = sum(getattr(each, part) for each in operations)
            if total > least * (total + compute) and self.seconds >= MIN_CELL / 4:
                most = max(self.operations, key=lambda name: getattr(self.operations[name], part))
                yield f"{total / (total + compute):.0%} of the time went into {what}, most of it for {most}. {advice}"
        if self.fallbacks:
            names = ", ".join(dict.fromkeys(operation for operation, _, _ in self.fallbacks))
            yield f"{names} ran on the CPU: the blocks were copied to the host and back."
        busy = compute / self.threads / self.seconds if self.threads and self.seconds else 1.0
        if self.seconds >= MIN_CELL and busy < _BUSY_SHARE:
            yield (
                f"The workers computed for {busy:.0%} of the cell: the rest was code in the kernel, and waiting for "
                "other blocks. %%gpudask --profile measures it."
            )
