"""Decompositions without parts that nobody needs, and on GPUs one for neighbouring blocks if only values are wanted."""

import operator

import dask
import dask.array as da
import numpy as np
import pytest
from dask._task_spec import Alias, Task, TaskRef, _execute_subgraph, execute_graph
from dask.array.linalg import _wrapped_qr
from dask.highlevelgraph import HighLevelGraph
from dask.local import get_sync

from jupyter_gpudask.fallback.values import is_of_linear_algebra
from jupyter_gpudask.graph.decompositions import r_of_stack, r_only, values_only, without_unused_parts
from jupyter_gpudask.graph.optimize import ArrayOptimizer
from jupyter_gpudask.graph.program import Program
from jupyter_gpudask.graph.subtrees import ClusterSize

ONLY_R_IS_NEEDED = {
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


def matrix():
    return da.random.RandomState(1).random_sample((2000, 10), chunks=(100, 10))


def optimized(arrays, size, *, is_on_gpus=False):
    keys = [array.__dask_keys__() for array in arrays]
    graph = HighLevelGraph.from_collections("all", {}, dependencies=arrays)
    return ArrayOptimizer(size, is_on_gpus)(graph, keys)


def steps(graph):
    """All tasks, also those inside of others."""
    for task in graph.values():
        function = getattr(task, "func", None)
        if function is _execute_subgraph:
            yield from steps(task.args[0])
        elif isinstance(function, Program):
            yield from steps({step.key: step for step, _ in function.steps})
        else:
            yield task


def functions(graph):
    return [getattr(task, "func", None) for task in steps(graph)]


BOTH_SIZES = pytest.mark.parametrize("size", [ClusterSize(1, 1), ClusterSize(2, 40)], ids=["fused", "not fused"])


@BOTH_SIZES
@pytest.mark.parametrize("make", [*ONLY_R_IS_NEEDED.values(), *ALL.values()], ids=[*ONLY_R_IS_NEEDED, *ALL])
def test_each_number_is_that_of_dasks_own_graph(make, size):
    expected = make(matrix()).compute(scheduler="sync")
    with dask.config.set(array_optimize=ArrayOptimizer(size)):
        np.testing.assert_array_equal(make(matrix()).compute(scheduler="sync"), expected, strict=True)


@BOTH_SIZES
@pytest.mark.parametrize("make", ONLY_R_IS_NEEDED.values(), ids=ONLY_R_IS_NEEDED)
def test_only_r_is_computed(make, size):
    found = functions(optimized([make(matrix())], size))
    assert r_only in found
    assert not {_wrapped_qr, np.linalg.qr} & {*found}


@pytest.mark.parametrize("make", [*ALL.values(), da.linalg.qr], ids=[*ALL, "both parts"])
def test_all_is_computed_once_where_q_is_needed(make):
    made = make(matrix())
    assert r_only not in functions(optimized(made if isinstance(made, tuple) else [made], ClusterSize(2, 40)))


def test_a_key_has_one_meaning_with_and_without_unused_parts():
    u, s, _ = da.linalg.svd(matrix() + 1)
    whole, values = (optimized([array], ClusterSize(2, 40)) for array in (u, s))
    only_r = {key for key, task in values.items() if r_only in functions({key: task})}
    assert only_r
    assert not only_r & whole.keys()


@BOTH_SIZES
@pytest.mark.parametrize("name", [*ONLY_VALUES, *VECTORS])
def test_on_gpus_vectors_are_computed_only_where_they_are_needed(name, size):
    """The values are those of Dask's own graph, but for their last digits."""
    make = (ONLY_VALUES | VECTORS)[name]
    expected = make(matrix()).compute(scheduler="sync")
    with dask.config.set(array_optimize=ArrayOptimizer(size, is_on_gpus=True)):
        found = make(matrix()).compute(scheduler="sync")
    assert found.dtype == expected.dtype
    np.testing.assert_allclose(found, expected, rtol=1e-13, atol=1e-13)
    computed = functions(optimized([make(matrix())], size, is_on_gpus=True))
    assert (values_only in computed) == (name in ONLY_VALUES)
    assert name in VECTORS or np.linalg.svd not in computed
    assert values_only not in functions(optimized([make(matrix())], size))


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


ONE = ClusterSize(1, 1)


def numbers(shape=(2000, 10), chunks=(100, 10)):
    return da.random.RandomState(1).normal(size=shape, chunks=chunks)


def optimizer(size=ONE, largest_stack=10**9):
    return ArrayOptimizer(size, is_on_gpus=True, largest_stack=largest_stack)


def graph_of(arrays, *options):
    graph = HighLevelGraph.from_collections("all", {}, dependencies=arrays)
    return optimizer(*options)(graph, [array.__dask_keys__() for array in arrays])


def assert_as_dask(*arrays, rtol=1e-13):
    expected = dask.compute(*arrays, scheduler="sync")
    with dask.config.set(array_optimize=optimizer()):
        found = dask.compute(*arrays, scheduler="sync")
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=rtol, atol=rtol)


