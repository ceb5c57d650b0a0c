"""Functions given to `map_blocks` on arrays of GPUs: CuPy where there is a GPU, the stand-in elsewhere."""

import asyncio
import functools

import cloudpickle
import dask
import dask.array as da
import numpy as np
import pytest
from dask.utils import funcname
from device import MARKS, cupy

from jupyter_gpudask.client.kernel_client import KernelClient
from jupyter_gpudask.inspection.placement import place_of
from jupyter_gpudask.patches.user_functions import ResultsAt
from jupyter_gpudask.switch.context import switched_to

pytestmark = MARKS


def fails_when_empty(block):
    assert block.size
    return block.get() * 2


def moves_what_is_not_empty(block, factor=2):
    return (block if block.size else block.get()) * factor


def keeps(block, block_id=None):
    assert block_id is None or len(block_id) == 1
    return block * 2


@pytest.mark.parametrize(
    ("function", "place"),
    [
        (fails_when_empty, "gpu"),
        (moves_what_is_not_empty, "host"),
        (functools.partial(moves_what_is_not_empty, factor=2), "host"),
        (keeps, "gpu"),
        (lambda block: block.get() * 2, "host"),
    ],
)
def test_blocks_are_where_the_metadata_says(function, place):
    with switched_to("cupy", "pandas"), dask.config.set(scheduler="sync"):
        array = da.ones(6, chunks=3)
        for mapped in (da.map_blocks(function, array, dtype=float), array.map_blocks(func=function, dtype=float)):
            assert place_of(mapped) == place
            assert {place_of(block.compute()) for block in mapped.blocks} == {place}
            assert float((mapped + 1).sum().compute()) == 18


def test_errors_of_dask_name_the_function_of_the_user():
    with (
        switched_to("cupy", "pandas"),
        dask.config.set(scheduler="sync"),
        pytest.raises(ValueError, match=r"output of <function .*<lambda> at .*> to have dims = 1"),
    ):
        da.ones(6, chunks=3).map_blocks(lambda block: block[None], dtype=float, enforce_ndim=True).compute()


def test_a_vectorized_function_can_be_pickled_after_its_metadata_was_inferred():
    vectorized = np.vectorize(lambda x, y: x + y, otypes=["i8"], doc="Add.")
    mapped = ResultsAt(vectorized)
    mapped(np.arange(2), 1)
    with pytest.raises(Exception, match="vectorized"):
        cloudpickle.dumps(vectorized)
    copied = cloudpickle.loads(cloudpickle.dumps(mapped)).function
    assert copied(np.arange(2), 1).tolist() == [1, 2]
    assert (copied.otypes, copied.__doc__) == (vectorized.otypes, "Add.")


def test_a_class_is_a_function_with_its_name():
    mapped = ResultsAt(type)
    assert (funcname(mapped), mapped.__module__, mapped(1)) == ("type", "builtins", int)


META = np.array((), dtype=float)


@pytest.mark.parametrize(
    ("function", "options"),
    [
        (lambda x: (x.min(axis=-1), x.max(axis=-1)), {"meta": (META, META)}),
        (lambda x: (x.get().min(axis=-1), x.max(axis=-1)), {"meta": (META, META)}),
        (lambda x: (x.get().min(axis=-1), x.get().max(axis=-1)), {"output_dtypes": (float, float)}),
        (lambda x: (x.min(axis=-1), x.max(axis=-1)), {}),
    ],
)
def test_results_of_a_generalized_ufunc_are_on_the_gpu_whatever_metadata_is_given(function, options):
    with switched_to("cupy", "pandas"), dask.config.set(scheduler="sync"):
        x = da.arange(6.0, chunks=3).reshape((2, 3))
        results = da.apply_gufunc(function, "(i)->(),()", x, **options)
        for result, expected in zip(results, ([0, 3], [2, 5]), strict=True):
            assert place_of(result) == place_of(result.compute()) == place_of(result.persist() + x[:, 0]) == "gpu"
            assert result.compute().get().tolist() == expected
            assert float((result + 1).sum().compute()) == sum(expected) + 2


def test_texts_of_a_generalized_ufunc_are_on_the_host():
    with switched_to("cupy", "pandas"), dask.config.set(scheduler="sync"):
        x = da.arange(3.0, chunks=3)
        double, text = da.apply_gufunc(
            lambda a: (a * 2, a.get().astype(str)), "()->(),()", x, output_dtypes=(float, "U32")
        )
        assert (place_of(double), place_of(text)) == ("gpu", "host")
        assert double.compute().get().tolist() == [0, 2, 4]
        assert text.compute().tolist() == ["0.0", "1.0", "2.0"]


def test_a_function_gives_one_name_twice_and_another_for_another_function():
    with switched_to("cupy", "pandas"):
        array = da.ones(6, chunks=3)
        one, again, other = (array.map_blocks(f, dtype=float) for f in (keeps, keeps, moves_what_is_not_empty))
    assert one.name == again.name != other.name
    assert one.name.startswith("keeps")


def test_coroutines_that_a_library_gives_to_the_client_run_with_the_backends_of_the_cell():
    async def create():
        await asyncio.sleep(0)
        return da.from_array(np.ones(4), chunks=2), await client.submit(int, 3)

    with KernelClient(processes=False, n_workers=1, threads_per_worker=1, dashboard_address=":0") as client:
        with switched_to("cupy", "pandas"):
            array, three = client.sync(create)
        outside, _ = client.sync(create)
    assert (place_of(array), place_of(outside), three) == ("gpu", "host", 3)


def test_numpy_gets_a_numpy_array():
    with switched_to("cupy", "pandas"), dask.config.set(scheduler="sync"):
        array = da.arange(6, chunks=3)
        assert type(array.compute()) is cupy.ndarray
        given = [np.asarray(array), np.array(array, dtype="f4")]
    assert [type(each) for each in given] == [np.ndarray] * 2
    assert given[0].tolist() == given[1].tolist() == list(range(6))


def test_a_result_that_is_to_be_written_into_an_array_is_written_there():
    def write(dtype):
        x, y = da.from_array(np.array([-np.inf, 0, np.inf]), chunks=2), da.full(3, 2, chunks=3, dtype=dtype)
        written = da.isfinite(x, y)
        assert written is not y  # as on the CPU
        assert written.compute().tolist() == [0, 1, 0]
        return y

    with switched_to("cupy", "pandas"), dask.config.set(scheduler="sync"):
        for dtype in (int, float, bool):
            y = write(dtype)
            assert (place_of(y), y.dtype, y.compute().dtype) == ("gpu", dtype, dtype)
            assert y.compute().tolist() == [0, 1, 0]


def test_a_quotient_is_written_into_an_array_and_fractions_into_no_array_of_integers():
    with switched_to("cupy", "pandas"), dask.config.set(scheduler="sync"):
        x, y = da.from_array(np.array([1.0, -7.0, 7.5]), chunks=2), da.zeros(3, chunks=3)
        da.floor_divide(x, 0.1, y)
        assert y.compute().tolist() == [9, -70, 74] == np.floor_divide([1.0, -7.0, 7.5], 0.1).tolist()
        integers = da.zeros(3, chunks=3, dtype=int)
        with pytest.raises(TypeError, match="Cannot cast"):
            da.add(x, 0.5, integers)
        assert integers.compute().tolist() == [0, 0, 0]
