"""Assignments to elements of arrays on GPUs: indices from other collections, and masked values."""

import dask.array as da
import numpy as np
import pytest
from device import MARKS

from jupyter_gpudask.errors import NotOnGpuError
from jupyter_gpudask.inspection.placement import place_of

pytestmark = [*MARKS]


@pytest.mark.parametrize("fallback", ["error", "host"])
@pytest.mark.parametrize("of", [da.asarray, lambda key: (da.asarray(key),), list], ids=["array", "tuple", "list"])
@pytest.mark.parametrize("key", [[2, 3], [7], [9, 0, 4], [-1, 5], np.arange(10) % 3 == 0], ids=str)
def test_indices_and_masks_on_the_gpu_select_the_same_elements(cell, of, key, fallback):
    cell(fallback)
    expected, x = np.arange(10), da.from_array(np.arange(10), chunks=5)
    expected[np.asarray(key)] = x[of(key)] = -3
    assert place_of(x) == "gpu"
    np.testing.assert_array_equal(x.compute().get(), expected)


def test_masked_values_move_the_array_to_the_host(cell):
    on_host = cell()
    x = da.ones((4, 4), chunks=2)
    x[1, :3] = np.ma.masked
    y = da.zeros(3, chunks=2)
    y[:2] = da.from_array(np.ma.array([5.0, 6.0], mask=[True, False]))
    assert x.compute().mask.sum() == 3
    assert y.compute().tolist() == [None, 6.0, 0.0]
    assert on_host() == {"setitem": 6}


@pytest.mark.parametrize("fallback", ["error", "strict"])
def test_without_a_fallback_masked_values_are_refused(cell, fallback):
    cell(fallback)
    x = da.ones(4, chunks=2)
    with pytest.raises(NotOnGpuError, match="CuPy has no masked arrays"):
        x[0] = np.ma.masked
    assert x.sum().compute() == 4
