"""The sides on which the oracle runs the same code: plain Dask, Dask's own switch, and the switch of a cell."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Literal
from unittest.mock import patch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SETTINGS = {"scheduler": "synchronous", "dataframe.shuffle.method": "tasks"}
"""A cluster shuffles through tasks or between its workers, never through files."""

BROKEN = ("cudaErrorIllegalAddress", "CUDA_ERROR_ILLEGAL_ADDRESS", "CUDA error encountered")
"""After such an error nothing works in a process any more."""

_LARGEST_STACK = 10**6
"""Bytes."""

_STAND_IN = "cudf_stand_in"


def has_stand_in() -> bool:
    """Whether ``PYTHONPATH`` has tests/switch, whose stand-in for cuDF shows what the kernel plans, without a GPU."""
    return find_spec(_STAND_IN) is not None and find_spec("cudf") is None


@dataclass(frozen=True)
class Side:
    """One of the ways to run code."""

    name: Literal["cpu", "stock", "switch"] = "cpu"
    """``"cpu"``: plain Dask; ``"stock"``: with Dask's settings of these backends; ``"switch"``: as in a cell."""
    array: str = "numpy"
    dataframe: str = "pandas"
    fallback: Literal["error", "host", "strict"] = "host"
    """What happens to an operation that CuPy or cuDF lack."""
    results: Literal["host", "gpu"] = "host"
    """Where those of ``compute()`` are."""
    graphs: Literal["cpu", "gpu", ""] = ""
    """For which device graphs of arrays are optimized, as the client of a cluster does; empty for neither."""

    @classmethod
    def switched(cls, array: str, dataframe: str, **options: Any) -> Side:
        """The switch, with the optimization of graphs for the device of the arrays."""
        return cls("switch", array, dataframe, graphs="gpu" if array == "cupy" else "cpu", **options)


@contextlib.contextmanager
def on_side(side: Side) -> Iterator[dict[str, int]]:
    """Run code on a side; the blocks that ran on the CPU for want of a function of CuPy or cuDF, by operation."""
    import dask

    from jupyter_gpudask.fallback.log import fallback_log

    on_cpu: dict[str, int] = {}
    blocks = fallback_log.blocks.copy()
    with dask.config.set(SETTINGS), contextlib.ExitStack() as stack:
        if side.name == "stock":
            stack.enter_context(dask.config.set({"array.backend": side.array, "dataframe.backend": side.dataframe}))
        if side.graphs:
            stack.enter_context(_optimized_graphs(on_gpus=side.graphs == "gpu"))
        if side.name == "switch":
            from jupyter_gpudask.overlay import CellRecord
            from jupyter_gpudask.patches.apply import patches
            from jupyter_gpudask.switch.context import switched_to

            patches.apply("worker")  # this process is both
            if side.dataframe == "cudf" and has_stand_in():
                stand_in = import_module(_STAND_IN)
                stack.enter_context(stand_in.in_use())
                stack.enter_context(stand_in.gpu_cell(side.array, results=side.results, fallback=side.fallback))
            else:
                record = CellRecord(results=side.results, fallback=side.fallback)
                stack.enter_context(switched_to(side.array, side.dataframe, record))
        try:
            yield on_cpu
        finally:
            for place, number in (fallback_log.blocks - blocks).items():
                on_cpu[place.operation] = on_cpu.get(place.operation, 0) + number


@contextlib.contextmanager
def _optimized_graphs(*, on_gpus: bool) -> Iterator[None]:
    """Let Dask's schedulers of one process optimize, by whatever name they are chosen, such as ``scheduler="sync"``."""
    from dask.base import named_schedulers

    local = {name: get for name, get in named_schedulers.items() if name not in ("processes", "multiprocessing")}
    with patch.dict(named_schedulers, {name: partial(_get, get, on_gpus) for name, get in local.items()}):
        yield


def _get(get: Callable[..., Any], on_gpus: bool, expression: Any, keys: Any, **options: Any) -> Any:
    from jupyter_gpudask.graph.optimize import ArrayOptimizer, WithOptimizer, may_have_arrays
    from jupyter_gpudask.graph.subtrees import ClusterSize

    if may_have_arrays(expression):
        optimizer = ArrayOptimizer(ClusterSize(1, 1), is_on_gpus=on_gpus, largest_stack=_LARGEST_STACK)
        expression = WithOptimizer(expression, optimizer).__dask_graph__()
    return get(expression, keys, **options)
