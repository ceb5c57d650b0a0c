"""Arrays that CuPy cannot hold, and what is computed from them, stay on the host; `da.unique` with counts."""

import dask
import dask.array as da
import numpy as np
import pytest
from device import MARKS

from jupyter_gpudask.errors import NotOnGpuError
from jupyter_gpudask.inspection.placement import place_of
from jupyter_gpudask.inspection.results import results_to_host

pytestmark = [*MARKS]


def test_a_function_may_mask_some_blocks_only(cell):
    cell()
    x = da.arange(4.0, chunks=2).map_blocks(lambda block: block if (block > 1).any() else np.ma.masked_less(block, 1))
    assert x.compute().tolist() == [None, 1, 2, 3]


@pytest.mark.filterwarnings("ignore:the matrix subclass:PendingDeprecationWarning")
def test_rows_of_a_matrix_are_multiplied_as_such(cell):
    cell()
    x = da.from_array(np.matrix([[1, 2], [3, 4]]), asarray=False)
    np.testing.assert_array_equal(x.map_blocks(lambda block: block * block, dtype=int).compute(), [[7, 10], [15, 22]])


def test_numpy_metadata_of_a_function_does_not_separate_its_results_from_the_other_arrays(cell):
    cell()
    numbers = np.arange(24.0).reshape(6, 4)
    x = da.from_array(numbers, chunks=(3, -1))
    meta = np.array((), dtype=float)
    low, high = da.apply_gufunc(lambda a: (a.min(axis=-1), a.max(axis=-1)), "(i)->(),()", x, meta=(meta, meta))
    middle = da.blockwise(lambda a: a.mean(axis=1), "i", x, "ij", concatenate=True, meta=meta)
    results = (x - low[:, None]) / (high - low)[:, None] + middle[:, None]
    np.testing.assert_allclose(results.compute().get(), (numbers - numbers[:, :1]) / 3 + numbers.mean(axis=1)[:, None])


def test_a_coarsened_array_is_where_its_input_is(cell):
    cell("error")
    numbers = np.arange(16.0).reshape(4, 4)
    x = da.coarsen(np.mean, da.from_array(numbers, chunks=2), {0: 2, 1: 2})
    assert place_of(x) == "gpu"
    assert (x + da.ones((2, 2), chunks=1)).compute().get().tolist() == [[3.5, 5.5], [11.5, 13.5]]


def test_an_operation_with_a_delayed_value_stays_on_the_gpu(cell):
    cell()
    x = da.blockwise(lambda a, b: a + b, "i", da.arange(4, chunks=2), "i", dask.delayed(int)(5), None, dtype=int)
    assert place_of(x) == "gpu"
    assert x.compute().get().tolist() == [5, 6, 7, 8]


def test_arrays_are_filled_with_values_that_are_computed(cell):
    cell()
    x = da.arange(4.0, chunks=2)
    for filled in (da.full((2, 2), x.sum(), chunks=1), da.full_like(x, x.max(), shape=(2, 2)), da.full(3, x.min())):
        assert place_of(filled) == "gpu"
    assert da.full((2, 2), x.sum(), chunks=1).compute().get().tolist() == [[6, 6], [6, 6]]
    assert da.full(3, x.max(), dtype=int).compute().get().tolist() == [3, 3, 3]
    assert da.full_like(x, x.max()).compute().get().tolist() == [3, 3, 3, 3]


def test_arrays_like_one_on_the_gpu_have_dates_on_the_host(cell):
    cell()
    x = da.zeros_like(da.arange(4, chunks=2), dtype="M8[D]")
    assert place_of(x) == "host"
    np.testing.assert_array_equal(x.compute(), np.zeros(4, dtype="M8[D]"))


@pytest.mark.parametrize("dtype", [[("a", "f8"), ("b", "i4")], "M8[D]", object])
def test_arrays_of_a_dtype_that_cupy_lacks_are_created_on_the_host(cell, dtype):
    cell()
    x = da.ones(4, dtype=dtype, chunks=2)
    assert place_of(x) == "host"
    np.testing.assert_array_equal(x.compute(), np.ones(4, dtype=dtype))


def test_blocks_that_are_no_arrays_are_results(cell):
    cell()
    x = da.from_array(np.float64(2.0))
    assert place_of(x) == "gpu"
    assert float(x.compute()) == 2
    y = da.from_delayed(da.ones(3).to_delayed()[0], shape=(3,), dtype=float)
    assert results_to_host(y.compute()).tolist() == [1, 1, 1]


def test_percentiles_along_an_axis_are_nan_only_where_the_input_is(cell):
    cell()
    numbers = np.array([[1.0, 2.0, np.nan], [3.0, 4.0, 5.0]])
    x = da.percentile(da.from_array(numbers, chunks=(1, 2)), 50, axis=1)
    np.testing.assert_array_equal(x.compute().get(), [np.nan, 4])


NUMBERS = np.array([3, 1, 3, 2, 1, 3])


@pytest.mark.parametrize("options", [["counts"], ["index", "inverse"], ["index", "inverse", "counts"]])
def test_unique_values_come_with_indices_and_counts(cell, options):
    on_host = cell()
    options = {f"return_{name}": True for name in options}
    results = da.unique(da.from_array(NUMBERS, chunks=2), **options)
    assert {place_of(result) for result in results} == {"gpu"}
    for result, expected in zip(results, np.unique(NUMBERS, **options), strict=True):
        np.testing.assert_array_equal(result.compute().get(), expected)
    assert on_host() == {"unique": 3}


def test_with_strict_counts_of_unique_values_are_refused(cell):
    cell("strict")
    with pytest.raises(NotOnGpuError, match="unique"):
        da.unique(da.from_array(NUMBERS, chunks=2), return_counts=True)
    assert da.unique(da.from_array(NUMBERS, chunks=2)).compute().get().tolist() == [1, 2, 3]


def extremes_of(block):
    return np.array([[{"least": block.min(), "all": [block.max()]}]], dtype=object)


def test_blocks_of_a_dtype_that_cupy_lacks_come_of_a_function_that_has_no_value_for_empty_blocks(cell):
    cell()
    x = da.arange(16.0).reshape(4, 4).rechunk(2)
    result = x.map_blocks(extremes_of, dtype=object, chunks=(1, 1)).compute()
    assert result.shape == (2, 2)
    found = results_to_host(result)[1, 0]
    assert found == {"least": 8, "all": [13]}
    assert (type(found["least"]), type(found["all"][0])) == (np.float64, np.float64)
    texts = x.map_blocks(lambda block: np.array([[f"{float(block.max()):.0f}"]], "U3"), dtype="U3", chunks=(1, 1))
    assert texts.dtype == "U3"
    assert texts.compute().tolist() == [["5", "7"], ["13", "15"]]


CLIPPED = {
    "da.clip": lambda x: da.clip(x, -1, 5),
    "np.clip": lambda x: np.clip(x, 2, 300),
    "method": lambda x: x.clip(-(2**70), 2**70),
    "blocks": lambda x: x.map_blocks(lambda block: block.clip(-1, 5)),
}


@pytest.mark.parametrize("name", CLIPPED)
def test_bounds_that_no_value_of_the_dtype_can_reach_are_ignored(name, cell):
    unsigned = np.arange(9, dtype="u1")
    expected = CLIPPED[name](da.from_array(unsigned)).compute(scheduler="sync")
    cell()
    result = CLIPPED[name](da.from_array(unsigned, chunks=4))
    assert place_of(result) == "gpu"
    assert (result.dtype, result.compute().tolist()) == (expected.dtype, expected.tolist())