def heights(graph):
    """How many blocks each stack has."""
    return sorted(len(task.args) for task in steps(graph) if getattr(task, "func", None) is r_of_stack)


STACKED = {
    "tall and skinny": numbers,
    "with arithmetic": lambda: numbers() * 2 + 1,
    "of two random arrays": lambda: numbers() + da.random.RandomState(2).normal(size=(2000, 10), chunks=(100, 10)),
    "odd chunk sizes": lambda: numbers((1003, 7), ((100, 1, 333, 69, 200, 200, 100), 7)),
    "blocks without rows": lambda: numbers((300, 7), ((100, 0, 100, 100), 7)),
    "blocks that are wide": lambda: numbers((60, 10), (4, 10)),
    "fewer rows than columns": lambda: numbers((8, 10), (4, 10)),
    "complex": lambda: numbers() * 1j + da.random.RandomState(2).normal(size=(2000, 10), chunks=(100, 10)),
    "float32": lambda: da.full((2000, 10), 0.5, dtype="f4", chunks=(100, 10)) + np.float32(1),
    "a column": lambda: numbers((500, 1), (50, 1)),
    "integers": lambda: da.ones((2000, 10), dtype=int, chunks=(100, 10)),
}
LEFT_ALONE = {
    "a single chunk": lambda: numbers((200, 10), (200, 10)),
    "blocks of a function": lambda: numbers().map_blocks(lambda block: block + 1, dtype=float),
    "blocks of a size that is not known": lambda: numbers()[numbers()[:, 0] > 0],
    "blocks of an array in memory": lambda: da.from_array(numbers().compute(scheduler="sync"), chunks=(100, 10)),
    "blocks that are there already": lambda: numbers().persist(scheduler="sync"),
    "a wide array": lambda: numbers((10, 2000), (10, 100)),
}


@pytest.mark.filterwarnings("ignore:Casting complex values")  # by Dask, of an array without rows
@pytest.mark.parametrize("make", [*STACKED.values(), *LEFT_ALONE.values()], ids=[*STACKED, *LEFT_ALONE])
def test_singular_values_are_those_of_numpy(make):
    block = make().compute(scheduler="sync")
    expected = np.linalg.svd(block, compute_uv=False)
    values = da.linalg.svd(make())[1]
    of_dask = values.compute(scheduler="sync")
    precision = 2e-6 if block.dtype == "f4" else 1e-13
    for size in (ONE, ClusterSize(2, 2), ClusterSize(8, 8)):
        with dask.config.set(array_optimize=optimizer(size)):
            found = values.compute(scheduler="sync")
        assert (found.dtype, found.shape) == (of_dask.dtype, of_dask.shape)
        np.testing.assert_allclose(found, expected, rtol=precision, atol=precision * expected.max())


@pytest.mark.filterwarnings("ignore:Casting complex values")
@pytest.mark.parametrize("make", STACKED.values(), ids=STACKED)
def test_blocks_that_are_created_are_stacked(make):
    found = heights(graph_of([da.linalg.svd(make())[1]]))
    assert found
    assert min(found) > 1


@pytest.mark.parametrize("make", LEFT_ALONE.values(), ids=LEFT_ALONE)
def test_other_blocks_are_left_alone(make):
    array = da.linalg.svd(make())[1]
    assert not heights(graph_of([array]))
    untouched = graph_of([array], ONE, 0)
    assert graph_of([array]).keys() == untouched.keys()


