"""Random numbers in a cell for GPUs: all that the methods may be given."""

import dask.array as da
import numpy as np
import pytest
from device import MARKS, cupy

from jupyter_gpudask.switch.context import switched_to

pytestmark = MARKS

PLACES = np.arange(6.0)
LISTED = da.from_array(np.arange(6.0), chunks=2)
POPULATION = np.array([3.5, 4.5, 5.5, 6.5])
CHANCES = [0.1, 0.2, 0.3, 0.4]

# Of both kinds of generators: what is drawn, and a test of the numbers.
DRAWS = {
    "numbers of NumPy": (lambda r: r.poisson(np.float64(4), size=9), lambda x: x.shape == (9,)),
    "an array of no axes": (lambda r: r.poisson(np.array(4), size=9), lambda x: x.shape == (9,)),
    "a Dask array of no axes": (lambda r: r.poisson(da.asarray(np.array(4)), size=9), lambda x: x.shape == (9,)),
    "a whole chance": (lambda r: r.binomial(3, 1, size=9), lambda x: (x == 3).all()),
    "an array": (lambda r: r.normal(100 * PLACES, 1, chunks=2), lambda x: abs(x - 100 * PLACES).max() < 9),
    "a scale": (
        lambda r: r.normal(0, PLACES, size=(500, 6), chunks=2),
        lambda x: not x[:, 0].any() and x[:, 5].std() > 3,
    ),
    "two arrays": (lambda r: r.uniform(PLACES, PLACES + 1, chunks=4), lambda x: (x.astype(int) == PLACES).all()),
    "a list": (lambda r: r.normal([0, 100], 1, chunks=1), lambda x: abs(x - [0, 100]).max() < 9),
    "CuPy's": (lambda r: r.normal(cupy.asarray([0, 100]), 1, chunks=1), lambda x: abs(x - [0, 100]).max() < 9),
    "a Dask array": (lambda r: r.normal(100 * LISTED, 1, chunks=3), lambda x: abs(x - 100 * PLACES).max() < 9),
    "mixed": (lambda r: r.normal(100 * LISTED, np.ones((5, 1)), chunks=2), lambda x: abs(x - 100 * PLACES).max() < 9),
    "whole numbers": (lambda r: r.gamma(np.array([1, 400]), 1, chunks=1), lambda x: x[0] < 50 and x[1] > 200),
    "with a new axis": (lambda r: r.poisson(1000 * PLACES, size=(4, 6), chunks=3), lambda x: (x[:, 5] > 4000).all()),
    "chances": (lambda r: r.multinomial(9, np.full(3, 1 / 3), size=4, chunks=2), lambda x: (x.sum(axis=1) == 9).all()),
    "one of them": (lambda r: r.normal(), lambda x: x.shape == ()),
    "none of them": (lambda r: r.normal(size=(0, 3)), lambda x: x.shape == (0, 3)),
    "a list for a size": (lambda r: r.gumbel(size=[3, 2]), lambda x: x.shape == (3, 2)),
    "chunks of many sizes": (lambda r: r.laplace(size=(5, 5), chunks=((1, 4), (3, 2))), lambda x: x.shape == (5, 5)),
    "choice of": (lambda r: r.choice(POPULATION, size=99, chunks=9), lambda x: set(x) == set(POPULATION)),
    "choice of a list": (lambda r: r.choice([1, 2, 3], size=99, chunks=9), lambda x: set(x) == {1, 2, 3}),
    "choice of CuPy's": (lambda r: r.choice(cupy.asarray(POPULATION), size=99), lambda x: set(x) == set(POPULATION)),
    "choice of Dask's": (lambda r: r.choice(LISTED, size=99, chunks=50), lambda x: set(x) == set(PLACES)),
    "choice by chance": (
        lambda r: r.choice(4, size=9000, p=CHANCES, chunks=999),
        lambda x: 0.28 < (x == 2).mean() < 0.32,
    ),
    "choice by Dask's": (lambda r: r.choice(2, size=9, p=da.asarray(np.array([0, 1.0]))), lambda x: (x == 1).all()),
    "choice by CuPy's": (lambda r: r.choice(2, size=9, p=cupy.asarray([0, 1.0])), lambda x: (x == 1).all()),
    "choice of each": (lambda r: r.choice(9, size=9, replace=False), lambda x: sorted(x) == list(range(9))),
    "choice of some": (lambda r: r.choice(POPULATION, size=3, replace=False, p=CHANCES), lambda x: len(set(x)) == 3),
    "choice of one": (lambda r: r.choice(9), lambda x: x.shape == () and 0 <= x < 9),
    "choice of none": (lambda r: r.choice(9, size=0), lambda x: x.shape == (0,)),
    "choice, two axes": (
        lambda r: r.choice(9, size=(6, 6), chunks=3),
        lambda x: x.shape == (6, 6) and set(x.flat) <= set(range(9)),
    ),
    "permutation": (lambda r: r.permutation(POPULATION), lambda x: set(x) == set(POPULATION)),
    "permutation of CuPy's": (lambda r: r.permutation(cupy.asarray(POPULATION)), lambda x: set(x) == set(POPULATION)),
    "permutation of Dask's": (lambda r: r.permutation(LISTED), lambda x: set(x) == set(PLACES)),
    "permutation of rows": (
        lambda r: r.permutation(da.arange(40, chunks=4).reshape((20, 2))),
        lambda x: sorted(map(tuple, x)) == [(2 * row, 2 * row + 1) for row in range(20)] and x[0, 0] + x[1, 0] != 2,
    ),
}

