"""The random numbers of one block, drawn in a task on the worker, with CuPy or NumPy."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..inspection.results import TO_GPU, transfer

HOST_ONLY = ("multinomial", "multivariate_hypergeometric")
"""What no generator of CuPy has: drawn by NumPy on the worker's host, and moved."""

BOUNDED = ("integers", "randint")
"""Whole numbers between two bounds, by their names in the two kinds of generator."""

DRAWS_THE_SAME_AGAIN = "_gpudask_draws_the_same_again"
"""An attribute of functions that draw the same block each time; `graph.repeated` reads it."""

_RENAMED = {"random": "random_sample"}
_METHODS = {"XORWOW": "XORWOW", "MRG32k3a": "MRG32K3A", "Philox4x3210": "PHILOX4_32_10"}


@dataclass(frozen=True)
class BlockGenerator:
    """The random numbers of one block, and no other.

    CuPy's ``RandomState`` draws. CuPy's ``Generator`` lacks half of NumPy's methods, takes but 32 bits of a seed, and
    makes 32,768 streams ready for every block.
    """

    kind: str | None  # name of a bit generator of `cupy.random`, or `None`, which is NumPy's older kind of generator
    seed: Any  # a `numpy.random.SeedSequence`, or with no `kind` a whole number of 64 bits

    def on_gpu(self) -> Any:
        """CuPy's generator; until this thread asks for another one of the same method."""
        seed = self.seed if self.kind is None else int(self.seed.generate_state(1, np.uint64)[0])
        # To fill a large block with normals, Philox takes a seventh of the time of cuRAND's default, XORWOW.
        return _make_generator(_METHODS.get(self.kind or "Philox4x3210", "DEFAULT"), seed)

    def on_host(self) -> Any:
        """NumPy's generator with the same methods."""
        if self.kind is None:
            return np.random.RandomState(np.random.MT19937(np.random.SeedSequence(self.seed)))
        return np.random.Generator(np.random.PCG64(self.seed))

    def whole_numbers(self, span: int, size: tuple[int, ...]) -> Any:
        """From 0 to `span`, both included, on the GPU."""
        return self.on_gpu().randint(0, span + 1, size=size, dtype="int64")


class _Kept(threading.local):
    """The generators of one thread, by device and method."""

    def __init__(self) -> None:
        self.generators: dict[tuple[int, str], Any] = {}


_kept = _Kept()


def _make_generator(method: str, seed: int) -> Any:
    """A `cupy.random.RandomState` with this seed: the numbers are those of a new one.

    Creating and destroying one for each block takes up to six times as long as drawing the block.
    """
    import cupy

    key = cupy.cuda.get_device_id(), method
    kept = _kept.generators.get(key)
    if kept is None:
        curand_method = getattr(cupy.cuda.curand, f"CURAND_RNG_PSEUDO_{method}")
        kept = _kept.generators[key] = cupy.random.RandomState(seed, method=curand_method)
    else:
        kept.seed(seed)
    return kept


def draw_block(
    generator: BlockGenerator,
    name: str,
    parameters: tuple[Any, ...],
    *,
    size: tuple[int, ...],
    dtype: np.dtype[Any],
    options: dict[str, Any],
) -> Any:
    """Draw one block with CuPy, by NumPy's name of the method.

    `parameters`: numbers, and arrays that broadcast to `size`, of CuPy or NumPy. `size`, `dtype`: of the result. Axes
    that the method adds, such as the classes of a multinomial, are no part of `size`. `options`: what else the method
    takes: ``endpoint``, ``method``.
    """
    import cupy

    if 0 in size and name not in HOST_ONLY:
        return cupy.empty(size, dtype)
    if name in BOUNDED and not any(map(_is_array, parameters)):
        low, span = bounds(*parameters, **options)
        if span < 2**63 and -(2**63) <= low < 2**63 - span:
            return (generator.whole_numbers(span, size) + low).astype(dtype, copy=False)
    if name in (*BOUNDED, *HOST_ONLY):
        wanted = {"dtype": dtype} if name in BOUNDED else {}
        drawn = getattr(generator.on_host(), name)(*map(to_numpy, parameters), size=size, **wanted, **options)
        with transfer(TO_GPU, drawn.nbytes):
            return cupy.asarray(drawn)
    given = [cupy.asarray(value) if _is_array(value) else value for value in parameters]
    single = {"dtype": dtype} if dtype == np.float32 else {}
    return getattr(generator.on_gpu(), _RENAMED.get(name, name))(*given, size=size, **single).astype(dtype, copy=False)


setattr(draw_block, DRAWS_THE_SAME_AGAIN, True)


def choose_block(
    generator: BlockGenerator,
    population: Any,
    chances: Any,
    *,
    size: tuple[int, ...],
    replace: bool,
    options: dict[str, Any],
) -> Any:
    """Choose one block of `population`: an array, or an integer `n` for the integers from 0 to ``n - 1``.

    The indices are drawn on the GPU; without replacement (one chunk only), by NumPy on the host.
    """
    import cupy

    count = population if isinstance(population, int) else len(population)
    if not replace:
        picked = generator.on_host().choice(count, size, replace=False, p=to_numpy(chances), **options)
        with transfer(TO_GPU, picked.nbytes):
            index = cupy.asarray(picked)
    elif 0 in size:
        index = cupy.empty(size, "int64")
    elif chances is None:
        index = generator.whole_numbers(count - 1, size)
    else:
        steps = cupy.cumsum(cupy.asarray(chances, "float64"))
        index = cupy.searchsorted(steps / steps[-1], generator.on_gpu().random_sample(size), side="right")
    if isinstance(population, int):
        return index
    if population.dtype.kind not in "biufc":  # texts, dates and objects are on the host
        return population[index.get()]
    return cupy.asarray(population)[index]


def bounds(low: Any, high: Any = None, *, endpoint: bool = False) -> tuple[int, int]:
    """The least number that may be drawn, and how far the greatest is from it."""
    least, end = (0, low) if high is None else (low, high)
    return int(least), int(end) - int(least) - (not endpoint)


def _is_array(value: Any) -> bool:
    return getattr(value, "ndim", 0) > 0


def to_numpy(value: Any) -> Any:
    """A number or an array of CuPy as that of NumPy; other values as they are."""
    return value.get() if type(value).__module__.partition(".")[0] == "cupy" else value
