"""Blocks that are made of slices of other blocks."""

import operator
from collections import Counter

import dask
import dask.array as da
import numpy as np
import pytest
from dask.array.chunk import getitem
from dask.utils import key_split
from distributed.protocol.pickle import dumps, loads

from jupyter_gpudask.graph import subtrees
from jupyter_gpudask.graph.optimize import ArrayOptimizer
from jupyter_gpudask.graph.program import Program
from jupyter_gpudask.graph.rechunk import THRESHOLD
from jupyter_gpudask.graph.subtrees import ClusterSize


def rows_of_columns(steps, number=40):
    """Columns, on which something is done, as rows."""
    columns = steps(da.random.RandomState(1).random_sample((400, 400), chunks=(400, 400 // number)))
    return columns.rechunk((400 // number, -1), threshold=THRESHOLD, method="tasks")


def created(array):
    return array


def transformed(array):
    return da.fft.fft(array, axis=int(array.numblocks[0] > 1))


@pytest.mark.parametrize("steps", [created, transformed])
@pytest.mark.parametrize("workers", [1, 2, 3])
def test_each_block_is_one_task_and_the_numbers_are_the_same(workers, steps):
    array = rows_of_columns(steps)
    optimizer = ArrayOptimizer(ClusterSize(workers, workers, 10**9), is_on_gpus=True)
    with dask.config.set(array_optimize=optimizer):
        result = array.compute(scheduler="sync")
    np.testing.assert_array_equal(result, array.compute(scheduler="sync", optimize_graph=False))
    counts = Counter(key_split(key) for key in optimizer(array.__dask_graph__(), array.__dask_keys__()))
    assert counts.pop("rechunk-merge") == 40
    # Blocks that are cheap are created on each worker; of the others each worker gets one part. Two workers may both
    # need slices of a block for one task.
    assert sum(counts.values()) <= 40 * (workers + (workers > 2))


@pytest.mark.parametrize("steps", [created, transformed])
@pytest.mark.parametrize("workers", [1, 2])
def test_a_block_of_rows_from_everywhere_is_one_task_and_the_numbers_are_the_same(workers, steps):
    x = steps(da.random.RandomState(1).random_sample((365, 12), chunks=(5, 12)))
    days = np.arange(365) % 31
    means = da.stack([x[np.flatnonzero(days == day)].mean(axis=0) for day in range(31)])
    optimizer = ArrayOptimizer(ClusterSize(workers, workers, 10**9), is_on_gpus=True)
    sent = loads(dumps(means.__dask_graph__()))
    counts = Counter(key_split(key) for key in optimizer(sent, means.__dask_keys__()))
    assert counts["getitem"] <= 93
    assert counts["random_sample"] + counts["fft"] + counts["shuffle-split"] <= 73 * workers
    with dask.config.set(array_optimize=optimizer):
        result = means.compute(scheduler="sync")
    np.testing.assert_array_equal(result, means.compute(scheduler="sync", optimize_graph=False))


def test_slices_are_copied_only_where_that_releases_a_block():
    given = {("block", n): np.arange(100.0).reshape(10, 10) for n in range(2)}
    array = da.Array(given, "block", ((10, 10), (10,)), meta=np.ones((0, 0)))
    array = array.rechunk((20, 2), method="tasks")
    optimizer = ArrayOptimizer(ClusterSize(1, 1, 10**9), is_on_gpus=True)
    graph = optimizer(array.map_blocks(np.sort).__dask_graph__(), array.map_blocks(np.sort).__dask_keys__())
    programs = [task.func for task in graph.values() if isinstance(getattr(task, "func", None), Program)]
    functions = Counter(getattr(step, "func", None) for program in programs for step, _ in program.steps)
    assert functions[operator.getitem] == 10
    assert getitem not in functions


def test_what_may_not_fit_is_not_copied_at_once():
    array = rows_of_columns(created)
    optimizer = ArrayOptimizer(ClusterSize(1, 1, 10**6), is_on_gpus=True)
    assert len(optimizer(array.__dask_graph__(), array.__dask_keys__())) == 40 + 1600 + 40


def test_pieces_of_one_block_in_two_graphs_have_two_names(monkeypatch):
    monkeypatch.setattr(subtrees, "SMALL", 0)
    array = rows_of_columns(transformed, 8)
    graphs = []
    for rows in (array, array[:300]):
        optimizer = ArrayOptimizer(ClusterSize(2, 2, 10**9), is_on_gpus=True)
        graphs.append(dict(optimizer(rows.__dask_graph__(), rows.__dask_keys__())))
    pieces = [{key for key in graph if key[0].startswith("rechunk-split-") and len(key) > 3} for graph in graphs]
    assert all(pieces)
    assert not pieces[0] & pieces[1]


def test_rows_by_numbers_of_joined_blocks_are_made_of_parts_that_are_tasks_of_their_own():
    x = da.random.RandomState(0).random_sample((36, 36), chunks=8).rechunk((5, 7))
    bordered = da.pad(x, 1, mode="reflect").map_overlap(lambda block: block * 2, depth=1, dtype=float)
    rows = da.roll(bordered, 2, axis=0)[[3, 30, 17, 17, 0, 22]]
    expected = rows.compute(scheduler="sync")
    for size in (ClusterSize(1, 1, 10**9), ClusterSize(2, 2, 10**9)):
        with dask.config.set(array_optimize=ArrayOptimizer(size, is_on_gpus=True)):
            np.testing.assert_array_equal(rows.compute(scheduler="sync"), expected)
