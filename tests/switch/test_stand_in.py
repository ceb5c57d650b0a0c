"""The stand-in for CuPy refuses what CuPy refuses; with a GPU these tests are about CuPy itself."""

import operator
import pickle

import numpy as np
import pytest
from dask.base import tokenize
from device import MARKS, cupy

pytestmark = MARKS

X = cupy.arange(3.0)


@pytest.mark.parametrize(
    "mix",
    [
        lambda: X + np.ones(3),
        lambda: np.ones(3) + X,
        lambda: X + np.array(1.0),
        lambda: np.concatenate([X, np.ones(3)]),
        lambda: operator.setitem(X, slice(None), np.ones(3)),
        lambda: np.asarray(X),
        lambda: cupy.random.default_rng(1).poisson(np.ones(3)),
        lambda: cupy.random.default_rng(1).binomial(3, 1),
        lambda: cupy.random.RandomState(1).normal(np.ones(3), 1),
    ],
)
def test_an_array_of_numpy_is_refused(mix):
    with pytest.raises(
        (TypeError, ValueError),
        match=r"Unsupported type|cannot be used for fill|not allowed|required to be|can be converted|concatenated",
    ):
        mix()


@pytest.mark.parametrize("name", ["normal", "choice", "permutation", "gumbel", "zipf", "multinomial"])
def test_a_generator_lacks_what_it_lacks(name):
    assert not hasattr(cupy.random.Generator, name)
    assert hasattr(cupy.random.RandomState, name) is (name != "multinomial")


@pytest.mark.parametrize("value", [X.sum(), X[0], np.sum(X), np.float64(2) * X, X[np.array([1, 0])], cupy.asarray([1])])
def test_every_result_is_an_array_of_its_own_kind(value):
    assert type(value) is cupy.ndarray
    assert type(value.get()) is np.ndarray


def test_it_travels_and_has_a_token():
    assert pickle.loads(pickle.dumps(X)).tolist() == [0, 1, 2]  # noqa: S301 - our own
    assert tokenize(X) == tokenize(cupy.arange(3.0)) != tokenize(cupy.arange(4.0))
