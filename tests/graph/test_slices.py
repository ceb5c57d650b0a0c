"""Slices are taken before the arithmetic."""

import dask
import dask.array as da
import numpy as np
import pytest
from dask._task_spec import _execute_subgraph
from dask.array.optimization import optimize

from jupyter_gpudask.graph.rechunk import take_contiguous
from jupyter_gpudask.graph.slices import slice_first

COMPUTATIONS = {
    "a number added": lambda x: (x + 1)[::2, ::2],
    "a number on the left": lambda x: (2 - x)[5:, ::3],
    "several functions": lambda x: da.exp(-((x * 2) ** 2))[::2],
    "an array with itself": lambda x: (x * x)[::2, 1:7],
    "where": lambda x: da.where(x > 0.5, x, 0)[::2],
    "a function of NumPy's": lambda x: np.sqrt(x)[3:40],
}
OTHERS = {
    "a reduction": lambda x: x.sum(axis=1, keepdims=True)[::2],
    "cumulative": lambda x: x.map_blocks(np.cumsum, axis=0)[::2],
    "a ufunc of matrices": lambda x: da.map_blocks(np.matmul, x, x)[::2, ::2],
    "a ufunc of vectors": lambda x: da.map_blocks(np.vecdot, x, x, drop_axis=1)[::2],
    "two arrays": lambda x: (x + x.T)[::2],
    "a row added to each": lambda x: (x + da.ones((1, 400), chunks=(1, 100)))[::2],
    "a column of numbers": lambda x: (x + np.arange(400))[::2],
    "an integer index": lambda x: (x + 1)[3],
    "a new axis": lambda x: (x + 1)[None, ::2],
    "a list": lambda x: (x + 1)[[1, 5, 7]],
}


def numbers():
    return da.random.RandomState(1).random_sample((400, 400), chunks=100)


def rewritten(array):
    """Before and after, with how many elements each task of a fused task has computed."""
    graph = dict(optimize(array.__dask_graph__(), array.__dask_keys__()))
    for key, task in graph.items():
        if getattr(task, "func", None) is _execute_subgraph:
            inner, *rest = task.args
            yield key, inner, slice_first(inner), rest


@pytest.mark.parametrize("make", [*COMPUTATIONS.values(), *OTHERS.values()], ids=[*COMPUTATIONS, *OTHERS])
def test_the_numbers_stay_the_same(make):
    array = make(numbers())
    expected = array.compute(scheduler="sync")

    def optimize_with_slices(graph, keys, **_):
        graph = dict(optimize(graph, keys))
        for task in graph.values():
            if getattr(task, "func", None) is _execute_subgraph:
                task.args = (slice_first(task.args[0]), *task.args[1:])
        return graph

    with dask.config.set(array_optimize=optimize_with_slices):
        np.testing.assert_array_equal(make(numbers()).compute(scheduler="sync"), expected, strict=True)


@pytest.mark.parametrize("name", [*COMPUTATIONS, *OTHERS])
def test_the_slice_comes_first_where_it_commutes_with_the_function(name):
    found = list(rewritten((COMPUTATIONS | OTHERS)[name](numbers())))
    assert found or name in OTHERS
    for _, before, after, _ in found:
        assert after.keys() == before.keys()
        changed = [task for key, task in after.items() if task is not before[key]]
        assert changed if name in COMPUTATIONS else all(task.func is take_contiguous for task in changed)


def test_what_others_need_stays_whole():
    x = numbers()
    y = (x + 1).map_blocks(lambda block: block[::2].sum() + block.sum(), dtype=float)
    for _, before, after, _ in rewritten(y):
        assert after == before
