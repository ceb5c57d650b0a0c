"""On GPUs, neighbouring blocks are stacked before their QR decomposition where only singular values are wanted."""

import dask
import dask.array as da
import numpy as np
import pytest
from dask._task_spec import Alias, _execute_subgraph
from dask.highlevelgraph import HighLevelGraph
from dask.local import get_sync

from jupyter_gpudask.graph.decompositions import r_of_stack
from jupyter_gpudask.graph.optimize import ArrayOptimizer
from jupyter_gpudask.graph.program import Program
from jupyter_gpudask.graph.subtrees import ClusterSize

ONE = ClusterSize(1, 1)
SIZES = [ONE, ClusterSize(2, 2), ClusterSize(8, 8)]


def numbers(shape=(2000, 10), chunks=(100, 10)):
    return da.random.RandomState(1).normal(size=shape, chunks=chunks)


def optimizer(size=ONE, largest_stack=10**9):
    return ArrayOptimizer(size, is_on_gpus=True, largest_stack=largest_stack)


def graph_of(arrays, *options):
    graph = HighLevelGraph.from_collections("all", {}, dependencies=arrays)
    return optimizer(*options)(graph, [array.__dask_keys__() for array in arrays])


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
@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize("make", [*STACKED.values(), *LEFT_ALONE.values()], ids=[*STACKED, *LEFT_ALONE])
def test_singular_values_are_those_of_numpy(make, size):
    block = make().compute(scheduler="sync")
    expected = np.linalg.svd(block, compute_uv=False)
    values = da.linalg.svd(make())[1]
    with dask.config.set(array_optimize=optimizer(size)):
        found = values.compute(scheduler="sync")
    assert found.dtype == values.compute(scheduler="sync").dtype
    assert found.shape == values.compute(scheduler="sync").shape
    precision = 2e-6 if block.dtype == "f4" else 1e-13
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
    expected = make(numbers()).compute(scheduler="sync")
    with dask.config.set(array_optimize=optimizer()):
        np.testing.assert_allclose(make(numbers()).compute(scheduler="sync"), expected, rtol=1e-13, atol=1e-13)


def test_where_the_signs_of_r_are_needed_too_they_are_those_of_dask():
    x = numbers()
    arrays = [da.linalg.svd(x)[1], da.linalg.svd(x)[2], da.linalg.qr(x)[1]]
    expected = dask.compute(*arrays, scheduler="sync")
    with dask.config.set(array_optimize=optimizer()):
        found = dask.compute(*arrays, scheduler="sync")
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    "others", [lambda x: [x], lambda x: [x.sum()], lambda x: [x[150:250]]], ids=["all", "sum", "rows"]
)
def test_blocks_that_others_need_too_are_left_alone_and_the_rest_is_stacked(others):
    x = numbers()
    arrays = [da.linalg.svd(x)[1], *others(x)]
    expected = dask.compute(*arrays, scheduler="sync")
    with dask.config.set(array_optimize=optimizer()):
        found = dask.compute(*arrays, scheduler="sync")
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-13, atol=1e-13)
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
