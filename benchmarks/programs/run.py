"""Runs a program in this process: with NumPy and pandas, with Dask, or with Dask under the switch."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
import warnings
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from optimized import optimized_graphs

from .program import names

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager

    from .program import Program

Way = Literal["host", "dask", "switch", "optimized"]
"""NumPy and pandas; Dask; Dask under the switch; the same with the cluster's optimization of graphs of arrays."""


@dataclass(frozen=True)
class Backends:
    """The backends of the switch."""

    array: str
    dataframe: str


@dataclass
class Outcome:
    """What came of one run.

    Attributes
    ----------
    value
        The result, on the host.
    error
        The class and the first line of its error; empty if there was none.
    facts
        What Dask knew of the collection before it was computed, by name.
    on_cpu
        Blocks that ran on the CPU for want of a function of CuPy or cuDF, by operation.
    """

    value: Any = None
    error: str = ""
    facts: dict[str, Any] = field(default_factory=dict)
    on_cpu: dict[str, int] = field(default_factory=dict)


def run(program: Program, way: Way, backends: Backends | None = None) -> Outcome:
    """Run a program in one way."""
    space = names()
    space["folder"] = tempfile.mkdtemp()
    outcome = Outcome()
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"), _context(way, backends, outcome):
            warnings.simplefilter("ignore")
            if way != "host":
                import dask.array as da
                import dask.dataframe as dd

                space |= {"da": da, "dd": dd}
            exec(compile(program.body(on_host=way == "host"), "<program>", "exec"), space)  # noqa: S102
            value = space["v"]
            outcome.facts = _facts(value)
            outcome.value = value.compute() if hasattr(value, "compute") else value
    except Exception as error:  # noqa: BLE001 - whatever a program raises is its result
        outcome.value, outcome.facts = None, {}
        outcome.error = f"{type(error).__name__}: {error}".partition("\n")[0][:300]
    finally:
        shutil.rmtree(space["folder"], ignore_errors=True)
    return outcome


def _facts(value: Any) -> dict[str, Any]:
    """What must be the same before anything is computed."""
    if hasattr(value, "chunks"):
        return {"shape": repr(value.shape), "dtype": str(value.dtype), "chunks": repr(value.chunks)}
    if hasattr(value, "npartitions"):
        columns = [str(name) for name in getattr(value, "columns", [])]
        return {"columns": columns, "name": str(getattr(value, "name", "")), "class": type(value).__name__}
    return {}


@contextlib.contextmanager
def _context(way: Way, backends: Backends | None, outcome: Outcome) -> Iterator[None]:
    import dask

    optimized = optimized_graphs(on_gpus=True) if way == "optimized" else contextlib.nullcontext()
    # A cluster shuffles through tasks or between its workers, never through files.
    settings = {"scheduler": "synchronous", "dataframe.shuffle.method": "tasks"}
    with optimized, dask.config.set(settings), _cell(way, backends):
        if way == "host":
            yield
            return
        from jupyter_gpudask.fallback.log import fallback_log

        blocks = fallback_log.blocks.copy()
        try:
            yield
        finally:
            for place, number in fallback_log.blocks_since(blocks).items():
                outcome.on_cpu[place.operation] = outcome.on_cpu.get(place.operation, 0) + number


def _cell(way: Way, backends: Backends | None) -> AbstractContextManager[None]:
    if way in ("host", "dask") or backends is None:
        return contextlib.nullcontext()
    from jupyter_gpudask.overlay.cell_record import CellRecord
    from jupyter_gpudask.switch.context import switched_to

    return switched_to(backends.array, backends.dataframe, CellRecord(fallback="host", results="host"))
