"""Blocks that are made of slices of other blocks."""

from collections import Counter

import dask
import dask.array as da
import numpy as np
import pytest
from dask.utils import key_split

from jupyter_gpudask.graph.optimize import ArrayOptimizer
from jupyter_gpudask.graph.rechunk import THRESHOLD
from jupyter_gpudask.graph.subtrees import ClusterSize


def rows_of_columns(steps, number=40):
    """Columns, on which something is done, as rows."""
    columns = steps(da.random.RandomState(1).random_sample((400, 400), chunks=(400, 400 // number)))
    return columns.rechunk((400 // number, -1), threshold=THRESHOLD, method="tasks")


def created(array):
    return array


def transformed(array):
    return da.fft.fft(array, axis=0)


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


def test_what_may_not_fit_is_not_copied_at_once():
    array = rows_of_columns(created)
    optimizer = ArrayOptimizer(ClusterSize(1, 1, 10**6), is_on_gpus=True)
    assert len(optimizer(array.__dask_graph__(), array.__dask_keys__())) == 40 + 1600 + 40


def test_parts_of_one_block_in_two_graphs_have_two_names():
    array = rows_of_columns(transformed, 8)
    graphs = []
    for rows in (array, array[:300]):
        optimizer = ArrayOptimizer(ClusterSize(2, 2, 10**9), is_on_gpus=True)
        graphs.append(dict(optimizer(rows.__dask_graph__(), rows.__dask_keys__())))
    parts = [{key for key in graph if ":" in str(key[-1])} for graph in graphs]
    assert all(parts)
    assert not parts[0] & parts[1]
