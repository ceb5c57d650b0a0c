"""Blocks that are cheaper to create twice than to keep."""

from itertools import count

import dask
import dask.array as da
import numpy as np
import pytest
from dask._task_spec import Alias, Task, TaskRef
from dask.core import reverse_dict

from jupyter_gpudask.graph.optimize import ArrayOptimizer
from jupyter_gpudask.graph.repeated import ELEMENTS_ON_CPU, with_copies
from jupyter_gpudask.graph.subtrees import ClusterSize
from jupyter_gpudask.random_numbers.blocks import BlockGenerator, choose_block, draw_block

ONE = ClusterSize(1, 1)


def tasks_of(collection, size=ONE, keys=None):
    return ArrayOptimizer(size)(collection.__dask_graph__(), keys or collection.__dask_keys__())


def numbers(chunk=20):
    return da.random.RandomState(1).random_sample((20 * chunk, 20 * chunk), chunks=chunk)


@pytest.mark.parametrize("size", [ONE, ClusterSize(2, 2)], ids=["one worker", "two workers"])
def test_an_array_and_its_transpose_are_few_tasks(size):
    x = numbers()
    y, ones = (x - 1) ** 2, da.ones((400, 400), chunks=20)
    totals = (x + x.T)[1:, 1:].mean(axis=0).sum(), (2 * x - x.T).std(), da.stack([x.mean(), x.std()])
    for total in (*totals, (y + y.T).sum(), (ones - ones.T).sum()):
        assert len(tasks_of(total, size)) < 100
        assert len(da.optimization.optimize(total.__dask_graph__(), total.__dask_keys__())) > 900


def test_large_blocks_and_blocks_of_functions_are_created_once():
    large = da.random.RandomState(1).random_sample((20 * 257, 20 * 257), chunks=257)
    assert ELEMENTS_ON_CPU == 256**2
    own = numbers().map_blocks(lambda block: block, dtype=float)
    for x in (large, own):
        assert len(tasks_of((x + x.T).sum())) > 400


def copied(graph, most_elements, *, on_one=False):
    dependents = reverse_dict({key: task.dependencies for key, task in graph.items()})
    return with_copies(graph, [], dependents, most_elements, on_one=on_one)


def is_created_again(x):
    tasks = da.optimization.optimize(x.__dask_graph__(), x.__dask_keys__())
    blocks = {key: task for key, task in tasks.items() if not isinstance(task, Alias)}
    users = {(name, *key): Task((name, *key), np.sum, TaskRef(key)) for name in "ab" for key in blocks}
    copies = copied(blocks | users, ELEMENTS_ON_CPU)[1]
    assert len(copies) in {0, 2 * len(blocks)}
    return bool(copies)


def test_only_little_arithmetic_is_done_again():
    x, ones = numbers(), da.ones((20 * 257, 20 * 257), chunks=257)
    row, column = da.ones((1, 257), chunks=257), da.ones((257, 1), chunks=257)
    for cheap in (x, (2 * x + 1) ** 2, ones, row + 1):
        assert is_created_again(cheap)
    for expensive in (np.exp(np.sin(np.cos(x) ** 2) + 1), ones + 1, row + column, da.from_array(np.ones(20), chunks=1)):
        assert not is_created_again(expensive)
    assert not is_created_again(da.from_array(np.ones(20), chunks=1) + 1)


def test_a_function_of_the_user_is_not_called_again():
    calls = count()
    numbered = np.frompyfunc(lambda number: number + next(calls), 1, 1)
    y = numbered(da.ones((40, 40), chunks=4))
    first = next(calls)
    with dask.config.set(array_optimize=ArrayOptimizer(ONE)):
        assert (y - y.T).sum().compute(scheduler="sync") == 0
    assert next(calls) == first + y.size + 1


def test_blocks_that_are_wanted_stay_and_are_computed():
    x = numbers()
    y = (x + x.T).sum()
    wanted = [*dask.core.flatten(x.__dask_keys__()), *dask.core.flatten(y.__dask_keys__())]
    graph = tasks_of(y, keys=wanted)
    assert set(wanted) <= graph.keys()
    assert all(set(task.dependencies) <= graph.keys() for task in graph.values())


def test_no_copy_remains_a_task():
    x = numbers()
    for collection in (x + x.T, da.concatenate([x, x.T]).sum(axis=0), (x * x.T).cumsum(axis=0)):
        graph = tasks_of(collection)
        assert not [key for key in graph if "copy" in str(key)]
        assert all(set(task.dependencies) <= graph.keys() for task in graph.values())


def graph_with(function, *args, users="ab", **options):
    block = Task(("x", 0), function, *args, **options)
    return {("x", 0): block} | {(name, 0): Task((name, 0), np.sum, TaskRef(("x", 0))) for name in users}


@pytest.mark.parametrize(
    ("name", "size", "copies"), [("normal", (100, 100), 2), ("normal", (10_000, 10_001), 0), ("multinomial", (5,), 0)]
)
def test_blocks_of_gpus_are_drawn_again_if_that_is_fast(name, size, copies):
    generator = BlockGenerator("PCG64", np.random.SeedSequence(1))
    graph = graph_with(draw_block, generator, name, (), size=size, dtype=np.dtype(float), options={})
    changed, originals = copied(graph, 10**8)
    assert len(originals) == copies
    assert len(changed) == (4 if copies else 3)


@pytest.mark.parametrize(("side", "users", "times"), [(4000, 4, 4), (4000, 9, 1), (500, 9, 9), (500, 32, 1)])
def test_large_blocks_with_many_neighbors_are_drawn_once_on_one_gpu_and_not_sent_to_others(side, users, times):
    generator = BlockGenerator("PCG64", np.random.SeedSequence(1))
    options = {"size": (side, side), "dtype": np.dtype(float), "options": {}}
    graph = graph_with(draw_block, generator, "random", (), users=map(str, range(users)), **options)
    assert len(copied(graph, 10**8)[1]) == users
    assert len(copied(graph, 10**8, on_one=True)[1]) == (times if times > 1 else 0)


def test_a_choice_is_drawn_once():
    graph = graph_with(choose_block, BlockGenerator(None, 1), 10, None, size=(3,), replace=True, options={})
    assert copied(graph, 10**8) == (graph, {})