@pytest.mark.parametrize(
    "make",
    [
        lambda x: da.linalg.svd(x)[0],
        lambda x: da.linalg.svd(x)[2],
        lambda x: da.linalg.qr(x)[1],
        lambda x: da.linalg.svd(da.linalg.qr(x)[1])[1].sum() + da.linalg.qr(x)[1].sum(),
        lambda x: da.linalg.lstsq(x, x[:, 0])[0],
    ],
    ids=["U", "V", "R", "R and its singular values", "least squares"],
)
def test_where_more_than_the_values_is_wanted_nothing_is_stacked(make):
    assert not heights(graph_of([make(numbers())]))
    assert_as_dask(make(numbers()))


def test_where_the_signs_of_r_are_needed_too_they_are_those_of_dask():
    x = numbers()
    assert_as_dask(da.linalg.svd(x)[1], da.linalg.svd(x)[2], da.linalg.qr(x)[1], rtol=1e-12)


@pytest.mark.parametrize(
    "others", [lambda x: [x], lambda x: [x.sum()], lambda x: [x[150:250]]], ids=["all", "sum", "rows"]
)
def test_blocks_that_others_need_too_are_left_alone_and_the_rest_is_stacked(others):
    x = numbers()
    assert_as_dask(da.linalg.svd(x)[1], *others(x))
    part = [da.linalg.svd(x)[1], x[150:250]]
    assert heights(graph_of(part)) == [7, 10]  # without the second and third one, and the first one is alone


def test_a_stack_has_at_most_so_many_bytes():
    values = da.linalg.svd(numbers())[1]
    assert heights(graph_of([values], ONE, 5 * 8000)) == [5, 5, 5, 5]
    assert heights(graph_of([values], ONE, 6 * 8000)) == [5, 5, 5, 5]
    assert heights(graph_of([values], ONE, 8000)) == []
    tallest = da.linalg.svd(numbers((2000, 10), ((100,) * 15 + (500,), 10)))[1]
    for graph in (graph_of([values], ONE, 5 * 8000), graph_of([tallest], ONE, 5 * 8000)):
        assert max(heights(graph)) <= 5


def test_all_workers_have_a_stack():
    values = da.linalg.svd(numbers())[1]
    for threads in range(1, 40):
        found = heights(graph_of([values], ClusterSize(threads, threads)))
        assert len(found) + 20 - sum(found) >= min(threads, 20)
    assert heights(graph_of([values], ClusterSize(8, 8))) == [2] * 10
    assert not heights(graph_of([values], ClusterSize(11, 11)))


def test_the_blocks_of_a_stack_are_created_in_its_task():
    x = numbers() * 2 + 1
    graph = graph_of([da.linalg.svd(x)[1]], ClusterSize(4, 4))
    created = [task for task in graph.values() if not task.dependencies]
    assert len(created) == len(heights(graph)) == 4
    assert all(isinstance(task.func, Program) for task in created)
    # The stacks, and one task for each level of the tree.
    assert len([task for task in graph.values() if not isinstance(task, Alias)]) <= 4 + 3


def test_a_key_never_has_two_meanings():
    """What is in memory from one graph may be used in another; R of other stacks has other signs."""
    x = numbers() + 1
    values = da.linalg.svd(x)[1]
    graphs = [
        *(graph_of([array], ClusterSize(1, 20)) for array in (da.linalg.svd(x)[0], da.linalg.qr(x)[1])),
        *(graph_of([values], ClusterSize(1, 20), size) for size in (0, 10**9)),
        *(graph_of([values], ClusterSize(1, threads)) for threads in (5, 10)),
    ]
    known, common = {}, set()
    for graph in graphs:
        keys = [key for key in graph if not str(key).startswith("('svd")]
        for key, result in zip(keys, get_sync(graph, keys), strict=True):
            array = next(part for part in result if part is not None) if isinstance(result, tuple) else result
            if key in known:
                common.add(key)
                old, new = (_gram(one) if "stacked" in key[0] else one for one in (known[key], array))
                np.testing.assert_allclose(new, old, rtol=1e-10, atol=1e-10)
            known[key] = array
    assert any("stacked" in key[0] for key in common)


def _gram(array):
    """What R of other stacks has in common."""
    return array.T @ array


def test_without_a_known_size_of_memory_nothing_is_stacked():
    assert ArrayOptimizer(ONE, is_on_gpus=True).largest_stack == 0
    values = da.linalg.svd(numbers())[1]
    assert not heights(graph_of([values], ONE, 0))
