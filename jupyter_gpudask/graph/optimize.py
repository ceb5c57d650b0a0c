"""The optimization of graphs of arrays: Dask's own, then ours. Runs where the graph is materialized."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import dask.config
from dask._expr import Expr, HLGExpr, _ExprSequence, _HLGExprSequence
from dask._task_spec import cull
from dask.array.optimization import optimize as optimize_by_dask
from dask.core import flatten

from .program import with_programs, with_subgraphs
from .slices import slice_first
from .stacks import with_taller_blocks
from .subtrees import ELEMENTS_ON_CPU, ELEMENTS_ON_GPU, ClusterSize, fuse_subtrees
from .unused import ONLY_R, ONLY_VALUES, without_unused_parts

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dask._task_spec import GraphNode


@dataclass(frozen=True)
class ArrayOptimizer:
    """Replaces `dask.array.optimization.optimize` for one computation.

    Attributes
    ----------
    size
        Of the cluster that computes.
    is_on_gpus
        Whether its workers have GPUs. There slices are taken before arithmetic too; NumPy would add the numbers that
        are left in another order, and give another last digit.
    largest_stack
        Bytes of blocks that one QR decomposition takes together; 0 where a worker's memory is not known.
    fuses
        Whether tasks are fused at all: Dask's setting ``optimization.fuse.active`` where the computation was submitted,
        which is another process.
    """

    size: ClusterSize
    is_on_gpus: bool = False
    largest_stack: int = 0
    fuses: bool = True

    def __call__(self, graph: Any, keys: Any, **options: Any) -> Mapping[Any, GraphNode]:
        """As `dask.array.optimization.optimize`."""
        if not self.fuses:
            with dask.config.set({"optimization.fuse.active": False}):
                return optimize_by_dask(graph, keys, **options)  # type: ignore[no-any-return]
        optimized = optimize_by_dask(graph, keys, **options)
        if not isinstance(optimized, dict):  # that setting is off here, too
            return optimized  # type: ignore[no-any-return]
        wanted = list(flatten(keys if isinstance(keys, list | set) else [keys]))
        # Dask keeps tasks that nobody needs: of ``svd(x)[1]``, those of U. They would keep others from being fused.
        needed = cull(optimized, wanted)
        functions = ONLY_R | ONLY_VALUES if self.is_on_gpus else ONLY_R
        needed_tasks = {key: task for key, task in optimized.items() if key in needed}
        optimized = without_unused_parts(needed_tasks, wanted, functions)
        if self.is_on_gpus:
            optimized = with_taller_blocks(
                optimized, wanted, most_bytes=self.largest_stack, least_stacks=self.size.threads
            )
            optimized = with_subgraphs(optimized, lambda inner, _: slice_first(inner))
        most_repeated = ELEMENTS_ON_GPU if self.is_on_gpus else ELEMENTS_ON_CPU
        fused = fuse_subtrees(optimized, wanted, self.size, most_repeated)
        return with_programs(fused, {})  # Dask's fused tasks compute their order each time they run


class WithOptimizer:
    """An expression as a client submits it, with its own optimizer for arrays.

    Dask's optimizer is replaced where the graph is made, which is not in the kernel: to make the expressions anew takes
    the kernel longer than to send them.

    Parameters
    ----------
    expression
        The expression, as Dask has optimized it.
    optimizer
        Takes the place of `dask.array.optimization.optimize`.
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
        return self._changed.__dask_graph__()

    def __dask_annotations__(self) -> Any:
        return self._changed.__dask_annotations__()


def may_have_arrays(expression: Any) -> bool:
    """Whether there may be graphs of arrays in it, and not only expressions of dataframes."""
    return isinstance(expression, HLGExpr | _HLGExprSequence | _ExprSequence)


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
