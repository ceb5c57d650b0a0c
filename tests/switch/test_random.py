"""Random numbers in a cell for GPUs: every method of every generator, as on NumPy, but drawn by CuPy."""

import numpy as np
import pytest
from device import MARKS, block_of, cupy
from draws import ALL, ARGUMENTS, MAKERS, draw, from_numpy, greatest_distance, kolmogorov_smirnov

from jupyter_gpudask.switch.context import switched_to

# NumPy's `random_integers` says so, on the CPU.
pytestmark = [*MARKS, pytest.mark.filterwarnings("ignore:.*Please call randint:DeprecationWarning")]

EVERY = pytest.mark.parametrize(("maker", "name"), ALL)


def on_gpu(*args, **kwargs):
    with switched_to("cupy", "pandas"):
        return draw(*args, **kwargs)


def values(array):
    result = array.compute(scheduler="sync")
    assert type(result) is cupy.ndarray
    return result.get()


def test_arguments_are_known_for_every_method():
    assert {name for _, name in ALL} == set(ARGUMENTS)


@EVERY
def test_meta_blocks_and_result_are_cupy_and_look_as_on_the_cpu(maker, name):
    on_cpu, array = draw(maker, name), on_gpu(maker, name)
    assert type(array._meta) is cupy.ndarray
    assert array.dtype == on_cpu.dtype
    assert array.name != on_cpu.name
    if on_cpu.ndim == array.ndim:  # Dask forgets the last axis of some
        assert array.chunks == on_cpu.chunks
    for place in list(np.ndindex(array.numblocks))[:2]:
        block = block_of(array, place)
        assert type(block) is cupy.ndarray
        assert block.dtype == array.dtype
        assert block.shape == tuple(sizes[at] for sizes, at in zip(array.chunks, place, strict=True))
    assert values(array).shape == array.shape


@EVERY
def test_a_seed_decides_the_key_and_the_numbers_and_nothing_else_repeats(maker, name):
    array, again, other = on_gpu(maker, name), on_gpu(maker, name), on_gpu(maker, name, seed=2)
    assert array.name == again.name != other.name
    np.testing.assert_array_equal(values(array), values(again))
    size = {} if name == "permutation" else {"size": 50}
    with switched_to("cupy", "pandas"):
        unseeded = [draw(maker, name, seed=None) for _ in range(2)]
        rng = MAKERS[maker](1)
        of_one_generator = [getattr(rng, name)(*ARGUMENTS[name], **size) for _ in range(2)]
    for first, second in ((array, other), unseeded, of_one_generator):
        assert first.name != second.name
        assert not np.array_equal(values(first), values(second))


# The functions of ``da.random`` are methods of a `RandomState`.
DISTRIBUTIONS = pytest.mark.parametrize(
    ("maker", "name"), [(maker, name) for maker, name in ALL if maker != "da.random" and name != "permutation"]
)


@DISTRIBUTIONS
def test_chunks_are_independent(maker, name):
    array = on_gpu(maker, name, size=8000, chunks=4000)
    first, second = values(array).astype(float).reshape(2, 4000, -1)[..., 0]
    ranks = [np.searchsorted(np.sort(part), part) for part in (first, second)]  # equal numbers have equal ranks
    assert not np.array_equal(first, second)
    assert abs(np.corrcoef(*ranks)[0, 1]) < 5 / np.sqrt(4000)


@DISTRIBUTIONS
def test_the_distribution_is_that_of_numpy(maker, name):
    size = 20_000
    drawn = values(on_gpu(maker, name, size=size, chunks=size // 4)).astype(float).reshape(size, -1)
    expected = from_numpy(maker, name, size).astype(float).reshape(size, -1)
    assert drawn.shape == expected.shape
    for ours, numpys in zip(drawn.T, expected.T, strict=True):
        assert kolmogorov_smirnov(ours, numpys) < greatest_distance(size)
        # Means too: where a distribution has two moments, a shift of every number shows here first.
        if name not in ("standard_cauchy", "zipf"):
            error = np.sqrt((ours.var() + numpys.var()) / size)
            assert abs(ours.mean() - numpys.mean()) < 6 * error


@pytest.mark.parametrize("maker", ["default_rng", "RandomState", "da.random"])
def test_a_permutation_has_everything_once_and_in_no_order(maker):
    drawn = values(on_gpu(maker, "permutation"))
    np.testing.assert_array_equal(np.sort(drawn), np.arange(2000))
    assert abs(np.corrcoef(drawn, np.arange(2000))[0, 1]) < 5 / np.sqrt(2000)
