"""Blocks that the tests compute, and a function that CuPy's arrays do not fit."""

import dask
import dask.array as da
import numpy as np
from dask.array.core import slices_from_chunks
from dask.core import flatten

from jupyter_gpudask.fallback.tasks import with_fallback
from jupyter_gpudask.graph.optimize import ArrayOptimizer
from jupyter_gpudask.graph.subtrees import ClusterSize

NUMBERS = np.array([[4.0, np.nan, 1.0, 7.0], [2.0, 9.0, np.nan, 3.0], [5.0, 6.0, 8.0, 0.0]])


def host_only(block, factor=1):
    """As functions of SciPy, Numba and scikit-learn: they need NumPy's array."""
    return np.asarray(block, dtype=float) * factor


def array():
    return da.from_array(NUMBERS, chunks=(2, 2))


def blocks_of(array):
    """The blocks of an array as a worker computes them, by their places."""
    keys = list(flatten(array.__dask_keys__()))
    tasks = with_fallback(ArrayOptimizer(ClusterSize(), is_on_gpus=True)(array.__dask_graph__(), keys))
    return zip(slices_from_chunks(array.chunks), dask.get(tasks, keys), strict=True)
