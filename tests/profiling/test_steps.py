"""A task runs step by step, with the same result, and its operations are measured separately."""

import itertools

import dask
import dask.array as da
import numpy as np
import pytest
from dask._task_spec import Task, TaskRef, convert_legacy_graph
from distributed.protocol.pickle import dumps, loads

from jupyter_gpudask.graph.optimize import ArrayOptimizer
from jupyter_gpudask.graph.subtrees import ClusterSize
from jupyter_gpudask.profiling.measurements import operation_of
from jupyter_gpudask.profiling.recording import run_steps
from jupyter_gpudask.worker.graphs import make_opaque


def numbers(shape=(40, 40), chunks=4):
    return da.random.RandomState(1).random_sample(shape, chunks=chunks)


COMPUTATIONS = {
    "a reduction": (lambda: (numbers() + 1).std(ddof=1), {"random", "add", "var", "sqrt"}),
    "slices": (lambda: (numbers() * 2)[::2, 1:].sum(axis=0), {"random", "mul", "indexing", "sum"}),
    "blocks that are kept": (lambda: (numbers() + 1) * 2, {"random", "add", "mul"}),
    "a constant": (lambda: da.ones((40, 4), chunks=1).sum() + np.float64(3), {"ones", "sum", "add"}),
    "transposed": (lambda: (numbers() + numbers().T).max(axis=0), {"random", "transpose", "add", "max"}),
    "delayed": (lambda: dask.delayed(sum)([dask.delayed(abs)(-number) for number in range(5)]), {"abs", "sum"}),
}


def graph_of(collection, *, fused):
    graph = collection.__dask_graph__()
    if isinstance(collection, da.Array):
        optimize = ArrayOptimizer(ClusterSize(1, 1)) if fused else da.optimization.optimize
        return dict(optimize(graph, collection.__dask_keys__()))
    return convert_legacy_graph(dict(graph))


def run(graph, on_step):
    values = {}
    waiting = dict(graph)
    while waiting:
        for key in [key for key, task in waiting.items() if values.keys() >= task.dependencies]:
            task = waiting.pop(key)
            values[key] = run_steps(task, {other: values[other] for other in task.dependencies}, on_step)
    return values


@pytest.mark.parametrize(("make", "expected"), COMPUTATIONS.values(), ids=COMPUTATIONS)
def test_the_steps_of_a_task_give_its_result_and_are_told_apart(make, expected):
    collection = make()
    result = collection.compute(scheduler="sync")
    for fused, opaque in itertools.product((False, True), repeat=2):
        graph = graph_of(collection, fused=fused)
        if opaque:
            graph = loads(dumps(make_opaque(graph)))
        steps = []
        values = run(graph, lambda step, needed, result, steps=steps: steps.append(operation_of(step.key)))
        assert expected <= set(steps)
        if not isinstance(collection, da.Array):
            assert values[collection.key] == result
            continue
        blocks = {key: np.asarray(values[key]) for key in dask.core.flatten(collection.__dask_keys__())}
        together = da.Array(blocks, collection.name, collection.chunks, meta=collection._meta)
        np.testing.assert_array_equal(np.asarray(together.compute(scheduler="sync")), np.asarray(result), strict=True)


def test_a_step_sees_what_it_needed_and_its_error_is_raised():
    task = Task("sum-1", lambda x, y: x + y, TaskRef("x"), 2)
    seen = []
    assert run_steps(task, {"x": 1}, lambda step, values, result: seen.append((step.key, values["x"], result))) == 3
    assert seen == [("sum-1", 1, 3)]
    with pytest.raises(ZeroDivisionError):
        run_steps(Task("div-1", lambda x: 1 / x, TaskRef("x")), {"x": 0}, lambda *_: None)


def test_an_operation_has_the_name_that_the_user_called():
    unique = "3d89768fb252a88f0bb2d866613cfe1c"
    for key, name in {
        (f"sum-partial-{unique}", 37, 0): "sum",
        (f"mean_agg-aggregate-{unique}",): "mean",
        (f"mean_chunk-{unique}", 1): "mean",
        (f"random_sample-var-{unique}", 3, 3): "random-var",
        (f"var-aggregate-_sqrt-{unique}",): "var",
        f"hlgfinalizecompute-{unique}": "result",
        f"train-{unique}": "train",
    }.items():
        assert operation_of(key) == name
