"""Random programs on dataframes. Each step is tried with pandas first, and chosen by what is there."""

from __future__ import annotations

import random
import re
import shutil
import tempfile
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from .frame_steps import FRAME_STEPS, SERIES_STEPS
from .program import Program, Step, Table, names

if TYPE_CHECKING:
    from collections.abc import Callable

ERRORS_KEPT = 0.02
"""The part of the steps with an error of pandas that are kept, to compare errors."""

_DEPENDS_ON_ORDER = re.compile(r"first|last|idxm|drop_duplicates|\.iloc|argm")
"""Of equal rows or values, these take the one that comes first."""

_DTYPES = ("int64", "int32", "float64", "float32", "bool", "str", "str", "datetime64[ns]", "category")


def frame_program(seed: int) -> Program:
    """The program of a seed."""
    rng = random.Random(seed)  # noqa: S311 - programs, not secrets
    rows = rng.choice([0, 1, 2, 5, 8, 8, 12, 12, 20])
    data = {"v": _table(rng, rows), "w": _table(rng, rng.choice([0, 1, 3, 6]))}
    program = Program(seed, "frame", data)
    return Program(seed, "frame", data, grown(rng, program, rng.choice([1, 2, 2, 3, 3, 4]), _applicable))


def grown(
    rng: random.Random, program: Program, length: int, applicable: Callable[[Any], list[Any]]
) -> tuple[Step, ...]:
    """Steps that NumPy or pandas can take, one after another, with an error at the end now and then."""
    space = names() | {"folder": tempfile.mkdtemp()}
    steps: list[Step] = []
    order_is_open = False
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            exec(program.body(on_host=True), space)  # noqa: S102
            for _ in range(length * 12):
                choices = applicable(space["v"])
                if len(steps) == length or not choices:
                    break
                make = rng.choice(choices)
                try:
                    made = make(rng, space["v"], space["w"])
                except (AttributeError, IndexError, TypeError, ValueError):  # columns of one name, or no columns
                    continue
                if made is None or (order_is_open and make.needs_order):
                    continue
                if order_is_open and _DEPENDS_ON_ORDER.search(str(made)):
                    continue
                text, on_host = made if isinstance(made, tuple) else (made, None)
                step = Step(make.__name__, text, on_host, opens_order=make.opens_order)
                trial = dict(space)
                try:
                    exec(step.host_text, trial)  # noqa: S102
                except Exception:  # noqa: BLE001 - whatever pandas raises
                    if rng.random() < ERRORS_KEPT:
                        return (*steps, step)
                    continue
                space["v"] = trial["v"]
                order_is_open |= make.ends_order
                steps.append(step)
        return tuple(steps)
    finally:
        shutil.rmtree(space["folder"], ignore_errors=True)


def _applicable(value: Any) -> list[Any]:
    if isinstance(value, pd.DataFrame):
        return FRAME_STEPS
    return SERIES_STEPS if isinstance(value, pd.Series) else []


def _table(rng: random.Random, rows: int) -> Table:
    chosen = [rng.choice(_DTYPES) for _ in range(rng.randint(1, 5))]
    columns = {"n": ("int64", tuple(range(rows)))}
    columns |= {name: (dtype, _values(rng, dtype, rows)) for name, dtype in zip("abcde", chosen, strict=False)}
    columns["k"] = ("int64", tuple(rng.randint(0, 3) for _ in range(rows)))
    shuffled = list(columns.items())
    if rng.random() < 0.5:
        rng.shuffle(shuffled)
    index = rng.choice([None, None, _index(rng, rows), _index(rng, rows)])
    return Table(dict(shuffled), index, rng.randint(1, 5))


def _values(rng: random.Random, dtype: str, rows: int) -> tuple[Any, ...]:
    missing = rng.choice([0.0, 0.2, 0.5])

    def one() -> Any:
        if dtype.startswith("int"):
            return rng.randint(-4, 9)
        if dtype == "bool":
            return rng.random() < 0.5
        if rng.random() < missing:
            return None
        if dtype.startswith("float"):
            return rng.choice([0.0, 1.0, 2.5, -1.5, 3.25, 100.0, rng.randint(-9, 9) / 4])
        if dtype.startswith("datetime"):
            return f"202{rng.randint(0, 4)}-{rng.randint(1, 12):02}-{rng.randint(1, 28):02} 0{rng.randint(0, 9)}:30:00"
        return rng.choice(["a", "b", "B", "cc", "", " d ", "a1", "12", "ä", "x-y"])

    return tuple(one() for _ in range(rows))


def _index(rng: random.Random, rows: int) -> tuple[str | None, str, tuple[Any, ...]]:
    name = rng.choice([None, "i"])
    kind = rng.choice(["sorted", "unsorted", "duplicates", "str", "datetime64[ns]"])
    if kind == "str":
        return name, "str", tuple(rng.choice("pqrs") for _ in range(rows))
    if kind == "datetime64[ns]":
        return name, kind, tuple(f"2024-01-{1 + row % 28:02}" for row in range(rows))
    values = [10 * row for row in range(rows)]
    if kind == "unsorted":
        rng.shuffle(values)
    if kind == "duplicates":
        values = sorted(rng.randint(0, 5) for _ in range(rows))
    return name, "int64", tuple(values)
