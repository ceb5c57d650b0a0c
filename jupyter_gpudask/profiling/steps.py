"""Run a task step by step: several operations may be fused into it, by Dask or by `graph`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dask._task_spec import GraphNode, Task, _execute_subgraph

from ..graph.program import Program, as_one_task, evaluated
from ..worker.graphs import OpaqueNode

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    OnStep = Callable[[GraphNode, Mapping[Any, Any], Any], None]


def run_steps(task: GraphNode, values: Mapping[Any, Any], on_step: OnStep) -> Any:
    """The result of ``task(values)``, by the same functions with the same arguments.

    Parameters
    ----------
    task
        A task as a worker has it, opaque or not.
    values
        The results of the tasks that it needs, by key.
    on_step
        Called after each step, with its task, the results that it had, and its result.
    """
    if isinstance(task, OpaqueNode):
        task = task.unpickle()
    if type(task) is not Task:  # data, or another name for a result
        return task(values)
    function, arguments = task.func, task.args
    if isinstance(function, Program):
        return _run_program(function, evaluated(arguments, values), on_step)
    if function is _execute_subgraph and arguments[1] in arguments[0]:
        inner, key, names, *given = arguments
        program: Any = as_one_task(key, inner).func
        needed = dict(zip(names, evaluated(given, values), strict=True))
        return _run_program(program, [needed[name] for name in program.inputs], on_step)
    options = dict(zip(task.kwargs, evaluated(task.kwargs.values(), values), strict=True)) if task.kwargs else {}
    result = function(*evaluated(arguments, values), **options)
    on_step(task, values, result)
    return result


def _run_program(program: Program, inputs: Sequence[Any], on_step: OnStep) -> Any:
    """As ``program(*inputs)``."""
    values = dict(zip(program.inputs, inputs, strict=True))
    return program.run(values, lambda step, results: run_steps(step, results, on_step))
