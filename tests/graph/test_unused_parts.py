"""Q is not computed where only R is needed, and on GPUs no singular vectors where only the values are."""

import operator

import dask
import dask.array as da
import numpy as np
import pytest
from dask._task_spec import Task, TaskRef, _execute_subgraph, execute_graph
from dask.array.linalg import _wrapped_qr
from dask.highlevelgraph import HighLevelGraph

from jupyter_gpudask.fallback.values import is_of_linear_algebra
from jupyter_gpudask.graph.decompositions import r_only, values_only, without_unused_parts
from jupyter_gpudask.graph.optimize import ArrayOptimizer
from jupyter_gpudask.graph.program import Program
from jupyter_gpudask.graph.subtrees import ClusterSize

ONLY_R = {
    "singular values": lambda x: da.linalg.svd(x)[1],
    "R": lambda x: da.linalg.qr(x)[1],
    "V": lambda x: da.linalg.svd(x)[2],
    "of what is computed in the same task": lambda x: da.linalg.svd(x * 2 + 1)[1],
    "of an array with unknown shape": lambda x: da.linalg.svd(x[x[:, 0] > 0.5])[1],
    "of blocks without rows": lambda x: da.linalg.qr(x[x[:, 0] > 0.999])[1],
    "of one block": lambda x: da.linalg.qr(x.rechunk(-1))[1],
}
ALL = {
    "U": lambda x: da.linalg.svd(x)[0],
    "Q": lambda x: da.linalg.qr(x)[0],
    "Q of one block": lambda x: da.linalg.qr(x.rechunk(-1))[0],
    "Q and R": lambda x: da.linalg.qr(x)[0] @ da.linalg.qr(x)[1],
}


ONLY_VALUES = {
    "singular values": lambda x: da.linalg.svd(x)[1],
    "singular values of one block": lambda x: da.linalg.svd(x.rechunk(-1))[1],
    "singular values of a wide array": lambda x: da.linalg.svd(x.T)[1],
    "spectral norm": lambda x: da.linalg.norm(x, 2),
    "nuclear norm": lambda x: da.linalg.norm(x, "nuc"),
}
VECTORS = {
    "U": lambda x: da.linalg.svd(x)[0],
    "V": lambda x: da.linalg.svd(x)[2],
    "values and V": lambda x: (da.linalg.svd(x)[1][:, None] * da.linalg.svd(x)[2]).sum(),
}


def numbers():
    return da.random.RandomState(1).random_sample((2000, 10), chunks=(100, 10))


def optimized(arrays, size, *, is_on_gpus=False):
    keys = [array.__dask_keys__() for array in arrays]
    graph = HighLevelGraph.from_collections("all", {}, dependencies=arrays)
    return ArrayOptimizer(size, is_on_gpus)(graph, keys)


def functions(graph):
    for task in graph.values():
        inner = getattr(task, "func", None)
        if inner is _execute_subgraph:
            yield from functions(task.args[0])
        elif isinstance(inner, Program):
            yield from functions({step.key: step for step, _ in inner.steps})
        else:
            yield inner


@pytest.mark.parametrize("size", [ClusterSize(1, 1), ClusterSize(2, 40)], ids=["fused", "not fused"])
@pytest.mark.parametrize("make", [*ONLY_R.values(), *ALL.values()], ids=[*ONLY_R, *ALL])
def test_each_number_is_that_of_dasks_own_graph(make, size):
    expected = make(numbers()).compute(scheduler="sync")
    with dask.config.set(array_optimize=ArrayOptimizer(size)):
        np.testing.assert_array_equal(make(numbers()).compute(scheduler="sync"), expected, strict=True)


@pytest.mark.parametrize("size", [ClusterSize(1, 1), ClusterSize(2, 40)], ids=["fused", "not fused"])
@pytest.mark.parametrize("make", ONLY_R.values(), ids=ONLY_R)
def test_only_r_is_computed(make, size):
    found = list(functions(optimized([make(numbers())], size)))
    assert r_only in found
    assert _wrapped_qr not in found
    assert np.linalg.qr not in found


