"""`cupy.random`: the methods of CuPy 14.2's generators, no other, with what each of them refuses."""

import hashlib
import inspect

import numpy as np

from ._arrays import asarray, ndarray, unwrap, wrap

_GENERATOR = (
    "beta binomial chisquare dirichlet exponential f gamma geometric hypergeometric integers logseries poisson power "
    "random standard_exponential standard_gamma standard_normal uniform"
).split()
_RANDOM_STATE = (
    "beta binomial chisquare choice dirichlet exponential f gamma geometric gumbel hypergeometric laplace logistic "
    "lognormal logseries multivariate_normal negative_binomial noncentral_chisquare noncentral_f normal pareto "
    "permutation poisson power rand randint randn random_sample rayleigh shuffle standard_cauchy standard_exponential "
    "standard_gamma standard_normal standard_t tomaxint triangular uniform vonmises wald weibull zipf"
).split()
# The others have it, unlike NumPy's.
_WITHOUT_DTYPE = {"choice", "permutation", "shuffle", "tomaxint", "rand", "randn"}


class BitGenerator:
    def __init__(self, seed=None):
        is_sequence = isinstance(seed, np.random.SeedSequence)
        self._seed_seq = seed if is_sequence else np.random.SeedSequence(seed)
        self._host = np.random.SFC64(_child(self._seed_seq, type(self).__name__))


def _child(sequence, name):
    """Bits that no generator of NumPy draws from the same seed."""
    return np.random.SeedSequence([int.from_bytes(name.encode()), *sequence.generate_state(8).tolist()])


class XORWOW(BitGenerator):
    pass


class MRG32k3a(BitGenerator):
    pass


class Philox4x3210(BitGenerator):
    pass


class Generator:
    def __init__(self, bit_generator):
        self.bit_generator = bit_generator
        self._host = np.random.Generator(bit_generator._host)


class RandomState:
    def __init__(self, seed=None, method=None):
        self.method = method
        self.seed(seed)

    def seed(self, seed=None):
        if isinstance(seed, np.ndarray):
            seed = int(hashlib.md5(seed, usedforsecurity=False).hexdigest()[:16], 16)
        name = f"RandomState {self.method}"
        self._host = np.random.RandomState(np.random.SFC64(_child(np.random.SeedSequence(seed), name)))


def _generator_method(name):
    signature = inspect.signature(getattr(np.random.Generator, name))

    def draw(self, *args, **kwargs):
        given = signature.bind(self, *args, **kwargs).arguments
        del given["self"]
        for parameter in given.keys() - {"size", "dtype", "out", "method", "endpoint"}:
            given[parameter] = _parameter(name, parameter, given[parameter])
        if name == "integers":
            low, high = (0, given["low"]) if given.get("high") is None else (given["low"], given["high"])
            if 2**31 <= high - low - 1 + given.get("endpoint", False) < 2**32:
                raise OverflowError("value too large to convert to int32_t")
        return wrap(getattr(self._host, name)(**given))

    draw.__name__ = name
    return draw


def _parameter(name, parameter, value):
    """A parameter of a Generator's method, as NumPy takes it."""
    if name == "integers":
        return value if value is None else int(value)
    if name in ("uniform", "exponential"):
        return asarray(value)._host
    is_scalar = type(value) is float if (name, parameter) == ("binomial", "p") else type(value) in (float, int)
    if not is_scalar and not isinstance(value, ndarray):
        raise TypeError(f"{parameter} is required to be a cupy.ndarray or a scalar")
    whole = name == "hypergeometric" or (name, parameter) == ("binomial", "n")
    return asarray(value).astype("int64" if whole else "float64")._host


def _random_state_method(name):
    def draw(self, *args, dtype=None, **kwargs):
        arrays = [value for value in (*args, *kwargs.values()) if isinstance(value, np.ndarray)]
        if arrays and name in ("normal", "lognormal"):
            raise TypeError("only 0-dimensional arrays can be converted to Python scalars")
        if name == "randint":
            kwargs["dtype"] = dtype or int
        elif dtype is not None and name in _WITHOUT_DTYPE:
            raise TypeError(f"{name}() got an unexpected keyword argument 'dtype'")
        function = getattr(self._host, name)
        drawn = wrap(np.asarray(function(*unwrap(args, indices=True), **unwrap(kwargs, indices=True))))
        return drawn if dtype is None else drawn.astype(dtype)

    draw.__name__ = name
    return draw


for _name in _GENERATOR:
    setattr(Generator, _name, _generator_method(_name))
for _name in _RANDOM_STATE:
    setattr(RandomState, _name, _random_state_method(_name))


def default_rng(seed=None):
    if isinstance(seed, BitGenerator):
        return Generator(seed)
    return seed if isinstance(seed, Generator) else Generator(XORWOW(seed))


def seed(seed=None):
    _state.seed(seed)


_state = RandomState()


def __getattr__(name):
    return getattr(_state, "random_sample" if name == "random" else name)
