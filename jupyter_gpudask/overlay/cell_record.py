"""The result options of a cell, and the collections that it computed on the CPU."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal
from uuid import uuid4

Fallback = Literal["error", "host", "strict"]
Results = Literal["host", "gpu"]

DEFAULT_FALLBACK: Fallback = "host"
"""What happens to an operation that CuPy or cuDF lack, unless the user has chosen."""

DEFAULT_RESULTS: Results = "host"
"""Where the results of ``compute()`` are, unless the user has chosen."""


@dataclass
class CellRecord:
    """The record of one GPU cell.

    Attributes
    ----------
    results
        Where the results of ``compute()`` are: on the ``"host"``, as NumPy and pandas objects, or on the kernel's
        ``"gpu"``, as CuPy and cuDF objects.
    on_host
        Collections that were computed on the CPU: name -> line that computed them.
    moved_for_result
        Names of collections on GPUs whose blocks were converted only to return their results on the host.
    fallback
        What happens to an operation that CuPy or cuDF lack: ``"error"`` raises the library's error, ``"host"`` computes
        it on the host, ``"strict"`` raises `jupyter_gpudask.errors.NotOnGpuError`.
    id
        The id of the cell: what its tasks report has it.
    """

    results: Results = "gpu"
    on_host: dict[str, int] = field(default_factory=dict)
    moved_for_result: set[str] = field(default_factory=set)
    fallback: Fallback = "error"
    id: str = field(default_factory=lambda: uuid4().hex)

    @property
    def watches(self) -> bool:
        """Whether operations that CuPy or cuDF lack are noticed."""
        return self.fallback != "error"