@pytest.mark.parametrize("make", ALL.values(), ids=ALL)
def test_all_is_computed_where_q_is_needed(make):
    assert r_only not in functions(optimized([make(numbers())], ClusterSize(2, 40)))


def test_a_decomposition_is_computed_once_for_q_and_r():
    assert r_only not in functions(optimized(da.linalg.qr(numbers()), ClusterSize(2, 40)))


def test_a_key_never_has_two_meanings():
    u, s, _ = da.linalg.svd(numbers() + 1)
    whole, values = (optimized([array], ClusterSize(2, 40)) for array in (u, s))
    only_r = {key for key, task in values.items() if r_only in functions({key: task})}
    assert only_r
    assert not only_r & whole.keys()


SIZES = pytest.mark.parametrize("size", [ClusterSize(1, 1), ClusterSize(2, 40)], ids=["fused", "not fused"])


@SIZES
@pytest.mark.parametrize("make", [*ONLY_VALUES.values(), *VECTORS.values()], ids=[*ONLY_VALUES, *VECTORS])
def test_on_gpus_singular_values_are_those_of_dasks_own_graph_but_for_their_last_digits(make, size):
    expected = make(numbers()).compute(scheduler="sync")
    with dask.config.set(array_optimize=ArrayOptimizer(size, is_on_gpus=True)):
        found = make(numbers()).compute(scheduler="sync")
    assert found.dtype == expected.dtype
    np.testing.assert_allclose(found, expected, rtol=1e-13, atol=1e-13)


@SIZES
@pytest.mark.parametrize("make", ONLY_VALUES.values(), ids=ONLY_VALUES)
def test_on_gpus_only_the_values_are_computed(make, size):
    found = list(functions(optimized([make(numbers())], size, is_on_gpus=True)))
    assert values_only in found
    assert np.linalg.svd not in found
    assert values_only not in functions(optimized([make(numbers())], size))


@SIZES
@pytest.mark.parametrize("make", VECTORS.values(), ids=VECTORS)
def test_on_gpus_vectors_are_computed_where_they_are_needed(make, size):
    assert values_only not in functions(optimized([make(numbers())], size, is_on_gpus=True))


@pytest.mark.parametrize("array", [[[1.0, 2.0], [3.0, 4.0]], np.ones((3, 2, 2)), np.ones((0, 2, 2))])
def test_what_numpys_qr_takes_besides_a_matrix_is_decomposed_as_by_numpy(array):
    def r():
        return da.from_delayed(dask.delayed(np.linalg.qr)(array)[1], np.shape(array), float)

    expected = r().compute(scheduler="sync")
    with dask.config.set(array_optimize=ArrayOptimizer(ClusterSize(1, 1))):
        np.testing.assert_array_equal(r().compute(scheduler="sync"), expected, strict=True)


@pytest.mark.parametrize("order", [1, -1])
def test_of_the_qr_decomposition_of_an_r_only_r_is_computed_too(order):
    tasks = [
        Task("numbers", np.ones, (4, 2)),
        Task("inner", _wrapped_qr, TaskRef("numbers")),
        Task("r", operator.getitem, TaskRef("inner"), 1),
        Task("outer", _wrapped_qr, TaskRef("r")),
        Task("r of r", operator.getitem, TaskRef("outer"), 1),
    ]
    graph = {task.key: task for task in tasks[::order]}
    changed = without_unused_parts(graph, {"r of r"}, {_wrapped_qr: r_only})
    assert _wrapped_qr not in set(functions(changed))
    results = execute_graph(changed, keys={"r of r"})
    np.testing.assert_array_equal(results["r of r"], execute_graph(graph, keys={"r of r"})["r of r"])


def test_values_that_do_not_converge_are_an_error_where_cupy_would_return_numbers_without_a_meaning():
    assert is_of_linear_algebra(values_only)
    with pytest.raises(np.linalg.LinAlgError):
        values_only(np.full((3, 3), np.nan))
