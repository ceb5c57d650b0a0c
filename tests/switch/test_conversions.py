"""Conversions, powers and complex numbers of arrays on GPUs are those of NumPy on x86."""

import dask.array as da
import numpy as np
import pytest
from device import MARKS, cupy

from jupyter_gpudask.overlay import CellRecord
from jupyter_gpudask.switch.context import switched_to

pytestmark = [*MARKS, pytest.mark.filterwarnings("ignore")]

FLOATS = np.array([-3.0, -300.7, -70000.2, -0.5, 0, 2.5, 200, 300, 70000])
NAN, INF = np.nan, np.inf
COMPLEX = np.array(
    [1 + 2j, 0, -1j, complex(NAN, 1), complex(1, NAN), complex(NAN, NAN), complex(INF, 0), complex(-INF, 3)]
)


def both(operation, numbers):
    """What an operation gives on the CPU and on the GPUs."""
    expected = operation(da.from_array(numbers, chunks=4)).compute(scheduler="sync")
    with switched_to("cupy", "pandas", CellRecord(fallback="strict")):
        result = operation(da.from_array(numbers, chunks=4))
        found = result.compute(scheduler="sync")
    assert type(result._meta) is type(found) is cupy.ndarray
    assert found.dtype == expected.dtype == result.dtype
    return expected, found.get()


@pytest.mark.parametrize("dtype", ["u1", "u2", "u4", "u8", "i1", "i2"])
@pytest.mark.parametrize("floats", ["f4", "f8"])
def test_floats_become_integers_as_on_the_cpu_also_if_they_are_negative(floats, dtype):
    values = FLOATS.astype(floats)
    if dtype == "u8":
        values = np.append(values, 2.0**63 + 2**40)
    expected, found = both(lambda x: x.astype(dtype), values)
    assert found.tolist() == expected.tolist()


def test_floats_are_assigned_to_integers_as_on_the_cpu():
    def assigned(x):
        made = da.zeros(len(x), dtype="u1", chunks=4)
        made[::-1] = x
        return made

    expected, found = both(assigned, FLOATS)
    assert found.tolist() == expected.tolist()


@pytest.mark.parametrize("size", [0, 5])
@pytest.mark.parametrize("exponent", [0, 1, 2, 3, 0.5, True])
def test_powers_of_booleans_have_the_dtype_of_numpy(size, exponent):
    expected, found = both(lambda x: da.logical_xor(x, 1) ** exponent, np.arange(size) % 3)
    assert found.tolist() == expected.tolist()


WITH_INFINITIES = {
    "quotient": lambda x: x / x[::-1],
    "of a number": lambda x: 1 / x,
    "by zero": lambda x: da.true_divide(x, 0),
    "power": lambda x: x**-1.5,
    "float_power": lambda x: da.float_power(x, -1),
    "exponential": lambda x: da.exp(x / 0),
    "logarithm": da.log,
    "rows": lambda x: x[:, None] / x[None, :3],
    "quotient of one": lambda x: x.sum() / x.min(),
}


@pytest.mark.parametrize("dtype", ["c8", "c16"])
@pytest.mark.parametrize("name", WITH_INFINITIES)
def test_complex_numbers_beside_infinities_and_zeros_are_those_of_numpy(name, dtype):
    expected, found = both(WITH_INFINITIES[name], COMPLEX.astype(dtype))
    np.testing.assert_allclose(found, expected, rtol=1e-5)
    unusual = ~np.isfinite(expected)
    for part in ("real", "imag"):
        np.testing.assert_array_equal(*(getattr(each, part)[unusual] for each in (found, expected)))


@pytest.mark.parametrize("name", ["nanmean", "nanprod", "nanstd", "nansum", "nanvar"])
def test_a_complex_number_of_which_a_part_is_nan_is_skipped(name):
    expected, found = both(lambda x: getattr(da, name)(x[2:6]), COMPLEX)
    np.testing.assert_allclose(found, expected)


@pytest.mark.parametrize("name", ["nanprod", "nansum"])
@pytest.mark.parametrize("shape", [(1,), (1, 1), (3,)])
def test_blocks_without_complex_numbers_change_no_reduction(name, shape):
    numbers = np.full(shape, 0.5 - 0.25j)
    chunks = ((shape[0], 0), *shape[1:])
    compute = lambda x: getattr(da, name)(x.rechunk(chunks))  # noqa: E731
    expected, found = both(compute, numbers)
    assert found.tolist() == expected.tolist() == getattr(np, name)(numbers).tolist()
