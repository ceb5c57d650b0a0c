"""Which stream a number is from: seeds, workers, generators that cross the border of a cell."""

import pickle
from concurrent.futures import ThreadPoolExecutor

import dask
import dask.array as da
import numpy as np
import pytest
from dask.array.random import _cached_states
from device import MARKS, cupy
from distributed import Client, LocalCluster
from draws import ALL, draw

from jupyter_gpudask.random_numbers.blocks import BlockGenerator
from jupyter_gpudask.switch.context import switched_to

pytestmark = [*MARKS, pytest.mark.filterwarnings("ignore:.*Please call randint:DeprecationWarning")]


def cell():
    return switched_to("cupy", "pandas")


def kind(array):
    """What the metadata and the numbers are made of, which must be the same."""
    result = array.compute(scheduler="sync")
    assert type(result) is type(array._meta)
    return type(result)


def numbers(array):
    result = array.compute(scheduler="sync")
    return (result.get() if isinstance(result, cupy.ndarray) else result).tolist()


def test_the_numbers_do_not_depend_on_the_workers():
    """Those of all methods of all generators are the same in two workers as in this process."""
    with cell():
        arrays = {f"{maker} {name}": draw(maker, name, size=60, chunks=20) for maker, name in ALL}
    here = dask.compute(*arrays.values(), scheduler="sync")
    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0") as cluster, Client(cluster) as client:
        there = client.gather(client.compute(list(arrays.values())))
    for name, expected, found in zip(arrays, here, there, strict=True):
        assert type(found) is cupy.ndarray
        np.testing.assert_array_equal(found.get(), expected.get(), err_msg=name)


def test_the_graph_of_many_blocks_is_small():
    with cell():
        array = da.random.RandomState(1).normal(size=1000, chunks=1)
    assert len(pickle.dumps(dict(array.dask))) < 500_000


def test_a_seed_counts_inside_and_outside_whichever_it_is_called_in():
    def inside():
        with cell():
            return numbers(da.random.normal(size=5))

    def outside():
        return numbers(da.random.normal(size=5))

    da.random.seed(1)
    first = inside(), outside()
    with cell():
        da.random.seed(1)
    assert (inside(), outside()) == first
    da.random.seed(2)
    assert inside() != first[0]
    assert outside() != first[1]
    da.random.seed()
    assert inside() != first[0]


def test_a_generator_can_be_seeded_again():
    with cell():
        rng = da.random.RandomState(1)
        first = numbers(rng.normal(size=5))
        rng.seed(1)
        assert numbers(rng.normal(size=5)) == first
        assert kind(rng.normal(size=5)) is cupy.ndarray


def test_a_seed_gives_the_cpu_the_numbers_that_it_gives_in_dask():
    with cell():
        da.random.seed(1)
        da.random.normal(size=5)
    expected = da.random.RandomState(1).normal(size=5).compute(scheduler="sync")
    assert numbers(da.random.normal(size=5)) == expected.tolist()


def test_draws_of_one_side_leave_the_other_alone():
    def both(between):
        da.random.seed(1)
        with cell():
            first = da.random.normal(size=5)
        between()
        with cell():
            return numbers(first), numbers(da.random.normal(size=5))

    assert both(lambda: None) == both(lambda: da.random.normal(size=5))


def test_both_sides_do_not_share_a_stream():
    da.random.seed(1)
    on_cpu = da.random.multinomial(50, [0.2] * 5, size=9)
    with cell():
        on_gpu = da.random.multinomial(50, [0.2] * 5, size=9)  # drawn by NumPy, too
    assert numbers(on_cpu) != numbers(on_gpu)


def test_without_a_seed_nothing_repeats():
    _cached_states.clear()
    with cell():
        first = numbers(da.random.normal(size=5))
    _cached_states.clear()
    with cell():
        assert numbers(da.random.normal(size=5)) != first


