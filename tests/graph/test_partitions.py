"""Partitions of dataframes as fewer tasks, with the same results."""

import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from dask._expr import FinalizeCompute
from dask._task_spec import Task
from dask.base import collections_to_expr
from dask.core import flatten
from dask.local import get_sync

from jupyter_gpudask.graph.partitions import fuse_partitions

DATA = pd.DataFrame({"k": np.arange(60) % 7, "x": np.arange(60) / 3, "s": ["a", "bb", None] * 20})
OTHER = pd.DataFrame({"k": np.arange(7), "y": np.arange(7) * 10})
called = []


def counted(partition):
    called.append(len(partition))
    return partition.assign(z=len(called))


def frame(npartitions=3):
    return dd.from_pandas(DATA, npartitions=npartitions)


def other():
    return dd.from_pandas(OTHER, npartitions=1)


COMPUTATIONS = {
    "a chain of one partition": lambda: [(frame(1).x * 2 + 1).sum()],
    "a filter of partitions": lambda: [frame()[(frame().x > 3) & frame().k.isin([1, 2])]],
    "a merge": lambda: [frame(1)[frame(1).x > 3].merge(other().assign(w=1), on="k").y.sum()],
    "a merge with one partition": lambda: [frame().merge(other().map_partitions(counted), on="k").y.sum()],
    "a shuffled merge": lambda: [frame().merge(frame(2)[["k"]].assign(w=1), on="k", shuffle_method="tasks").x.sum()],
    "groups": lambda: [frame().groupby("k").agg({"x": ["sum", "mean"], "s": "count"})],
    "deviation from the mean": lambda: [frame().x - frame().x.mean()],
    "what follows and what is wanted": lambda: [frame().assign(w=1), frame().assign(w=1).w.sum(), frame().k.max()],
    "the largest": lambda: [frame().assign(w=1).nlargest(4, "x")],
    "concatenated": lambda: [dd.concat([frame(), frame(2).assign(s="c")]).x + 1],
    "rolling": lambda: [(frame().x + 1).rolling(3).sum()],
}


def graph_of(*collections):
    expression = FinalizeCompute(collections_to_expr(collections)).optimize()
    return dict(expression.__dask_graph__()), list(flatten(expression.__dask_keys__()))


@pytest.mark.parametrize("name", COMPUTATIONS)
def test_fused_partitions_give_the_same_results(name):
    graph, keys = graph_of(*COMPUTATIONS[name]())
    fused = fuse_partitions(graph, keys)
    assert set(keys) <= set(fused)
    assert len(fused) <= len(graph)
    expected = get_sync(graph, keys)
    called.clear()
    for result, value in zip(get_sync(fused, keys), expected, strict=True):
        is_frame = isinstance(value, pd.DataFrame | pd.Series)
        assert result.equals(value) if is_frame else result == value
    assert len(called) <= 1, "a task is not copied"


def test_what_follows_from_one_partition_is_one_task():
    one = frame(1)
    graph, keys = graph_of(one[(one.x > 3) & (one.k < 5)].assign(w=1).w.sum())
    assert len(graph) > 6
    fused = fuse_partitions(graph, keys)
    assert [key for key, node in fused.items() if isinstance(node, Task)] == keys
    assert len(fuse_partitions(*graph_of(frame(8).x.sum()))) == 8 + 1 + 8, "the data of partitions, and a reduction"