OF_GENERATORS = {
    "counts": (lambda r: r.multinomial(np.array([5, 600]), [0.5, 0.5]), lambda x: x.sum(axis=1).tolist() == [5, 600]),
    "single precision": (lambda r: r.random(9, dtype="float32"), lambda x: x.dtype == "float32"),
    "single normals": (lambda r: r.standard_normal(9, dtype=np.float32), lambda x: x.dtype == "float32"),
    "a method": (lambda r: r.standard_exponential(9, dtype="f4", method="zig"), lambda x: x.dtype == "float32"),
    "small integers": (lambda r: r.integers(-9, 9, size=99, dtype="int8"), lambda x: x.dtype == "int8" and x.min() < 0),
    "truths": (lambda r: r.integers(0, 2, size=99, dtype=bool), lambda x: x.dtype == bool and 0 < x.sum() < 99),
    "the end": (lambda r: r.integers(1, 3, size=99, endpoint=True), lambda x: set(x) == {1, 2, 3}),
    "one bound": (lambda r: r.integers(3, size=99), lambda x: set(x) == {0, 1, 2}),
    "one number": (lambda r: r.integers(3, 4, size=99), lambda x: set(x) == {3}),
    "arrays of bounds": (lambda r: r.integers(0, high=np.array([1, 10**6])), lambda x: x[0] == 0 != x[1]),
    "an array for a bound": (lambda r: r.integers(np.array([1, 10**6])), lambda x: x[0] == 0 != x[1]),
    "unshuffled": (lambda r: r.choice(9, size=9, replace=False, shuffle=False), lambda x: sorted(x) == list(range(9))),
}

OF_STATES = {
    "small integers": (lambda r: r.randint(-9, 9, size=99, dtype="int8"), lambda x: x.dtype == "int8" and x.min() < 0),
    "truths": (lambda r: r.randint(0, 2, size=99, dtype=bool), lambda x: x.dtype == bool and 0 < x.sum() < 99),
    "one bound": (lambda r: r.randint(3, size=99), lambda x: set(x) == {0, 1, 2}),
    "arrays of bounds": (lambda r: r.randint(0, np.array([1, 10**6])), lambda x: x[0] == 0 != x[1]),
    "the end": (lambda r: r.random_integers(3, size=99), lambda x: set(x) == {1, 2, 3}),
    "single precision": (lambda r: r.normal(size=9, dtype="float32"), lambda x: x.dtype == "float32"),
}

CASES = [
    *((da.random.default_rng, *DRAWS[name]) for name in DRAWS),
    *((da.random.RandomState, *DRAWS[name]) for name in DRAWS),
    *((da.random.default_rng, *OF_GENERATORS[name]) for name in OF_GENERATORS),
    *((da.random.RandomState, *OF_STATES[name]) for name in OF_STATES),
]
IDS = [*(f"{kind}, {name}" for kind in ("default_rng", "RandomState") for name in DRAWS), *OF_GENERATORS, *OF_STATES]


