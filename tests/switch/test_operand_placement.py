"""Lists and NumPy arrays that Dask's functions are given: on the GPU in cells for GPUs, or where their company is."""

from types import FunctionType

import dask.array as da
import numpy as np
import pytest
from device import MARKS, cupy

from jupyter_gpudask.errors import MixedBackendsError
from jupyter_gpudask.switch.context import switched_to

pytestmark = MARKS

PLAIN = np.array([4.0, 3.0, 2.0, 1.0])
OUTSIDE = da.from_array(np.array([1.0, 2.0, 3.0, 4.0]), chunks=2)

WITH_A_COLLECTION = {
    "operator": lambda x: x + PLAIN,
    "reflected operator": lambda x: PLAIN - x,
    "list": lambda x: x * [1, 2, 3, 4],
    "ufunc": lambda x: da.maximum(x, PLAIN),
    "ufunc of NumPy": lambda x: np.maximum(x, PLAIN),
    "where": lambda x: da.where(x > 2, PLAIN, [0, 0, 0, 0]),
    "clip": lambda x: da.clip(x, [1, 1, 1, 1], 3),
    "matmul": lambda x: x @ PLAIN,
    "dot": lambda x: da.dot(x, PLAIN),
    "tensordot": lambda x: da.tensordot(x, PLAIN, axes=1),
    "einsum": lambda x: da.einsum("i,i", x, PLAIN),
    "append": lambda x: da.append(x, [5, 6]),
    "concatenate": lambda x: da.concatenate([x, PLAIN]),
    "stack": lambda x: da.stack([PLAIN, x]),
    "average": lambda x: da.average(x, weights=PLAIN),
    "average of a list": lambda x: da.average(x, weights=[1, 2, 3, 4]),
    "cov": lambda x: da.cov(x, PLAIN),
    "density": lambda x: da.histogram(x, bins=[0, 2, 5], density=True)[0],
    "index of itself": lambda x: x[x.argmin(keepdims=True)],
    "isclose": lambda x: da.isclose(x, PLAIN),
    "isin": lambda x: da.isin(x, [1, 2]),
    "select": lambda x: da.select([x > 2, x < 2], [PLAIN, [0, 0, 0, 0]]),
    "comparison": lambda x: x == PLAIN,
}

ALONE = {
    "fft": lambda: da.fft.fft(PLAIN),
    "diff": lambda: da.diff(PLAIN),
    "cov": lambda: da.cov(PLAIN),
    "ravel": lambda: da.ravel([[1, 2], [3, 4]]),
    "atleast_1d": lambda: da.atleast_1d(1.0),
    "average": lambda: da.average(PLAIN),
    "flip": lambda: da.flip(PLAIN, 0),
    "outer": lambda: da.outer(PLAIN, PLAIN),
    "sum": lambda: da.sum(PLAIN),
    "kept dimension": lambda: da.std(PLAIN, keepdims=True),
    "number": lambda: da.max(PLAIN[0]),
    "exponent": lambda: da.frexp(PLAIN)[1],
    "fraction": lambda: da.modf(PLAIN)[0],
    "gufunc": lambda: da.apply_gufunc(lambda x: x + 1, "()->()", PLAIN, output_dtypes=float),
    "gufunc of a number": lambda: da.apply_gufunc(lambda x: x + 1, "()->()", 1.0, output_dtypes=float),
    "as_gufunc": lambda: da.as_gufunc("(i)->()", output_dtypes=float)(lambda x: x.sum(axis=-1))(PLAIN),
    "blockwise": lambda: da.blockwise(np.negative, "i", PLAIN, "i"),
}


def result_of(array):
    return array.compute(scheduler="sync")


@pytest.mark.parametrize("operation", WITH_A_COLLECTION.values(), ids=WITH_A_COLLECTION)
def test_beside_a_collection_of_the_cell_it_is_on_the_gpu(operation):
    """Beside one from outside it stays on the CPU."""
    numbers = np.array([1.0, 2.0, 3.0, 4.0])
    expected = result_of(operation(da.from_array(numbers, chunks=2)))
    with switched_to("cupy", "pandas"):
        inside, outside = operation(da.from_array(numbers, chunks=2)), operation(OUTSIDE)
    assert type(result_of(inside)) is cupy.ndarray
    np.testing.assert_allclose(result_of(inside).get(), expected)
    assert isinstance(outside._meta, np.ndarray)
    np.testing.assert_array_equal(result_of(outside), expected)


def test_what_dask_made_of_plain_data_follows_a_collection_from_outside():
    with switched_to("cupy", "pandas"):
        plain = da.concatenate([PLAIN, PLAIN])[:4]
        total = plain + OUTSIDE
        assert type(plain._meta) is cupy.ndarray
        with pytest.raises(MixedBackendsError):
            da.from_array(PLAIN, chunks=2) + OUTSIDE
    np.testing.assert_array_equal(result_of(total), [5, 5, 5, 5])
    assert type(result_of(total)) is np.ndarray


def times_identity(a):
    return dot(a, eye(2, chunks=1))  # noqa: F821 - of the module that it is moved to


