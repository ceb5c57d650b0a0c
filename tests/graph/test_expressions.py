"""Graphs of array expressions, which Dask makes with its setting ``array.query-planning``."""

import os

SCRIPT = """
import dask
import dask.array as da
import numpy as np
from dask.base import collections_to_expr
from dask.core import flatten

from jupyter_gpudask.graph.optimize import ArrayOptimizer, WithOptimizer
from jupyter_gpudask.graph.subtrees import ClusterSize

assert da.ARRAY_EXPR_ENABLED


def numbers():
    return da.random.RandomState(1).random_sample((400, 400), chunks=20)


COMPUTATIONS = {
    "sum": lambda: [numbers().sum()],
    "sum of tiny blocks": lambda: [da.ones((2500, 10), chunks=(1, 10)).sum()],
    "an array and its transpose": lambda: [(numbers() + numbers().T)[1:, 1:].mean(axis=0).sum()],
    "element-wise steps": lambda: [(numbers() + 1) * 2 - 3],
    "overlap": lambda: [numbers().map_overlap(lambda block: block * 2, depth=1).sum()],
    "rechunk": lambda: [numbers().rechunk((10, 400)).sum(axis=1)],
    "two of them": lambda: [numbers().sum(), numbers().mean()],
}
for name, make in COMPUTATIONS.items():
    expression = collections_to_expr(make()).optimize()
    keys = list(flatten(expression.__dask_keys__()))
    of_dask = expression.__dask_graph__()
    ours = WithOptimizer(expression, ArrayOptimizer(ClusterSize(1, 1))).__dask_graph__()
    for expected, result in zip(dask.get(of_dask, keys), dask.get(ours, keys), strict=True):
        np.testing.assert_array_equal(result, expected, strict=True)
    print(name, len(of_dask), len(ours), sep=", ")
    unfused = WithOptimizer(expression, ArrayOptimizer(ClusterSize(1, 1), fuses=False)).__dask_graph__()
    assert len(unfused) >= len(of_dask), name
"""


def test_they_are_optimized_like_others_and_each_number_is_that_of_dasks_own_graph(run_python):
    rows = run_python(SCRIPT, os.environ | {"DASK_ARRAY__QUERY_PLANNING": "True"}).splitlines()
    fewer = {name: int(before) / int(after) for name, before, after in (row.split(", ") for row in rows)}
    assert len(fewer) == 7
    assert fewer["sum"] > 30
    assert fewer["sum of tiny blocks"] > 100
    assert fewer["an array and its transpose"] > 2
    assert fewer["element-wise steps"] > 3
