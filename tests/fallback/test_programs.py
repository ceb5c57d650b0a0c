"""Several tasks as one, whose steps fall back to the host."""

from itertools import count, pairwise

import cupy
import dask.array as da
import numpy as np
import pytest
from dask._task_spec import DataNode, Task, TaskRef

from jupyter_gpudask.errors import NotOnGpuError
from jupyter_gpudask.fallback.log import fallback_log
from jupyter_gpudask.fallback.tasks import ProgramWithFallback, with_fallback
from jupyter_gpudask.graph.optimize import ArrayOptimizer
from jupyter_gpudask.graph.program import as_one_task
from jupyter_gpudask.graph.subtrees import ClusterSize
from jupyter_gpudask.profiling.recording import run_steps
from jupyter_gpudask.worker.graphs import make_opaque

numbers = count()


def counted(function, calls):
    """The function as one of Dask, which is tried without the fallback first; `calls` has the types of its blocks."""

    def call(*blocks):
        calls.append(type(blocks[0]))
        return function(*blocks)

    call.__module__ = "dask.array"
    return call


def fused(*functions):
    """A graph of one task, in which each function gets the result of the one before, and the first one a block."""
    keys = [(f"layer-{next(numbers)}", 0) for _ in range(len(functions) + 1)]
    steps = [Task(new, function, TaskRef(old)) for (old, new), function in zip(pairwise(keys), functions, strict=True)]
    tasks = {node.key: node for node in (DataNode(keys[0], cupy.arange(3.0)), *steps)}
    return {keys[-1]: as_one_task(keys[-1], tasks)}


def run(graph, **options):
    (task,) = with_fallback(graph, **options).values()
    return task({})


def test_only_the_step_that_the_gpu_library_lacks_runs_on_the_host_and_each_other_one_once():
    calls = {"before": [], "lacking": [], "after": []}
    functions = (lambda block: block + 1, lambda block: block * np.asarray(block), lambda block: block - 1)
    graph = fused(*(counted(function, calls[name]) for name, function in zip(calls, functions, strict=True)))
    for given in (graph, {key: as_one_task(("outer", 0), {("outer", 0): task}) for key, task in graph.items()}):
        for made in calls.values():
            made.clear()
        result = run(given)
        assert (type(result), result.tolist()) == (cupy.ndarray, [0, 3, 8])
        assert calls["before"] == calls["after"] == [cupy.ndarray]
    # The second time, the function runs on the host at once, as for the other blocks of a collection.
    assert calls["lacking"] == [np.ndarray]


def multiplied(block):
    """As a method of cuDF, which returns this for what it does not know, where the operator raises an error."""
    return NotImplemented if isinstance(block, cupy.ndarray) else block * 2


def test_a_step_that_returns_not_implemented_runs_on_the_host():
    multiplied.__module__ = "dask.array"
    graph = fused(multiplied, lambda block: block - 1)
    single = {("single", 0): Task(("single", 0), multiplied, cupy.arange(3.0))}
    assert [run(graph).tolist(), run(single).tolist()] == [[-1, 1, 3], [0, 2, 4]]


def test_a_function_of_the_user_gets_copies_also_if_it_is_the_result_of_a_step():
    def changes_its_block(block):
        block[:] = 7
        return np.asarray(block)

    block = cupy.arange(3.0)
    for function in (Task(("function", 0), lambda: changes_its_block), DataNode(("function", 0), changes_its_block)):
        key = (f"layer-{next(numbers)}", 0)
        call = counted(lambda block, function: function(block), [])
        tasks = [DataNode(("block", 0), block), function, Task(key, call, TaskRef(("block", 0)), TaskRef(function.key))]
        assert run({key: as_one_task(key, {task.key: task for task in tasks})}).tolist() == [7, 7, 7]
        assert block.tolist() == [0, 1, 2]


def test_an_error_that_is_no_lack_is_raised_once_and_as_it_is():
    calls = []
    with pytest.raises(ZeroDivisionError) as raised:
        run(fused(counted(lambda _: 1 / 0, calls)))
    assert calls == [cupy.ndarray]
    assert raised.value.__context__ is None


