"""Random programs: some data, and steps in the style of pandas or NumPy that change the collection `v`.

A step is a text for Dask and one for NumPy and pandas. Each is tried with NumPy or pandas first, and chosen by what is
there; the operations are in `frame_steps.py` and `array_steps.py`.
"""

from __future__ import annotations

import math
import random
import re
import shutil
import tempfile
import warnings
import zlib
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pandas as pd
from array_steps import ARRAY_STEPS
from frame_steps import FRAME_STEPS, SERIES_STEPS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from program_draws import Operation

Kind = Literal["frame", "array"]

IMPORTS = """\
import re
import tempfile

import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd

folder = tempfile.mkdtemp()
"""


@dataclass(frozen=True)
class Step:
    """One step of a program."""

    name: str
    """Of the operation; differences are grouped by it."""
    text: str
    """Statements for Dask, which assign a new `v`."""
    on_host: str | None = None
    """The same for NumPy and pandas, where it is another text."""
    opens_order: bool = False
    """Whether Dask leaves the order of the rows open from here on."""

    @property
    def host_text(self) -> str:
        return re.sub(r"\bdd\.", "pd.", re.sub(r"\bda\.", "np.", self.on_host or self.text))


@dataclass(frozen=True)
class Table:
    """A dataframe of the setup."""

    columns: dict[str, tuple[str, tuple[Any, ...]]]
    """Name -> dtype and values; missing ones are `None`."""
    index: tuple[str | None, str, tuple[Any, ...]] | None
    """Its name, dtype and values; `None` for one that counts."""
    partitions: int

    @property
    def rows(self) -> int:
        return max((len(values) for _, values in self.columns.values()), default=0)

    def lines(self, frame: str, collection: str) -> Iterator[str]:
        yield f"{frame} = pd.DataFrame("
        yield "    {"
        for name, (dtype, values) in self.columns.items():
            yield f"        {name!r}: pd.Series({list(values)!r}, dtype={dtype!r}),"
        yield "    }"
        yield ")"
        if self.index is not None:
            name, dtype, values = self.index
            yield f"{frame}.index = pd.Index({list(values)!r}, dtype={dtype!r}, name={name!r})"
        yield f"{collection} = dd.from_pandas({frame}, npartitions={self.partitions}, sort=False)"

    def smaller(self) -> Iterator[Table]:
        """The same with less in it, most of it left out first."""
        rows = range(self.rows)
        for size in (self.rows // 2, self.rows // 4, 1):
            for start in range(0, self.rows, size) if size else ():
                yield self._with_rows([row for row in rows if not start <= row < start + size])
        for name in self.columns:
            yield replace(self, columns={other: values for other, values in self.columns.items() if other != name})
        if self.index is not None:
            yield replace(self, index=None)
        for partitions in range(1, self.partitions):
            yield replace(self, partitions=partitions)

    def _with_rows(self, rows: list[int]) -> Table:
        index = self.index and (*self.index[:2], tuple(self.index[2][row] for row in rows))
        columns = {name: (dtype, tuple(values[row] for row in rows)) for name, (dtype, values) in self.columns.items()}
        return replace(self, columns=columns, index=index)  # type: ignore[arg-type]


@dataclass(frozen=True)
class Numbers:
    """An array of the setup."""

    dtype: str
    shape: tuple[int, ...]
    chunks: tuple[tuple[int, ...], ...]
    seed: int
    """Of its elements."""
    missing: bool = False
    """Whether some of them are NaN."""

    def lines(self, array: str, collection: str) -> Iterator[str]:
        lowest = 0 if self.dtype in ("uint8", "bool") else -4
        highest = 2 if self.dtype == "bool" else 5
        numbers = f"np.random.default_rng({self.seed}).integers({lowest}, {highest}, {self.shape})"
        if self.dtype.startswith(("float", "complex")):
            numbers = f"({numbers} / 2)"
        if self.dtype.startswith("complex"):
            numbers = f"({numbers} * (1 - 0.5j))"
        yield f"{array} = {numbers}.astype({self.dtype!r})"
        if self.missing:
            yield f"{array}[np.random.default_rng({self.seed}).random({array}.shape) < 0.2] = np.nan"
        yield f"{collection} = da.from_array({array}, chunks={self.chunks})"

    def smaller(self) -> Iterator[Numbers]:
        """The same with less in it."""
        if self.missing:
            yield replace(self, missing=False)
        for axis, (size, sizes) in enumerate(zip(self.shape, self.chunks, strict=True)):
            for chunks in ((size,), *((size - 1, 1) for _ in range(size > 1))):
                if len(chunks) < len(sizes):
                    yield replace(self, chunks=(*self.chunks[:axis], chunks, *self.chunks[axis + 1 :]))
            for place, chunk in enumerate(sizes):
                less = (*sizes[:place], *((chunk // 2,) if chunk > 1 else ()), *sizes[place + 1 :])
                if not less:
                    continue
                shape = (*self.shape[:axis], sum(less), *self.shape[axis + 1 :])
                yield replace(self, shape=shape, chunks=(*self.chunks[:axis], less, *self.chunks[axis + 1 :]))


@dataclass(frozen=True)
class Program:
    """A program."""

    seed: int
    """From which it was made."""
    kind: Kind
    data: dict[str, Table | Numbers]
    """By the name of the collection: `v`, which the steps change, and `w`."""
    steps: tuple[Step, ...] = ()

    @property
    def setup(self) -> str:
        letters = {"v": "a", "w": "b"}
        return "\n".join(line for name, data in self.data.items() for line in data.lines(letters[name], name))

    @property
    def opens_order(self) -> bool:
        """Whether the order of the rows of the result is open."""
        return any(step.opens_order for step in self.steps)

    @property
    def last(self) -> str:
        """The name of the last operation."""
        return self.steps[-1].name if self.steps else "creation"

    def body(self, *, on_host: bool = False) -> str:
        """The statements without the imports, for Dask or for NumPy and pandas."""
        steps = [step.host_text if on_host else step.text for step in self.steps]
        setup = self.setup
        if on_host:
            # Only the last line of each piece of data is one of Dask.
            setup = "\n".join(_without_dask(line) for line in setup.splitlines())
        return "\n".join([setup, *steps]) + "\n"

    @property
    def source(self) -> str:
        """The whole program for Dask, to paste into a cell."""
        return f"{IMPORTS}{self.body()}v.compute() if hasattr(v, 'compute') else v\n"


def _without_dask(line: str) -> str:
    name, _, call = line.partition(" = ")
    if not call.startswith(("dd.from_pandas(", "da.from_array(")):
        return line
    return f"{name} = {call.partition('(')[2].partition(',')[0]}.copy()"


def names() -> dict[str, Any]:
    """What a program can use besides Dask."""
    return {"np": np, "pd": pd, "math": math, "re": re, "__name__": "__main__"}


_TEXTS = (
    *("a", "b", "B", "cc", "", " d ", "a1", "12", "ä", "x-y"),
    *("aa bb", "straße", "İ", "> 89", "a.b", "٣"),
)

ERRORS_KEPT = 0.02
"""The part of the steps with an error of pandas that are kept, to compare errors."""

_DEPENDS_ON_ORDER = re.compile(r"first|last|idxm|drop_duplicates|\.iloc|argm")
"""Of equal rows or values, these take the one that comes first."""

_DTYPES_OF_COLUMNS = (
    *("int64", "int32", "float64", "float32", "bool", "str", "str", "datetime64[ns]", "datetime64[ns]", "category"),
    *("timedelta64[ns]", "Int64", "UInt8", "Float64", "boolean", "int64[pyarrow]"),
    *("datetime64[s]", "Int8", "Float32", "string", "string[pyarrow]", "bool[pyarrow]", "double[pyarrow]"),
)


_MANY, _MANY_EACH = 20, 8
"""Partitions of one in eight programs: Dask sends two to each of so many to merge them, instead of a shuffle."""


def frame_program(seed: int) -> Program:
    """The program of a seed."""
    rng = random.Random(seed)
    rows = rng.choice([0, 1, 2, 5, 8, 8, 12, 12, 20])
    has_many = seed % _MANY_EACH == 0
    data = {"v": _table(rng, _MANY if has_many else rows), "w": _table(rng, rng.choice([0, 1, 3, 6]))}
    if has_many:
        data["v"] = replace(data["v"], partitions=_MANY)
    program = Program(seed, "frame", data)
    return Program(seed, "frame", data, grown(rng, program, rng.choice([1, 2, 2, 3, 3, 4]), _of_frames))


def grown(
    rng: random.Random, program: Program, length: int, applicable: Callable[[Any], list[Operation]]
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
                operation = rng.choice(choices)
                try:
                    made = operation.make(rng, space["v"], space["w"])
                except (AttributeError, IndexError, TypeError, ValueError):  # columns of one name, or no columns
                    continue
                if not made or (order_is_open and operation.needs_order):
                    continue
                if order_is_open and _DEPENDS_ON_ORDER.search(str(made)):
                    continue
                text, on_host = made if isinstance(made, tuple) else (made, None)
                step = Step(operation.name, text, on_host, operation.opens_order)
                trial = dict(space)
                try:
                    exec(step.host_text, trial)  # noqa: S102
                except Exception:  # noqa: BLE001 - whatever pandas raises
                    if rng.random() < ERRORS_KEPT:
                        return (*steps, step)
                    continue
                space["v"] = trial["v"]
                order_is_open |= operation.opens_order or operation.order_of_library
                steps.append(step)
        return tuple(steps)
    finally:
        shutil.rmtree(space["folder"], ignore_errors=True)


def _of_frames(value: Any) -> list[Operation]:
    if isinstance(value, pd.DataFrame):
        return FRAME_STEPS
    return SERIES_STEPS if isinstance(value, pd.Series) else []


def _table(rng: random.Random, rows: int) -> Table:
    chosen = [rng.choice(_DTYPES_OF_COLUMNS) for _ in range(rng.randint(1, 5))]
    columns = {"n": ("int64", tuple(range(rows)))}
    columns |= {name: (dtype, _values(rng, dtype, rows)) for name, dtype in zip("abcde", chosen, strict=False)}
    columns["k"] = ("int64", tuple(rng.randint(0, 3) for _ in range(rows)))
    shuffled = list(columns.items())
    if rng.random() < 0.5:
        rng.shuffle(shuffled)
    index = rng.choice([None, None, _index(rng, rows), _index(rng, rows)])
    return Table(dict(shuffled), index, rng.randint(1, 5))


def _values(rng: random.Random, dtype: str, rows: int) -> tuple[Any, ...]:
    missing = 0.0 if dtype in ("int64", "int32", "bool") else rng.choice([0.0, 0.2, 0.5])
    of_dtypes: dict[str, Callable[[], Any]] = {
        "int": lambda: rng.randint(-4, 9),
        "uint": lambda: rng.randint(0, 9),
        "bool": lambda: rng.random() < 0.5,
        "float|double": lambda: rng.choice([0.0, -0.0, 1.0, 2.5, -1.5, 3.25, 100.0, rng.randint(-9, 9) / 4]),
        "timedelta": lambda: f"{rng.randint(-2, 40)}h",
        "datetime": lambda: (
            f"202{rng.randint(0, 4)}-{rng.randint(1, 12):02}-{rng.randint(1, 28):02} 0{rng.randint(0, 9)}:30:00"
        ),
    }
    one = next((made for name, made in of_dtypes.items() if re.match(name, dtype.lower())), lambda: rng.choice(_TEXTS))
    return tuple(None if rng.random() < missing else one() for _ in range(rows))


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


_DTYPES_OF_ARRAYS = ("float64", "float64", "float32", "int64", "int32", "uint8", "bool", "complex128")
_LARGEST = 20_000


def array_program(seed: int) -> Program:
    """The program of a seed."""
    rng = random.Random(seed)
    shape = tuple(rng.choice([1, 2, 3, 4, 5, 6, 7]) for _ in range(rng.choice([1, 1, 2, 2, 2, 3])))
    if rng.random() < 0.05:
        shape = (0, *shape[1:])
    data: dict[str, Any] = {
        name: Numbers(dtype, shape, tuple(_chunks(rng, size) for size in shape), rng.randint(0, 99), missing)
        for name in "vw"
        for dtype in [rng.choice(_DTYPES_OF_ARRAYS)]
        for missing in [dtype.startswith("float") and rng.random() < 0.3]
    }
    program = Program(seed, "array", data)
    return Program(seed, "array", data, grown(rng, program, rng.choice([1, 2, 3, 3, 4, 5]), _of_arrays))


def _of_arrays(value: Any) -> list[Operation]:
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


def make(seed: int, kinds: Sequence[Kind] = ("frame", "array")) -> Program:
    """The program of a seed; the seed also chooses one of the kinds."""
    kind = kinds[zlib.crc32(str(seed).encode()) % len(kinds)]
    return {"frame": frame_program, "array": array_program}[kind](seed)
