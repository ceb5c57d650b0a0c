"""Random programs on arrays. Each step is tried with NumPy first, and chosen by what is there."""

from __future__ import annotations

import random
from typing import Any

import numpy as np

from .array_steps import ARRAY_STEPS
from .frames import grown
from .program import Numbers, Program

_DTYPES = ("float64", "float64", "float32", "int64", "int32", "uint8", "bool", "complex128")
_LARGEST = 20_000


def array_program(seed: int) -> Program:
    """The program of a seed."""
    rng = random.Random(seed)  # noqa: S311 - programs, not secrets
    shape = tuple(rng.choice([1, 2, 3, 4, 5, 6, 7]) for _ in range(rng.choice([1, 1, 2, 2, 2, 3])))
    if rng.random() < 0.05:
        shape = (0, *shape[1:])
    data: dict[str, Any] = {
        name: Numbers(dtype, shape, tuple(_chunks(rng, size) for size in shape), rng.randint(0, 99), missing)
        for name in "vw"
        for dtype in [rng.choice(_DTYPES)]
        for missing in [dtype.startswith("float") and rng.random() < 0.3]
    }
    program = Program(seed, "array", data)
    return Program(seed, "array", data, grown(rng, program, rng.choice([1, 2, 3, 3, 4, 5]), _applicable))


def _applicable(value: Any) -> list[Any]:
    return ARRAY_STEPS if isinstance(value, np.ndarray) and value.ndim and value.size < _LARGEST else []


def _chunks(rng: random.Random, size: int) -> tuple[int, ...]:
    """Sizes of chunks, of which some are 1 and some 0."""
    sizes, left = [], size
    while left:
        sizes.append(rng.randint(1, left))
        left -= sizes[-1]
    if rng.random() < 0.15:
        sizes.insert(rng.randint(0, len(sizes)), 0)
    return tuple(sizes) or (0,)