def test_strict_refuses_a_step():
    calls = []
    with pytest.raises(NotOnGpuError) as raised:
        run(fused(counted(np.asarray, calls)), refuse=True)
    assert calls == [cupy.ndarray]
    assert raised.value.__context__ is None


def test_a_delayed_function_that_is_fused_with_blocks_does_not_run_again():
    calls = []
    delayed = Task("delayed", counted(np.asarray, calls), cupy.ones(2))
    key = ("blocks", 0)
    tasks = {"delayed": delayed, key: Task(key, abs, TaskRef("delayed"))}
    with pytest.raises(TypeError, match="Implicit conversion"):
        run({key: as_one_task(key, tasks)})
    assert calls == [cupy.ndarray]
    tasks["delayed"] = as_one_task("delayed", {"delayed": delayed})  # as Dask fuses several of them
    with pytest.raises(TypeError, match="Implicit conversion"):
        run({key: as_one_task(key, tasks)})
    assert calls == [cupy.ndarray] * 2


def test_delayed_functions_of_packages_that_are_fused_with_delayed_ones_only_fall_back_and_those_of_the_user_do_not():
    calls = []
    for function in (np.ma.masked_invalid, counted(np.asarray, calls)):
        inner = {"block": Task("block", cupy.ones, 2), "inner": Task("inner", abs, TaskRef("block"))}
        tasks = {"inner": as_one_task("inner", inner), "last": Task("last", function, TaskRef("inner"))}
        task = as_one_task("last", tasks)
        block = ("blocks", 0)
        fused = as_one_task(block, {"last": task, block: Task(block, cupy.asarray, TaskRef("last"))})
        for graph in ({"last": task}, {block: fused}):
            if function is not np.ma.masked_invalid:
                with pytest.raises(TypeError, match="Implicit conversion"):
                    run(graph)
            else:
                assert run(graph).tolist() == [1, 1]
    assert calls == [cupy.ndarray] * 2


def test_blocks_that_are_fused_under_the_name_of_a_delayed_function_fall_back():
    calls = []
    before, block, last = ("before", 0), ("block", 0), "finalize"
    inner = {
        block: Task(block, counted(np.asarray, calls), TaskRef(before)),
        last: Task(last, counted(abs, []), TaskRef(block)),
    }
    tasks = {before: Task(before, cupy.ones, 2), last: as_one_task(last, inner)}
    result = run({last: as_one_task(last, tasks)})
    assert (type(result), result.tolist()) == (cupy.ndarray, [1, 1])
    assert calls == [cupy.ndarray, np.ndarray]


def test_the_steps_fall_back_while_they_are_measured_and_after_a_pickle():
    graph = with_fallback(fused(abs, counted(np.asarray, []), abs))
    (task,) = make_opaque(graph).values()
    results = []
    result = run_steps(task, {}, lambda _step, _values, result: results.append(type(result)))
    assert (type(result), result.tolist()) == (cupy.ndarray, [0, 1, 2])
    assert results == [cupy.ndarray] * 3


def test_what_nobody_needs_to_wrap_stays_as_it_is(cell):
    cell()
    x = da.ones((64, 4), chunks=(1, 4)).sum()
    graph = ArrayOptimizer(ClusterSize(), is_on_gpus=True)(x.dask, x.__dask_keys__())
    programs = {key: task.func for key, task in with_fallback(graph).items()}
    assert any(isinstance(program, ProgramWithFallback) for program in programs.values())
    for key, program in programs.items():
        if isinstance(program, ProgramWithFallback):
            assert all(new is old for (new, _), (old, _) in zip(program.steps, graph[key].func.steps, strict=True))


def test_a_step_is_logged_by_the_collection_and_the_cell():
    fallback_log.note_cell("of the test")
    run(fused(abs, counted(np.asarray, []), abs), cell="of the test")
    assert [(place.operation, blocks) for place, blocks in fallback_log.blocks_of("of the test").items()] == [
        ("call", 1)
    ]
