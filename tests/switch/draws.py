"""Every way to draw random numbers that Dask offers, with arguments for each."""

import math

import dask.array as da
import numpy as np

ARGUMENTS = {
    "beta": (2, 5),
    "binomial": (10, 0.3),
    "chisquare": (3,),
    "choice": (50,),
    "exponential": (2,),
    "f": (4, 9),
    "gamma": (3, 2),
    "geometric": (0.3,),
    "gumbel": (1, 2),
    "hypergeometric": (15, 12, 9),
    "integers": (-3, 40),
    "laplace": (1, 2),
    "logistic": (1, 2),
    "lognormal": (0.5, 0.4),
    "logseries": (0.6,),
    "multinomial": (12, [0.5, 0.3, 0.2]),
    "multivariate_hypergeometric": ([16, 8, 4], 9),
    "negative_binomial": (4, 0.4),
    "noncentral_chisquare": (3, 2),
    "noncentral_f": (4, 9, 2),
    "normal": (2, 3),
    "pareto": (4,),
    "permutation": (2000,),
    "poisson": (4,),
    "power": (3,),
    "randint": (-3, 40),
    "random": (),
    "random_integers": (2, 9),
    "random_sample": (),
    "rayleigh": (2,),
    "standard_cauchy": (),
    "standard_exponential": (),
    "standard_gamma": (3,),
    "standard_normal": (),
    "standard_t": (5,),
    "tomaxint": (),
    "triangular": (0, 1, 3),
    "uniform": (2, 5),
    "vonmises": (1, 2),
    "wald": (2, 3),
    "weibull": (2,),
    "zipf": (3,),
}
"""Of every method; a method of a later Dask that is not here fails a test."""

MAKERS = {
    "default_rng": da.random.default_rng,
    "RandomState": da.random.RandomState,
    "da.random": lambda seed: da.random.seed(seed) or da.random,
}

NAMES = {
    "default_rng": {name for name in dir(da.random.Generator) if not name.startswith("_")},
    "RandomState": {name for name in dir(da.random.RandomState) if not name.startswith("_")} - {"seed"},
    "da.random": {
        name
        for name, value in vars(da.random).items()
        if getattr(value, "__module__", "") == "dask.array.random" and not isinstance(value, type) and name[0] != "_"
    }
    - {"seed", "default_rng"},
}

ALL = [(maker, name) for maker, names in NAMES.items() for name in sorted(names)]


def draw(maker, name, seed=1, size=2000, chunks=500):
    """A Dask array of numbers that `name` draws, with the backend that is set."""
    method = getattr(MAKERS[maker](seed), name)
    return method(*ARGUMENTS[name]) if name == "permutation" else method(*ARGUMENTS[name], size=size, chunks=chunks)


def from_numpy(maker, name, size, seed=1):
    """As many numbers of NumPy's own."""
    rng = np.random.default_rng(seed) if maker == "default_rng" else np.random.RandomState(seed)
    if name == "random_integers":
        return rng.randint(2, 10, size=size)
    return getattr(rng, name)(*ARGUMENTS[name], size=size)


def kolmogorov_smirnov(first, second):
    """The greatest distance of the two empirical distributions."""
    places = np.sort(np.concatenate([first, second]))
    shares = [np.searchsorted(np.sort(sample), places, side="right") / sample.size for sample in (first, second)]
    return np.abs(shares[0] - shares[1]).max()


def greatest_distance(size, chance=1e-6):
    """Which two samples of `size` from one distribution exceed with this chance (Smirnov's limit)."""
    return math.sqrt(-math.log(chance / 2) / 2) * math.sqrt(2 / size)
