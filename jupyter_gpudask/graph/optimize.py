"""The optimization of graphs of arrays and dataframes: Dask's own, then ours. Runs where the graph is materialized."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import dask.config
from dask._expr import Expr, HLGExpr, _ExprSequence, _HLGExprSequence
from dask._task_spec import GraphNode, convert_legacy_graph, cull, fuse_linear_task_spec
from dask.array.optimization import _optimize_slices
from dask.array.optimization import optimize as optimize_by_dask
from dask.blockwise import fuse_roots, optimize_blockwise
from dask.core import flatten
from dask.highlevelgraph import HighLevelGraph
from dask.utils import ensure_dict

from .decompositions import ONLY_R, ONLY_VALUES, with_taller_blocks, without_unused_parts
from .on_host import may_run_on_host
from .overlap import with_few_overlaps
from .partitions import fuse_partitions
from .program import with_programs
from .rechunk import largest_array
from .repeated import ELEMENTS_ON_CPU, ELEMENTS_ON_GPU
from .slices import with_slices_first
from .subtrees import ClusterSize, fuse_subtrees
from .workers import WORKER


@dataclass(frozen=True)
class ArrayOptimizer:
    """Replaces `dask.array.optimization.optimize` for one computation."""

    size: ClusterSize  # of the cluster that computes
    # whether its workers have GPUs. There slices are taken before arithmetic too; NumPy would add the numbers that are
    # left in another order, and give another last digit
    is_on_gpus: bool = False
    # bytes of blocks that one QR decomposition takes together; 0 where a worker's memory is not known
    largest_stack: int = 0
    # whether tasks are fused at all: Dask's setting ``optimization.fuse.active`` where the computation was submitted,
    # which is another process
    fuses: bool = True
    # on which worker tasks shall run, by key, and whether no other one may take it; known when graphs are optimized
    workers: dict[Any, tuple[int, bool]] = field(default_factory=dict, compare=False)

    def __call__(self, graph: Any, keys: Any, **_: Any) -> Mapping[Any, GraphNode]:
        """As `dask.array.optimization.optimize`, with our steps before and after the fusion of chains of tasks."""
        wanted = list(flatten(keys if isinstance(keys, list | set) else [keys]))
        if not isinstance(graph, HighLevelGraph):
            graph = HighLevelGraph.from_collections(str(id(graph)), graph, dependencies=())
        largest = largest_array(graph)
        graph = fuse_roots(optimize_blockwise(with_few_overlaps(graph), keys=wanted), keys=wanted).cull(set(wanted))
        if not self.fuses or dask.config.get("optimization.fuse.active", None) is False:
            return graph  # type: ignore[no-any-return]
        # Dask keeps tasks that nobody needs: of ``svd(x)[1]``, those of U. They would keep others from being fused.
        tasks = cull(convert_legacy_graph(ensure_dict(graph)), wanted)
        tasks = without_unused_parts(tasks, wanted, ONLY_R | ONLY_VALUES if self.is_on_gpus else ONLY_R)
        if self.is_on_gpus:
            tasks = with_taller_blocks(tasks, wanted, most_bytes=self.largest_stack, least_stacks=self.size.threads)
        tasks = _optimize_slices(fuse_linear_task_spec(tasks, keys=wanted))
        elements, on_host = ELEMENTS_ON_CPU, set()
        if self.is_on_gpus:
            tasks = with_slices_first(tasks)
            elements, on_host = ELEMENTS_ON_GPU, {key for key, task in tasks.items() if may_run_on_host(task)}
        fused, workers, alone = fuse_subtrees(tasks, wanted, self.size, elements, largest, on_host=on_host)
        self.workers.update({key: (worker, alone) for key, worker in workers.items()})
        return with_programs(fused, {})  # Dask's fused tasks compute their order each time they run


class WithOptimizer:
    """An expression as a client submits it, with its own optimizer for arrays, or fused partitions of dataframes.

    Both are made where the graph is made, which is not in the kernel: to make the expressions anew takes the kernel
    longer than to send them.
    """

    def __init__(self, expression: Any, optimizer: ArrayOptimizer) -> None:
        self._expression = expression
        self._optimizer = optimizer

    def __reduce__(self) -> tuple[Any, ...]:
        return WithOptimizer, (self._expression, self._optimizer)

    @cached_property
    def _changed(self) -> Any:
        return with_optimizer(self._expression, self._optimizer)

    def __dask_graph__(self) -> Any:
        graph = self._changed.__dask_graph__()
        fuses = self._optimizer.is_on_gpus and self._optimizer.fuses and _is_of_frames(self._expression)
        return fuse_partitions(graph, set(flatten(self._expression.__dask_keys__()))) if fuses else graph

    def __dask_annotations__(self) -> Any:
        """As Dask's, which asks for them after the graph; and where tasks shall run."""
        number, workers = self._optimizer.size.workers, self._optimizer.workers
        placed = (
            {WORKER: {key: (worker, number, alone) for key, (worker, alone) in workers.items()}} if number > 1 else {}
        )
        return {**self._changed.__dask_annotations__(), **placed}


def may_have_arrays(expression: Any) -> bool:
    """Whether there may be graphs of arrays in it, and not only expressions of dataframes."""
    return isinstance(expression, HLGExpr | _HLGExprSequence | _ExprSequence)


def _is_of_frames(expression: Any) -> bool:
    """Whether it computes dataframes, and nothing else."""
    return isinstance(expression, _ExprSequence) and not any(map(may_have_arrays, expression.operands))


def with_optimizer(expression: Any, optimizer: ArrayOptimizer) -> Any:
    """`expression` with `optimizer` in the place of Dask's own for arrays, wherever that is."""
    if not may_have_arrays(expression):
        return expression
    operands = [
        with_optimizer(operand, optimizer)
        if isinstance(operand, Expr)
        else (optimizer if operand is optimize_by_dask else operand)
        for operand in expression.operands
    ]
    if all(new is old for new, old in zip(operands, expression.operands, strict=True)):
        return expression
    # The token is part of the keys that are wanted.
    return type(expression)(*operands, _determ_token=expression.deterministic_token)
