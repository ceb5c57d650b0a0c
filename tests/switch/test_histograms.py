"""Histograms of arrays on GPUs have the counts of NumPy, also of values on edges."""

import dask.array as da
import numpy as np
import pytest
from device import MARKS, cupy

from jupyter_gpudask.overlay import CellRecord
from jupyter_gpudask.switch.context import switched_to

pytestmark = [*MARKS, pytest.mark.filterwarnings("ignore")]

VALUES = np.concatenate([np.random.default_rng(4).normal(size=200).round(1), [-2, 2, 0, np.nan, np.inf, 5]])
WHOLE = np.arange(-5, 25, dtype="int16")
WEIGHTS = np.arange(VALUES.size) % 7
LARGE = np.array([2**60, 2**60 + 1, 2**60 + 2, 2**60 + 3, 2**60 + 300])


def chunked(values):
    return da.from_array(values, chunks=50)


HISTOGRAMS = {
    "of a range": lambda x: da.histogram(x, bins=10, range=(-2, 2)),
    "of edges": lambda x: da.histogram(x, bins=np.linspace(-2, 2, 11)),
    "of a computed range": lambda x: da.histogram(x, bins=10, range=[da.nanmin(x), da.nanmax(x.clip(-9, 2))]),
    "density": lambda x: da.histogram(x, bins=10, range=(-2, 2), density=True),
    "weights": lambda x: da.histogram(x, bins=10, range=(-2, 2), weights=chunked(WEIGHTS[: x.size].astype("f4"))),
    "whole weights": lambda x: da.histogram(x, bins=[-2, 0, 2], weights=chunked(WEIGHTS[: x.size].astype("int16"))),
    "complex weights": lambda x: da.histogram(x, bins=[-2, 0, 2.5], weights=chunked(WEIGHTS[: x.size] * (1 - 2j))),
    "a last edge between integers": lambda x: da.histogram(x, bins=5, range=(0, 4.5)),
    "of the plane": lambda x: da.histogram2d(x, x[::-1].rechunk(x.chunks), bins=10, range=((-2, 2), (-2, 2))),
    "of the plane by edges": lambda x: da.histogram2d(x, x, bins=[np.linspace(-2, 2, 11), [-2, 0, 1]]),
    "of the rows": lambda x: da.histogramdd(da.stack([x, -x], 1).rechunk((50, 2)), bins=10, range=((-2, 2), (-2, 2))),
}


@pytest.mark.parametrize("dtype", ["float64", "float32", "int64", "int16", "bool"])
@pytest.mark.parametrize("name", HISTOGRAMS)
def test_its_counts_and_edges_are_those_of_numpy(name, dtype):
    values = (VALUES if dtype.startswith("float") else np.resize(WHOLE, VALUES.size)).astype(dtype)
    if dtype == "bool" and name in ("of the rows", "of a computed range"):
        pytest.skip("NumPy has no differences of booleans")
    compare(HISTOGRAMS[name], values)


@pytest.mark.parametrize(
    ("values", "edges"),
    [
        (LARGE, LARGE[[0, 1, 3]]),
        (np.array([0, 1e17, 2e17]), [0, 5e16, 1e17]),
        (np.array([0, 2e7, 3e7], "f4"), np.array([0, 1e7, 2e7], "f4")),
        (np.array([1.0, np.inf, np.nan]), [0, 2, np.inf]),
    ],
)
def test_values_on_large_edges_are_counted(values, edges):
    compare(lambda x: da.histogram(x, bins=edges), values)


def compare(histogram, values):
    expected = da.compute(*flat(histogram(chunked(values))), scheduler="sync")
    with switched_to("cupy", "pandas", CellRecord(fallback="strict")):
        results = flat(histogram(chunked(values)))
        found = da.compute(*results, scheduler="sync")
    assert type(results[0]._meta) is cupy.ndarray
    for one, other in zip(found, expected, strict=True):
        assert one.dtype == other.dtype
        np.testing.assert_allclose(one.get() if isinstance(one, cupy.ndarray) else one, other, rtol=1e-6)


def flat(result):
    counts, *edges = result
    return [counts, *(edges[0] if isinstance(edges[0], list | tuple) else edges)]
