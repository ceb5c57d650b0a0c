"""Run a task step by step: several operations may be fused into it, by Dask or by `graph`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dask._task_spec import GraphNode, Task, TaskRef, _execute_subgraph

from ..graph.program import Program, as_one_task
from ..worker.opaque_graph import OpaqueNode

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
        return _run_program(function, _evaluate(arguments, values), on_step)
    if function is _execute_subgraph and arguments[1] in arguments[0]:
        inner, key, names, *given = arguments
        program: Any = as_one_task(key, inner).func
        needed = dict(zip(names, _evaluate(given, values), strict=True))
        return _run_program(program, [needed[name] for name in program.inputs], on_step)
    options = {name: _evaluate([value], values)[0] for name, value in task.kwargs.items()}
    result = function(*_evaluate(arguments, values), **options)
    on_step(task, values, result)
    return result


def _run_program(program: Program, inputs: Sequence[Any], on_step: OnStep) -> Any:
    """As ``program(*inputs)``."""
    values = dict(zip(program.inputs, inputs, strict=True))
    result = None
    for step, unneeded in program.steps:
        result = values[step.key] = run_steps(step, values, on_step)
        for key in unneeded:
            del values[key]
    return result


def _evaluate(arguments: Sequence[Any], values: Mapping[Any, Any]) -> list[Any]:
    """The arguments of a call, as `dask._task_spec.Task` evaluates them."""
    return [
        argument({key: values[key] for key in argument.dependencies})
        if isinstance(argument, GraphNode)
        else values[argument.key]
        if isinstance(argument, TaskRef)
        else argument
        for argument in arguments
    ]