@pytest.mark.parametrize(("make", "draw", "is_right"), CASES, ids=IDS)
def test_an_argument_is_taken_as_numpy_takes_it(make, draw, is_right):
    with switched_to("cupy", "pandas"):
        array, again = draw(make(1)), draw(make(1))
    result = array.compute(scheduler="sync")
    assert type(array._meta) is type(result) is cupy.ndarray
    assert array.name == again.name
    assert (result.shape, result.dtype) == (array.shape, array.dtype)
    assert is_right(result.get())


@pytest.mark.parametrize(
    ("low", "high", "dtype"),
    [
        (0, 2**31, "int64"),
        (0, 2**31 + 1, "int64"),
        (0, 2**32, "int64"),
        (0, 2**32 + 1, "int64"),
        (-(2**31), 2**31, "int32"),
        (-(2**63), 2**63, "int64"),
        (-(2**63), 0, "int64"),
        (0, 2**64, "uint64"),
        (2**63, 2**63 + 1000, "uint64"),
    ],
)
@pytest.mark.parametrize(("make", "name"), [(da.random.default_rng, "integers"), (da.random.RandomState, "randint")])
def test_bounds_may_be_as_far_apart_as_the_type_allows(make, name, low, high, dtype):
    with switched_to("cupy", "pandas"):
        array = getattr(make(1), name)(low, high, size=4000, dtype=dtype, chunks=1000)
    numbers = [int(number) for number in array.compute(scheduler="sync").get()]
    assert array.dtype == dtype
    assert all(low <= number < high for number in numbers)
    middle = sum((number - low) / (high - low) for number in numbers) / len(numbers)
    assert abs(middle - 0.5) < 6 / np.sqrt(12 * len(numbers))


@pytest.mark.parametrize("make", [da.random.default_rng, da.random.RandomState])
@pytest.mark.parametrize(
    ("draw", "error", "sentence"),
    [
        (lambda r: r.normal(0, -1, size=3), ValueError, "scale < 0"),
        (lambda r: r.poisson(-1, size=3), ValueError, "lam < 0"),
        (lambda r: r.normal(0, 1, size=3, deviation=2), TypeError, "unexpected keyword"),
        (lambda r: r.normal(LISTED, 1, deviation=2), TypeError, "unexpected keyword"),
        (lambda r: r.poisson(3, size=3, dtype="float32"), TypeError, "unexpected keyword"),
        (lambda r: r.poisson(LISTED, dtype="float32"), TypeError, "unexpected keyword"),
        (lambda r: r.standard_cauchy(3, dtype=int), TypeError, "unexpected keyword"),
        (lambda r: r.multinomial(3, [0.5, 0.5], dtype="int32"), TypeError, "unexpected keyword"),
        (lambda r: r.normal(np.ones(3), 1, size=4), ValueError, "broadcast"),
        (lambda r: r.choice(9, size=4, chunks=2, replace=False), NotImplementedError, "multi-chunk"),
        (lambda r: r.choice(3, size=4, p=[0.5, 0.1, 0.1]), ValueError, "do not sum to 1"),
        (lambda r: r.choice(-3, size=4), ValueError, "greater than 0"),
        (lambda r: r.multinomial(3, [0.9, 0.9, 0.1], size=3), ValueError, "pvals"),
    ],
)
def test_what_numpy_refuses_is_refused_when_it_is_called(make, draw, error, sentence):
    with pytest.raises(error, match=sentence):
        draw(make(1))
    with switched_to("cupy", "pandas"), pytest.raises(error, match=sentence):
        draw(make(1))


@pytest.mark.parametrize("make", [da.random.default_rng, da.random.RandomState])
def test_texts_stay_on_the_host(make):
    words = np.array(["one", "two"])
    with switched_to("cupy", "pandas"):
        chosen = make(1).choice(words, size=99, chunks=9)
        permuted = make(1).permutation(da.from_array(words, chunks=1))
    for array in (chosen, permuted):
        result = array.compute(scheduler="sync")
        assert type(array._meta) is type(result) is np.ndarray
        assert set(result) == {"one", "two"}
