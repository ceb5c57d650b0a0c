"""Several tasks of a graph as one task, and changes of the graphs inside of those that Dask has fused."""

from __future__ import annotations

import operator
import threading
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

from dask._task_spec import Alias, GraphNode, Task, TaskRef, _execute_subgraph

from .workers import position

running: dict[int, int] = {}
"""The blocks that programs have computed so far that run in the threads of this process, by the thread's id."""


class Program:
    """Runs tasks in a fixed order and releases each result after its last use.

    Dask's own fused tasks compute their order each time that they run; here it is computed once, and pickled with the
    tasks as one value, in which equal functions are pickled once.

    `steps`: the tasks in the order in which they run, and the keys of the results that nobody needs after each.
    `inputs`: keys of the results of other tasks, in the order of the arguments of a call.
    `blocks`: how many blocks it computes, if tasks of several blocks are fused in it; they are counted in `running`.
    `moved`: what `fallback.tasks` has found of it, where it has run.
    """

    __slots__ = ("blocks", "inputs", "moved", "steps")

    def __init__(
        self, steps: Sequence[tuple[GraphNode, tuple[Any, ...]]], inputs: tuple[Any, ...], blocks: int = 1
    ) -> None:
        self.steps = steps
        self.inputs = inputs
        self.blocks = blocks
        self.moved: Any = None

    def __call__(self, *inputs: Any) -> Any:
        """The result of the last step."""
        values = dict(zip(self.inputs, inputs, strict=True))
        del inputs
        return self.run(values, operator.call)

    def run(self, values: dict[Any, Any], run_step: Callable[[GraphNode, Mapping[Any, Any]], Any]) -> Any:
        """The result of the last step.

        `run_step`: called with each task and the results so far; returns its result.
        """
        result = None
        thread = threading.get_ident() if self.blocks > 1 else None
        try:
            for number, (task, unneeded) in enumerate(self.steps):
                if thread is not None:
                    running[thread] = number * self.blocks // len(self.steps)
                result = values[task.key] = run_step(task, values)
                for key in unneeded:
                    del values[key]
            return result
        finally:
            running.pop(thread or 0, None)

    def __reduce__(self) -> tuple[Any, ...]:
        return Program, (self.steps, self.inputs, self.blocks)

    def __dask_tokenize__(self) -> tuple[Any, ...]:
        return "program", self.steps, self.inputs


def evaluated(arguments: Iterable[Any], values: Mapping[Any, Any]) -> list[Any]:
    """The arguments of a call, as `dask._task_spec.Task` evaluates them, with the results of other tasks by key."""
    return [
        values[argument.key]
        if type(argument) is TaskRef
        else argument({key: values[key] for key in argument.dependencies})
        if isinstance(argument, GraphNode)
        else argument
        for argument in arguments
    ]


def as_one_task(key: Any, tasks: Mapping[Any, GraphNode], blocks: int = 1) -> Task:
    """One task that gives what `tasks` give for `key`; what they need of other tasks becomes an argument."""
    order = [_with_key(tasks[each], each) for each in depth_first([key], tasks)]
    inputs = tuple(sorted({other for task in order for other in task.dependencies if other not in tasks}, key=position))
    return Task(
        key, Program(_with_last_uses(order, key), inputs, blocks), *map(TaskRef, inputs), _data_producer=not inputs
    )


def depth_first(starts: Iterable[Any], tasks: Mapping[Any, GraphNode]) -> list[Any]:
    """The keys of what `starts` need, so that each follows what it needs, and as few results as possible wait.

    What the first of `starts` needs comes first.
    """
    order = []
    seen = set()
    for start in starts:
        stack = [(start, False)]
        while stack:
            key, is_ready = stack.pop()
            if is_ready:
                order.append(key)
            elif key not in seen and key in tasks:
                seen.add(key)
                stack.append((key, True))
                needed = [other for other in tasks[key].dependencies if other in tasks and other not in seen]
                if len(needed) > 1:
                    needed.sort(key=position, reverse=True)
                stack += [(other, False) for other in needed]
    return order


def _with_key(task: GraphNode, key: Any) -> GraphNode:
    """The task with its key in the graph; tasks of a bag have none of their own."""
    return task if task.key == key else task.substitute({}, key=key)


def _with_last_uses(order: Sequence[GraphNode], key: Any) -> list[tuple[GraphNode, tuple[Any, ...]]]:
    steps: list[tuple[GraphNode, tuple[Any, ...]]] = []
    needed_later = {key}
    for task in reversed(order):
        last = tuple(other for other in task.dependencies if other not in needed_later)
        needed_later.update(last)
        steps.append((task, last))
    return steps[::-1]


def with_programs(tasks: Mapping[Any, GraphNode], programs: dict[Any, Any]) -> dict[Any, GraphNode]:
    """`tasks`, of which those that Dask has fused are programs; `programs` are known ones, by the graph inside."""
    return {key: _with_program(task, programs) for key, task in tasks.items()}


def _with_program(task: GraphNode, programs: dict[Any, Any]) -> GraphNode:
    if not isinstance(task, Task) or task.func is not _execute_subgraph:
        return task
    inner, key, names, *values = task.args
    program: Any = programs.get((id(inner), key))
    if program is None:
        program = programs[id(inner), key] = as_one_task(key, with_programs(inner, programs)).func
    needed = dict(zip(names, values, strict=True))
    arguments = [needed[name] for name in program.inputs]
    return Task(task.key, program, *arguments, _data_producer=task.data_producer)


def without_aliases(tasks: Mapping[Any, GraphNode], wanted: Collection[Any]) -> dict[Any, GraphNode]:
    """The same tasks without the second names of results that nobody needs by that name; `wanted` ones remain."""
    others = {key: task.target for key, task in tasks.items() if isinstance(task, Alias) and key not in wanted}
    others = {key: target for key, target in others.items() if target in tasks}
    if not others:
        return dict(tasks)
    targets = {key: _last(target, others) for key, target in others.items()}
    return {key: with_names(task, targets) for key, task in tasks.items() if key not in targets}


def with_names(task: GraphNode, names: Mapping[Any, Any]) -> GraphNode:
    """The same task, which needs other results instead of those in `names`."""
    # Dask looks at all names for each task.
    needed = {key: names[key] for key in task.dependencies if key in names}
    return task.substitute(needed) if needed else task


def _last(key: Any, others: Mapping[Any, Any]) -> Any:
    while key in others:
        key = others[key]
    return key
