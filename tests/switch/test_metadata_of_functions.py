"""Metadata of the user's functions is inferred on the host or on a worker, and never on the kernel's GPU."""

import functools
import types

import dask.array as da
import numpy as np
import pytest
from device import MARKS, cupy
from helpers import kernel_with_cupy

from jupyter_gpudask.fallback.functions import names_gpu_library
from jupyter_gpudask.inspection.placement import place_of
from jupyter_gpudask.switch.context import switched_to

pytestmark = [*MARKS, pytest.mark.cluster]


@pytest.mark.parametrize(
    "make",
    [
        lambda f, x: x.map_blocks(f),
        lambda f, x: x.map_blocks(f, dtype=float),
        lambda f, x: da.map_blocks(functools.partial(f), x, dtype=float),
        lambda f, x: da.blockwise(f, "ij", x, "ij", dtype=float),
        lambda f, x: x.map_overlap(f, depth=1, boundary="none"),
        lambda f, x: da.apply_gufunc(f, "()->()", x),
        lambda f, x: da.reduction(x, f, f, axis=0, dtype=float),
    ],
)
def test_a_function_is_called_with_metadata_on_the_host(make):
    def function(block, **_):
        seen.add(type(block))
        return block * 2

    seen = set()
    with switched_to("cupy", "pandas"):
        assert place_of(make(function, da.ones((4, 4), chunks=2))) == "gpu"
    assert np.ndarray in seen
    assert cupy.ndarray not in seen


def test_an_index_that_is_out_of_bounds_is_an_error_of_the_metadata_only():
    def assign(block):
        block = block.copy()
        block[[0, 0, 0]] = [5, 6, 7]
        return block

    with switched_to("cupy", "pandas"):
        assigned = da.zeros(6, chunks=3, dtype=int).map_blocks(assign, dtype=int)
    assert (place_of(assigned), assigned.dtype) == ("gpu", int)
    assert assigned.compute(scheduler="sync").get().tolist()[1:3] == [0, 0]


FUNCTION_FOR_GPUS = """
import os
kernel = os.getpid()
def f(block):
    import cupy
    assert os.getpid() != kernel
    assert type(block) is cupy.ndarray
    assert block.size
    return block.astype("f4") * 2
def g(block):
    return block.get().astype("f4") * 2
"""


def test_a_function_for_arrays_of_gpus_is_called_on_a_worker():
    with kernel_with_cupy(1) as kernel:
        kernel.ok(FUNCTION_FOR_GPUS)
        for name, kind in (("f", "cupy"), ("g", "numpy")):
            mapped = f"%%gpudask\ny = da.ones(6, chunks=3).map_blocks({name})\n"
            made = kernel.ok(mapped + "type(y._meta).__module__, str(y.dtype)")
            assert made.value == f"('{kind}', 'float32')"
            assert kernel.ok("%%gpudask\nfloat(y.sum().compute())").value == "12.0"


factor = cupy.ones(1)


def of_module(block):
    return types.SimpleNamespace(block=block, kernel=cupy.exp)


def calls_it(block):
    return of_module(block)


class Model:
    def __call__(self, block):
        return cupy.exp(block)


def imports(block):
    import cudf

    return cudf.Series(block)


def plain(block):
    return np.exp(block)


def test_functions_that_name_a_gpu_library_are_recognized():
    for function in (of_module, calls_it, Model(), imports, functools.partial(calls_it), lambda b: b * factor):
        assert names_gpu_library(function)
    for function in (plain, np.exp, functools.partial(plain, 1), np.vectorize(plain)):
        assert not names_gpu_library(function)
