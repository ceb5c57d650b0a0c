"""On which worker each task of a graph runs."""

from collections import Counter

import dask
import dask.array as da
import numpy as np
import pytest

from jupyter_gpudask.graph.optimize import ArrayOptimizer, WithOptimizer
from jupyter_gpudask.graph.subtrees import ClusterSize
from jupyter_gpudask.graph.workers import WORKER, choose_workers, locate


def numbers(shape, chunks, seed=1):
    return da.random.RandomState(seed).random_sample(shape, chunks=chunks)


def placed(array, number=2):
    """The graph of an array as it runs on so many workers, and the workers of its tasks."""
    optimizer = ArrayOptimizer(ClusterSize(number, number))
    graph = dict(optimizer(array.__dask_graph__(), array.__dask_keys__()))
    return graph, {key: worker for key, (worker, _) in optimizer.workers.items()}


@pytest.mark.parametrize("number", [2, 3])
@pytest.mark.parametrize("axis", [0, 1])
def test_a_worker_gets_whole_columns_or_rows_as_the_result_needs_them(axis, number):
    total = da.ones((120, 120), chunks=10).map_blocks(abs).sum(axis=axis)
    graph, workers = placed(total, number)
    assert set(workers.values()) == set(range(number))
    ends = {key: roots_of(graph, key) for key in dask.core.flatten(total.__dask_keys__())}
    assert all(len({workers[root] for root in roots}) == 1 for roots in ends.values())


def roots_of(graph, key):
    below = [root for other in graph[key].dependencies for root in roots_of(graph, other)]
    return below or [key]


def test_all_workers_get_as_much():
    _, workers = placed(numbers((160, 160), 10).sum(), 4)
    counts = Counter(workers.values())
    assert len(counts) == 4
    assert max(counts.values()) - min(counts.values()) <= 1


def test_what_all_tasks_of_a_layer_need_does_not_bring_them_to_one_worker():
    keys = ["factor", *(("scaled", n) for n in range(8))]
    dependencies = {"factor": set(), **{key: {"factor"} for key in keys[1:]}}
    assert Counter(choose_workers(keys, dependencies, 2)[key] for key in keys[1:]) == {0: 4, 1: 4}


def test_a_task_follows_most_of_what_it_alone_needs():
    blocks = [("block", n) for n in range(8)]
    # the first of the sums needs the last blocks
    sums = {("sum", n): {("block", 7 - 2 * n), ("block", 6 - 2 * n)} for n in range(4)}
    workers = choose_workers([*blocks, *sums], {key: set() for key in blocks} | sums, 2)
    assert [workers[key] for key in blocks] == [0] * 4 + [1] * 4
    assert [workers[key] for key in sums] == [1, 1, 0, 0]


def test_single_delayed_calls_are_shared():
    calls = [da.from_delayed(dask.delayed(np.ones)(4, dask_key_name=f"call-{n:032x}"), (4,), float) for n in range(8)]
    _, workers = placed(da.concatenate(calls))
    assert Counter(workers.values()) == {0: 4, 1: 4}


def test_only_what_is_on_one_worker_is_fused_and_there_are_few_tasks():
    x = numbers((160, 160), 10)
    standardized = ((x - x.mean(axis=0)) / x.std(axis=0)).max()
    alone, _ = placed(standardized, 1)
    graph, workers = placed(standardized)
    assert len(graph) < 1.5 * len(alone)
    assert {type(worker) for worker in workers.values()} == {int}


def test_a_cheap_block_is_created_on_each_worker_that_needs_it():
    a = numbers((1200, 1200), 200)  # too large to be created for each of the products
    product = a @ a.T
    graph, workers = placed(product)
    created = [key for key, task in graph.items() if not task.dependencies and key[0].startswith("random_sample")]
    blocks = Counter(key[:3] for key in created)
    assert len(blocks) == 36
    assert max(blocks.values()) == 2
    assert set(workers) >= set(created)
    with dask.config.set(array_optimize=ArrayOptimizer(ClusterSize(2, 2))):
        result = product.compute(scheduler="sync")
    np.testing.assert_array_equal(result, product.compute(scheduler="sync"))


def test_the_scheduler_is_told_where_tasks_begin():
    total = numbers((160, 160), 10).sum()
    expression = dask.base.collections_to_expr([total])
    for number in (1, 2):
        submitted = WithOptimizer(expression, ArrayOptimizer(ClusterSize(number, number)))
        graph = submitted.__dask_graph__()
        told = submitted.__dask_annotations__().get(WORKER, {})
        assert told.keys() <= graph.keys()
        assert Counter(told.values()).keys() == ({(0, 2, False), (1, 2, False)} if number == 2 else set())


def sum_of_kept(find):
    """The graph of a sum of 64 blocks of another graph, with what finds their workers."""
    kept = numbers((80, 80), 10)
    total = kept.sum()
    outside = set(kept.__dask_graph__())
    graph = {key: task for key, task in total.__dask_graph__().items() if key not in outside}
    optimizer = ArrayOptimizer(ClusterSize(2, 2))
    token = locate.set(find)
    try:
        return optimizer(graph, total.__dask_keys__())
    finally:
        locate.reset(token)


def test_results_of_other_graphs_are_reduced_where_they_are():
    def find(keys, number):
        assert (len(keys), number) == (64, 2)
        return {key: int(key[2] < 4) for key in keys}  # whole columns, the last ones on the first worker

    many, few = sum_of_kept(None), sum_of_kept(find)
    assert len(few) < len(many) / 3
    for task in few.values():
        columns = {key[2] < 4 for key in task.dependencies if key not in few}
        assert len(columns) <= 1


def test_results_that_are_not_found_are_reduced_as_before():
    assert len(sum_of_kept(lambda *_: {})) == len(sum_of_kept(None))
