"""Which calls compute on the host: those of whose functions all is known."""

import ctypes
import functools
import importlib.machinery
import json
import operator
import re
import sys
import types

import cupy
import dask
import dask.array as da
import dask.dataframe as dd
import distributed
import numpy as np
import pandas as pd
import pytest
import scipy.ndimage
import scipy.signal
from dask.array.core import getter
from sklearn.linear_model import LinearRegression
from tlz import compose

from jupyter_gpudask.fallback.host_call import HostFallback
from jupyter_gpudask.fallback.host_parts import _contents, runs_on_host

array = cupy.arange(3.0)

# An installed package of which nothing is known.
unknown = types.ModuleType("gpu_library")
exec("def run(block): ...\nclass Model:\n    def predict(self, block): ...", vars(unknown))  # noqa: S102
unknown.__spec__ = importlib.machinery.ModuleSpec("gpu_library", None, origin="/x/site-packages/gpu_library.py")
sys.modules["gpu_library"] = unknown
factor = 2


def of_numpy(block):
    return np.asarray(block) * factor


def of_others(block):
    return of_numpy(scipy.ndimage.gaussian_filter(block, 2)) + json.loads(re.sub("a", "1", "a"))


def of_cupy(block):
    return cupy.asarray(block)


def of_an_array(block):
    return block + array


def with_an_import(block):
    import cupy as library

    return library.asarray(block)


def through_another(block):
    return [of_cupy(part) for part in block]


def seeding(block):
    np.random.seed(0)  # noqa: NPY002 - as users write it
    return np.random.normal(size=block.shape)  # noqa: NPY002


def setting_a_global(block):
    global factor  # noqa: PLW0603
    factor = 3
    return block * factor


def with_a_default(block, function=of_cupy):
    return function(block)


def importing_the_unknown(block):
    import gpu_library

    return gpu_library.asarray(block)


def importing_inside(block):
    def inner(part):
        from numba import cuda

        return cuda.to_device(part)

    return inner(block)


def of_a_compiled_library(block):
    return ctypes.CDLL("libgpu.so").run(block)


class Scaler:
    def __call__(self, block):
        return block * 2


class Model:
    def __init__(self, values):
        self.values = values

    def predict(self, block):
        return block * self.values


def closing_over(value):
    return lambda block: block + value


ON_HOST = [
    np.add,
    np.linalg.svd,
    operator.getitem,
    getter,
    scipy.signal.savgol_filter,
    pd.DataFrame.to_csv,
    LinearRegression().predict,
    of_numpy,
    of_others,
    functools.partial(of_numpy, np.ones(3)),
    functools.partial(pd.read_csv, sep=","),
    compose(of_numpy, of_others),
    HostFallback(of_numpy),
    closing_over(np.ones(3)),
    np.vectorize(abs),
    functools.cache(of_numpy),
]
IN_DOUBT = [
    cupy.asarray,
    of_cupy,
    functools.cache(of_cupy),
    functools.update_wrapper(Scaler(), np.add),
    importing_the_unknown,
    importing_inside,
    of_a_compiled_library,
    unknown.run,
    lambda block: unknown.run(block) + 1,
    lambda block: unknown.Model().predict(block),
    closing_over(unknown.Model()),
    Scaler(),
    Model(np.ones(3)).predict,
    of_an_array,
    with_an_import,
    through_another,
    distributed.get_client,
    seeding,
    setting_a_global,
    with_a_default,
    functools.partial(of_numpy, array),
    functools.partial(map, of_cupy),
    compose(of_numpy, of_cupy),
    HostFallback(of_cupy),
    closing_over(array),
    array.sum,
    np.vectorize(of_cupy),
]


@pytest.mark.parametrize("function", ON_HOST, ids=range(len(ON_HOST)))
def test_a_function_of_known_packages_computes_on_the_host(function):
    assert runs_on_host(function)


@pytest.mark.parametrize("function", IN_DOUBT, ids=range(len(IN_DOUBT)))
def test_a_function_that_may_use_the_device_or_an_unknown_package_does_not(function):
    assert not runs_on_host(function)


def tasks_of(collection):
    (optimized,) = dask.optimize(collection)
    graph = optimized.__dask_graph__()
    return [task for task in graph.values() if hasattr(task, "func")]


def test_a_fused_task_is_on_the_host_if_all_of_it_is():
    blocks = da.from_array(np.ones(4), chunks=2)
    frame = dd.from_pandas(pd.DataFrame({"a": ["x", "y"]}), npartitions=1)
    for collection in ((blocks + 1).map_blocks(of_numpy), da.ones(4, chunks=2).sum(), frame.a.str.upper()):
        assert all(runs_on_host(*_contents(task)) for task in tasks_of(collection))
    mapped = blocks.map_blocks(of_numpy, dtype=float).map_blocks(of_cupy, dtype=float, meta=np.ones(0))
    assert not any(runs_on_host(*_contents(task)) for task in tasks_of(mapped))