@pytest.mark.parametrize("make", [da.random.default_rng, da.random.RandomState])
@pytest.mark.parametrize(
    "method",
    [
        lambda rng: rng.normal(size=9, chunks=3),
        lambda rng: rng.choice(9, size=9, chunks=3),
        lambda rng: rng.choice(np.arange(9), size=9, p=np.full(9, 1 / 9), chunks=3),
        lambda rng: rng.permutation(9),
        lambda rng: rng.poisson(np.ones(9), chunks=3),
    ],
)
def test_a_generator_stays_on_the_side_where_it_was_made(make, method):
    outside, same = make(1), make(1)
    with cell():
        inside, array, once = make(1), method(outside), method(same)
        assert kind(array) is np.ndarray  # computed in this process, where the switch is on
    assert kind(array) is np.ndarray
    assert numbers(once) == numbers(
        method(make(1))
    )  # computed once: Dask's `choice` draws on when it is computed again
    assert kind(method(inside)) is cupy.ndarray


def test_a_generator_of_cupy_and_one_of_numpy_can_be_asked_for_in_any_cell():
    assert kind(da.random.default_rng(cupy.random.default_rng(1)).gumbel(size=9)) is cupy.ndarray
    assert kind(da.random.Generator(cupy.random.Philox4x3210(1)).normal(size=9)) is cupy.ndarray
    assert kind(da.random.RandomState(1, RandomState=cupy.random.RandomState).normal(size=9)) is cupy.ndarray
    with cell():
        assert kind(da.random.default_rng(cupy.random.XORWOW(1)).normal(size=9)) is cupy.ndarray
        assert kind(da.random.default_rng(np.random.PCG64(1)).normal(size=9)) is np.ndarray
        assert kind(da.random.default_rng(np.random.default_rng(1)).permutation(9)) is np.ndarray
        assert kind(da.random.RandomState(1, RandomState=np.random.RandomState).choice(9, size=9)) is np.ndarray


@pytest.mark.parametrize("kinds", [("XORWOW", "MRG32k3a"), ("XORWOW", "Philox4x3210")])
def test_the_kind_of_generator_is_part_of_the_key(kinds):
    arrays = [da.random.Generator(getattr(cupy.random, kind)(1)).random(size=9) for kind in kinds]
    assert arrays[0].name != arrays[1].name
    assert numbers(arrays[0]) != numbers(arrays[1])


def test_drawing_makes_no_generator_for_the_blocks_in_the_kernel(monkeypatch):
    with cell():
        rng = da.random.default_rng(1)
        monkeypatch.setattr(type(rng._bit_generator), "__init__", None)
        monkeypatch.setattr(cupy.random.RandomState, "__init__", None)
        assert rng.normal(size=100, chunks=1).npartitions == 100


def test_dasks_own_algorithms_draw_on_the_gpu():
    with cell():
        x = da.random.random((60, 4), chunks=(20, 4))
        u, s, v = da.linalg.svd_compressed(x, 2, seed=1)
    assert kind(u) is kind(s) is kind(v) is cupy.ndarray


@pytest.mark.parametrize("kind", [None, "Philox4x3210", "XORWOW", "MRG32k3a"])
@pytest.mark.parametrize("method", ["normal", "random_sample", "standard_gamma", "randint"])
def test_a_generator_that_a_thread_uses_again_draws_what_a_new_one_draws(kind, method):
    def drawn(seed, size):
        generator = BlockGenerator(kind, seed if kind is None else np.random.SeedSequence(seed)).on_gpu()
        return getattr(generator, method)(*ARGUMENTS_OF.get(method, ()), size=size).get()

    cases = [(seed, size) for seed in (1, 2**63) for size in (1, 7, (3, 5), 1000)]
    new = []
    for case in cases:  # a new thread has no generator
        with ThreadPoolExecutor(1) as pool:
            new.append(pool.submit(drawn, *case).result())
    for case, expected in zip(cases * 2, new * 2, strict=True):
        np.testing.assert_array_equal(drawn(*case), expected)


ARGUMENTS_OF = {"standard_gamma": (2.0,), "randint": (0, 1000)}
