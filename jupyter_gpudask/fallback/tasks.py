"""Graphs whose tasks, also those that are fused into one, fall back to the host."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache, lru_cache, partial
from typing import Any, NamedTuple

from dask._task_spec import (
    Alias,
    DataNode,
    GraphNode,
    NestedContainer,
    Task,
    TaskRef,
    _execute_subgraph,
    _identity_cast,
    convert_legacy_graph,
)
from dask.delayed import Delayed

from ..graph.program import Program, evaluated
from . import page_locked
from .file_readers import with_readers
from .host_call import DelayedCall, HostFallback, PackageFallback, lacking
from .host_parts import host_task, host_threads, is_host_task
from .missing import implemented, reason_to_fall_back
from .read_ahead import Read, ReadAhead, read_ahead
from .twins import with_twin
from .values import has_function_of_user, is_of_installed_package, is_of_linear_algebra

RunStep = Callable[[GraphNode, Mapping[Any, Any]], Any]

_OF_FUSION = re.compile(r"(_\.\d+)+$")  # what Dask adds to the name of a collection inside a fused task


def with_fallback(graph: Mapping[Any, Any], *, cell: str = "", refuse: bool = False) -> dict[Any, GraphNode]:
    """The same graph, in which the functions of blocks and partitions fall back to the host.

    Of the tasks of `dask.delayed` and of futures, whose keys are strings, the user's functions run once: they may
    have side effects. They may convert blocks on the GPU. Those of installed packages, which libraries such as
    `dask.array.stats` and dask-image call there, fall back if they get nothing of the user. Dask may fuse the only
    block of an array with a task of `dask.delayed`; then the functions of the block fall back.
    """
    wrapper = TaskWrapper(cell, refuse=refuse)
    nodes = convert_legacy_graph(dict(graph))
    return {
        key: wrapper.node(node, key) if isinstance(key, tuple) or _fuses_blocks(node) else wrapper.delayed(node, key)
        for key, node in nodes.items()
    }


def _fuses_blocks(node: GraphNode) -> bool:
    """Whether tasks of blocks are fused in a task."""
    return any(isinstance(key, tuple) for key in _fused_tasks(node) or ())


def _fused_tasks(node: Any) -> Mapping[Any, GraphNode] | None:
    """The tasks that are fused in a task, by key; `None` if it is a single one."""
    function = getattr(node, "func", None)
    if function is _execute_subgraph:
        tasks: Mapping[Any, GraphNode] = node.args[0]
        return tasks
    return {step.key: step for step, _ in function.steps} if isinstance(function, Program) else None


class WithFallback:
    """An expression as a client submits it, whose graph falls back to the host."""

    def __init__(self, expression: Any, *, cell: str = "", refuse: bool = False) -> None:
        self._expression = expression
        self._cell = cell
        self._refuse = refuse

    def __dask_graph__(self) -> dict[Any, GraphNode]:
        return with_fallback(self._expression.__dask_graph__(), cell=self._cell, refuse=self._refuse)

    def __dask_annotations__(self) -> Any:
        return self._expression.__dask_annotations__()


class TaskWrapper:
    """Wraps the functions of one graph; equal functions of a layer, and what fused tasks share, stay one object."""

    _kind = HostFallback

    def __init__(self, cell: str, *, refuse: bool) -> None:
        self._cell = cell
        self._refuse = refuse
        self._wrapped: dict[tuple[int, str], HostFallback] = {}
        self._fused: dict[int, Any] = {}
        self._functions: dict[int, bool] = {}
        self._changes: dict[int, bool] = {}

    def node(self, node: Any, key: Any) -> Any:
        """A node of a graph, or an argument of a task, which belongs to the task `key`."""
        if isinstance(node, DataNode) and _has_delayed(node.value):
            return DataNode(node.key, self._inside(node.value))
        # Plugins of the scheduler read the tasks of distributed, such as the barrier of a shuffle.
        is_of_scheduler = type(node).__module__.startswith("distributed")
        return self._task(node, key) if isinstance(node, Task) and not is_of_scheduler else node

    def _inside(self, value: Any) -> Any:
        """A delayed object among the data of a graph, or a list of such, which a task computes, with the fallback."""
        if type(value) is list:
            return list(map(self._inside, value))
        if not isinstance(value, Delayed):
            return value
        graph = value.__dask_optimize__(value.__dask_graph__(), value.__dask_keys__())
        return Delayed(value.key, with_fallback(graph, cell=self._cell, refuse=self._refuse))

    def delayed(self, node: Any, key: Any) -> Any:
        """A task of `dask.delayed` or of a future; those of installed packages fall back, those of the user convert."""
        return DelayedWrapper(self._cell, refuse=self._refuse).node(node, key)

    def step(self, task: Any, program: Program) -> Any:
        """A task of a program."""
        is_delayed = _is_named_as_delayed(task, program)
        return self.delayed(task, task.key) if is_delayed else self.node(task, task.key)

    def _task(self, task: Any, key: Any) -> Any:
        changed = _copied(task)
        if isinstance(task.func, Program):
            changed.func = self._once(self._program, task.func)
            return changed
        if task.func is _execute_subgraph:
            inner, *others = task.args
            changed.args = (self._once(self._tasks, inner), *others)
            return changed
        if any(isinstance(arg, Task | DataNode) for arg in task.args):
            changed.args = tuple(self.node(arg, key) for arg in task.args)
        if task.kwargs:
            changed.kwargs = {name: self.node(arg, key) for name, arg in task.kwargs.items()}
        if not _is_container(task):
            changed.func = self._function(task.func, layer_of(key))
        return changed

    def _once(self, change: Callable[[Any], Any], fused: Any) -> Any:
        """`change` of what fused tasks run; of what several of them have in common it is the same object."""
        if id(fused) not in self._fused:
            self._fused[id(fused)] = change(fused)
        return self._fused[id(fused)]

    def _program(self, program: Program) -> Program:
        if isinstance(program, ProgramWithFallback):
            return program
        steps = program.steps
        if self._must_change(program):
            given = [step for step, _ in steps]
            # A value may be a function of the user, which other tasks get as an argument.
            all_of_them = any(has_function_of_user(task.value) for task in given if isinstance(task, DataNode))
            changed = {
                task.key: self.step(task, program)
                for task in given
                if isinstance(task, Task) and (all_of_them or self._is_to_wrap(task) or _is_delayed(task, program))
            }
            changed |= {step.key: self.node(step, step.key) for step in given if isinstance(step, DataNode)}
            steps = [(changed.get(step.key, step), last) for step, last in steps]
        return ProgramWithFallback(steps, program.inputs, program.blocks, self._cell, self._refuse)

    def _must_change(self, program: Program) -> bool:
        """Whether some steps of a program cannot be tried as they are."""
        if isinstance(program, ProgramWithFallback):
            return False
        if id(program) not in self._changes:
            self._changes[id(program)] = any(
                self._is_to_wrap(step)
                if isinstance(step, Task)
                else isinstance(step, DataNode) and (has_function_of_user(step.value) or _has_delayed(step.value))
                for step, _ in program.steps
            )
        return self._changes[id(program)]

    def _is_to_wrap(self, task: Task) -> bool:
        """Whether a task cannot be tried as it is: it may change its blocks before it fails, or has several steps."""
        function = task.func
        is_to_wrap = self._functions.get(id(function))
        if is_to_wrap is None:
            is_to_wrap = self._functions[id(function)] = (
                self._must_change(function)
                if isinstance(function, Program)
                else function is _execute_subgraph or has_function_of_user(function) or is_of_linear_algebra(function)
            )
        return is_to_wrap or _have_function(task.args) or (bool(task.kwargs) and _have_function(task.kwargs.values()))

    def _tasks(self, tasks: Mapping[Any, Any]) -> dict[Any, Any]:
        """The tasks inside a fused one. Where some are named by blocks, a string is the name of a delayed function."""
        has_blocks = any(isinstance(key, tuple) for key in tasks)
        return {
            key: self.delayed(task, key) if has_blocks and isinstance(key, str) else self.node(task, key)
            for key, task in tasks.items()
        }

    def _function(self, function: Any, layer: str) -> HostFallback:
        if isinstance(function, HostFallback):
            return function
        place = id(function), layer
        if place not in self._wrapped:
            self._wrapped[place] = self._kind(function, layer, cell=self._cell, refuse=self._refuse)
        return self._wrapped[place]


class DelayedWrapper(TaskWrapper):
    """The same for tasks of `dask.delayed`, which lets the functions of the user convert their blocks."""

    _kind = PackageFallback

    def _function(self, function: Any, layer: str) -> HostFallback:
        return super()._function(function if isinstance(function, HostFallback) else with_twin(function), layer)

    def node(self, node: Any, key: Any) -> Any:
        """As for `TaskWrapper`."""
        if getattr(node, "func", None) is _execute_subgraph:
            changed = _copied(node)
            inner, *others = node.args
            changed.args = ({name: self.node(task, name) for name, task in inner.items()}, *others)
            return changed
        if isinstance(getattr(node, "func", None), Program):
            changed = _copied(node)
            changed.func = self._program(node.func)
            return changed
        if _is_of_package(node):
            return super().node(node, key)
        is_function = isinstance(node, Task) and not _is_container(node) and not isinstance(node.func, HostFallback)
        if not is_function or type(node).__module__.startswith("distributed"):
            return node
        changed = _copied(node)
        changed.func = DelayedCall(node.func)
        return changed

    def _program(self, program: Program) -> Program:
        if _has_blocks(program):
            return TaskWrapper(self._cell, refuse=self._refuse)._program(program)  # noqa: SLF001 - of its parent
        return Program(
            [(self.node(step, step.key), last) for step, last in program.steps], program.inputs, program.blocks
        )


def _has_delayed(value: Any) -> bool:
    """Whether this is a delayed object, or a list that has some, as of a bag."""
    return isinstance(value, Delayed) or (type(value) is list and any(isinstance(each, Delayed) for each in value))


def _is_container(task: Task) -> bool:
    """Whether a task only makes a list, a tuple, a set or a dictionary."""
    return task.func is _identity_cast or isinstance(task, NestedContainer)


def _have_function(arguments: Iterable[Any]) -> bool:
    """Whether one of the arguments of a task is, or has, a function of the user or a task of its own."""
    for argument in arguments:
        kind = type(argument)
        if kind is TaskRef or kind is Alias:
            continue
        if issubclass(kind, Task) and _is_container(argument):
            if _have_function(argument.args):
                return True
        elif kind is DataNode:
            if has_function_of_user(argument.value):
                return True
        elif issubclass(kind, Task) or has_function_of_user(argument):
            return True
    return False


def _has_blocks(program: Program) -> bool:
    """Whether some steps are named by blocks; then a string is the name of a delayed function."""
    return any(isinstance(step.key, tuple) for step, _ in program.steps)


class ProgramWithFallback(Program):
    """A program whose steps fall back to the host.

    A step runs as it is; only if it fails, and the GPU library lacks something, it runs on the host. Those steps that a
    `TaskWrapper` has wrapped already see to that themselves.
    """

    __slots__ = ("cell", "refuse")

    def __init__(self, steps: Any, inputs: tuple[Any, ...], blocks: int, cell: str, refuse: bool) -> None:
        super().__init__(steps, inputs, blocks)
        self.cell = cell
        self.refuse = refuse

    def run(self, values: dict[Any, Any], run_step: RunStep) -> Any:
        """As for `Program`."""
        plugin = host_threads()
        run = _Run(self, values, run_step, TaskWrapper(self.cell, refuse=self.refuse), plugin=plugin)
        if run_step is not operator.call:  # each step is measured
            return run.result(values)
        with read_ahead(run.reads(values), plugin) as run.ahead:
            return run.result(values)

    def __reduce__(self) -> tuple[Any, ...]:
        return ProgramWithFallback, (self.steps, self.inputs, self.blocks, self.cell, self.refuse)


class _Run:
    """A run of a program with steps that fall back; those of a program inside do so, too.

    - `plugin`: what decides about parts on the host.
    - `ahead`: the blocks that are read before their steps.
    - `place`: the keys of the steps whose programs contain this one.
    """

    def __init__(
        self,
        program: Program,
        values: Mapping[Any, Any],
        run_step: RunStep,
        wrapper: TaskWrapper,
        *,
        plugin: Any,
        ahead: ReadAhead | None = None,
        place: tuple[Any, ...] = (),
    ) -> None:
        self._program, self._run_step, self._wrapper = program, run_step, wrapper
        self._plugin, self.ahead, self._place = plugin, ahead, place
        self._wraps = any(map(has_function_of_user, values.values()))
        self._moved = _moved_to_gpu(program)

    def result(self, values: dict[Any, Any]) -> Any:
        """The result of the program."""
        return Program.run(self._program, values, self._step)

    def reads(self, values: Mapping[Any, Any]) -> Iterator[Read]:
        """The steps that read blocks for the GPU, and need no other step, in their order."""
        if not self._moved.is_any:
            return
        known = {**values, **{step.key: step.value for step, _ in self._program.steps if isinstance(step, DataNode)}}
        for step, _ in self._program.steps:
            if not isinstance(step, Task) or not step.dependencies <= known.keys():
                continue
            if self._is_program(step):
                inner, needed = self._inner(step, known)
                yield from inner.reads(needed)
            elif step.key in self._moved.keys:
                needed = {key: known[key] for key in step.dependencies}  # the others are released after their last use
                is_on_host = partial(is_host_task, step, needed)
                yield Read((*self._place, step.key), is_on_host, partial(self._result_of, step, needed))

    def _is_program(self, task: GraphNode) -> bool:
        return type(task) is Task and isinstance(task.func, Program) and not _is_delayed(task, self._program)

    def _inner(self, task: Any, values: Mapping[Any, Any]) -> tuple[_Run, dict[Any, Any]]:
        needed = dict(zip(task.func.inputs, evaluated(task.args, values), strict=True))
        around = {"plugin": self._plugin, "ahead": self.ahead, "place": (*self._place, task.key)}
        return _Run(task.func, needed, self._run_step, self._wrapper, **around), needed

    def _step(self, task: Any, values: Mapping[Any, Any]) -> Any:
        if self._is_program(task):
            inner, needed = self._inner(task, values)
            return inner.result(needed)
        read = self.ahead.take((*self._place, task.key)) if self.ahead is not None else None
        result = self._result_of(task, values) if read is None else read()
        self._wraps = self._wraps or has_function_of_user(result)
        return result

    def _result_of(self, task: Any, values: Mapping[Any, Any]) -> Any:
        is_program = type(task) is Task and type(task.func) is Program
        if is_program or self._wraps or (lacking.layers and layer_of(task.key) in lacking.layers):
            return self._run_step(self._wrapper.step(task, self._program), values)
        try:
            is_moved = task.key in self._moved.keys
            with host_task(task, values, self._plugin):
                step, given = with_readers(task, values) if is_moved else (task, values)
                result = implemented(self._run_step(step, given))
                return page_locked.lock_pages(result) if is_moved else result
        except Exception as error:
            on_host = _after_failure(task, self._program, self._wrapper, error)
            if on_host is None:
                raise
        # Outside of the handler, so that an error of the second call has no context.
        try:
            return self._run_step(on_host, values)
        finally:
            del on_host  # the traceback of the failure refers to this frame, and so to the blocks


class _Moved(NamedTuple):
    """What is moved to the GPU in a program, such as blocks that are read from a file."""

    keys: frozenset[Any]  # of the results of steps, and of inputs, that a step or a program in it moves
    is_any: bool  # whether there are such results, also in the programs in it


def _moved_to_gpu(program: Program) -> _Moved:
    if program.moved is None:
        moved: set[Any] = set()
        is_any = False
        step: Any
        for step, _ in program.steps:
            function: Any = getattr(step, "func", None)
            if isinstance(function, Program):
                inside = _moved_to_gpu(function)
                is_any = is_any or inside.is_any
                arguments: Any = zip(function.inputs, step.args, strict=True) if inside.keys else ()
                moved.update(each.key for name, each in arguments if name in inside.keys and isinstance(each, TaskRef))
            elif getattr(function, "__name__", "") == "to_cupy":
                moved |= step.dependencies
        program.moved = _Moved(frozenset(moved), is_any or bool(moved))
    found: _Moved = program.moved
    return found


def _is_delayed(task: GraphNode, program: Program) -> bool:
    """Whether a step is a delayed function of the user, which may have side effects."""
    return _is_named_as_delayed(task, program) and not _is_of_package(task)


def _is_named_as_delayed(task: GraphNode, program: Program) -> bool:
    """Whether a step has the name of a delayed function; blocks that are fused with one have its name, too."""
    if not isinstance(task.key, str) or not _has_blocks(program):
        return False
    function = getattr(task, "func", None)
    return not (isinstance(function, Program) and _has_blocks(function))


def _is_of_package(task: GraphNode) -> bool:
    """Whether a task calls a function of an installed package."""
    if not isinstance(task, Task) or task.func is _execute_subgraph or isinstance(task.func, Program):
        return False
    return is_of_installed_package(task.func)


def _after_failure(task: Any, program: Program, wrapper: TaskWrapper, error: Exception) -> Any:
    """The task that runs on the host what failed with `error`; `None` if the error is to be raised."""
    if not reason_to_fall_back(error):
        return None
    changed = wrapper.step(task, program)
    # What was wrapped before has seen to it itself: the host has failed, too.
    if changed is task or not isinstance(changed.func, HostFallback) or changed.func is task.func:
        return None
    changed.func = partial(changed.func.after_failure, error)
    return changed


def layer_of(key: Any) -> str:
    """The name of a collection, from the key of a task."""
    return _without_fusion(str(key[0] if isinstance(key, tuple) else key))


@lru_cache(maxsize=1024)
def _without_fusion(name: str) -> str:
    return _OF_FUSION.sub("", name)


def _copied(task: Any) -> Any:
    """A copy of a task, without what it has cached; `copy.copy` takes ten times as long."""
    kind: Any = type(task)
    made = object.__new__(kind)
    for slot in _slots_of(kind):
        setattr(made, slot, getattr(task, slot, None))
    made._token = made._repr = None
    return made


@cache
def _slots_of(kind: type[Task]) -> tuple[str, ...]:
    return tuple(kind.get_all_slots())