@pytest.mark.parametrize("inside", [True, False], ids=["of the cell", "from outside"])
def test_an_identity_that_dask_creates_is_placed_with_the_other_operands(inside):
    # As in `dask.array.linalg.inv`, which needs SciPy.
    module = {"eye": da.eye, "dot": da.dot, "__name__": "dask.array.linalg"}
    function = FunctionType(times_identity.__code__, module)
    matrix = da.from_array(PLAIN.reshape(2, 2), chunks=1)
    with switched_to("cupy", "pandas"):
        product = function(da.from_array(PLAIN.reshape(2, 2), chunks=1) if inside else matrix)
    result = result_of(product)
    assert type(result) is type(product._meta) is (cupy.ndarray if inside else np.ndarray)
    np.testing.assert_array_equal(result.get() if inside else result, PLAIN.reshape(2, 2))


@pytest.mark.parametrize("make", ALONE.values(), ids=ALONE)
def test_alone_it_is_on_the_gpu_and_has_no_name_of_the_cpus(make):
    on_cpu = make()
    with switched_to("cupy", "pandas"):
        on_gpu = make()
    assert isinstance(on_cpu._meta, np.ndarray)
    assert on_cpu.name != on_gpu.name
    assert type(result_of(on_gpu)) is type(on_gpu._meta) is cupy.ndarray
    np.testing.assert_allclose(result_of(on_gpu).get(), result_of(on_cpu))


def test_what_is_written_for_numpy_arrays_alone_is_on_the_gpu():
    with switched_to("cupy", "pandas"):
        written = da.add(PLAIN, PLAIN, where=True, out=da.zeros(4, chunks=2))
    assert type(result_of(written)) is type(written._meta) is cupy.ndarray
    assert result_of(written).get().tolist() == (PLAIN + PLAIN).tolist()


@pytest.mark.parametrize(
    "make",
    [
        lambda x: da.apply_gufunc(lambda a, b: a + b, "(),()->()", PLAIN, x.rechunk(4), output_dtypes=float),
        lambda x: da.blockwise(lambda a, b: a + b, "i", PLAIN, "i", x, "i", dtype=float),
    ],
)
def test_functions_of_the_user_get_a_numpy_array_where_the_other_one_is(make):
    with switched_to("cupy", "pandas"):
        inside = make(da.from_array(PLAIN, chunks=2))
        outside = make(OUTSIDE)
    for array, kind in ((inside, cupy.ndarray), (outside, np.ndarray)):
        assert type(array._meta) is type(result_of(array)) is kind
    assert result_of(inside).get().tolist() == [8, 6, 4, 2]
    assert result_of(outside).tolist() == [5, 5, 5, 5]


class DataArray:
    """Of xarray: Dask reads its `data`."""

    __module__ = "xarray.core.dataarray"

    def __init__(self, data):
        self.data, self.dtype, self.ndim, self.shape = data, data.dtype, data.ndim, data.shape

    def __dask_graph__(self):
        return getattr(self.data, "dask", None)


def test_labelled_arrays_are_placed_as_those_in_them():
    labelled, outside = DataArray(PLAIN), DataArray(OUTSIDE)
    operations = {
        "sum": lambda x: da.sum(x, keepdims=True),
        "gufunc": lambda x: da.apply_gufunc(lambda block: block + 1, "()->()", x, output_dtypes=float),
        "blockwise": lambda x: da.blockwise(np.negative, "i", x, "i", dtype=float),
    }
    for operation in operations.values():
        with switched_to("cupy", "pandas"):
            inside = operation(labelled)
            on_host = operation(outside)
        assert type(result_of(inside)) is type(inside._meta) is cupy.ndarray
        assert type(result_of(on_host)) is type(on_host._meta) is np.ndarray
        np.testing.assert_array_equal(result_of(inside).get(), result_of(operation(PLAIN)))


def test_setting_elements_follows_the_array():
    with switched_to("cupy", "pandas"):
        inside, outside = da.ones(4, chunks=2), OUTSIDE.copy()
        inside[1:3] = [5, 6]
        outside[1:3] = np.array([5, 6])
    assert result_of(inside).get().tolist() == [1, 5, 6, 1]
    assert result_of(outside).tolist() == [1, 5, 6, 4]


@pytest.mark.parametrize(
    "operation",
    [
        lambda inside: da.concatenate(seq=[inside, OUTSIDE]),
        lambda inside: da.stack(seq=[OUTSIDE, inside]),
        lambda inside: da.matmul(a=OUTSIDE, b=inside),
        lambda inside: da.tensordot(lhs=inside, rhs=OUTSIDE, axes=1),
        lambda inside: da.searchsorted(OUTSIDE, v=inside),
        lambda inside: da.linalg.solve_triangular(da.diag(inside), b=OUTSIDE),
        lambda inside: da.add(inside, inside, where=OUTSIDE > 1),
    ],
)
def test_two_places_in_one_operation_are_refused_by_name_of_the_parameter_too(operation):
    with switched_to("cupy", "pandas"), pytest.raises(MixedBackendsError):
        operation(da.ones(4, chunks=2))


def test_masked_arrays_stay_on_the_cpu():
    with switched_to("cupy", "pandas"):
        masked = da.ma.masked_greater(da.ma.masked_array([1, 2, 3], mask=[0, 1, 0]), 2)
    assert isinstance(result_of(masked), np.ma.MaskedArray)


def test_numbers_of_collections_from_outside_stay_on_the_cpu():
    with switched_to("cupy", "pandas"):
        assert isinstance(da.asarray([OUTSIDE[0], OUTSIDE[1]])._meta, np.ndarray)
