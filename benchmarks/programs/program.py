"""A program: some data, and steps that change the collection `v`, as a text for Dask and one for NumPy and pandas."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pandas as pd

if TYPE_CHECKING:
    from collections.abc import Iterator

Kind = Literal["frame", "array"]

IMPORTS = """\
import tempfile

import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd

folder = tempfile.mkdtemp()
"""


@dataclass(frozen=True)
class Step:
    """One step of a program.

    Attributes
    ----------
    name
        Of the operation; differences are grouped by it.
    text
        Statements for Dask, which assign a new `v`.
    on_host
        The same for NumPy and pandas, where it is another text.
    opens_order
        Whether Dask leaves the order of the rows open from here on.
    """

    name: str
    text: str
    on_host: str | None = None
    opens_order: bool = False

    @property
    def host_text(self) -> str:
        return re.sub(r"\bdd\.", "pd.", re.sub(r"\bda\.", "np.", self.on_host or self.text))


@dataclass(frozen=True)
class Table:
    """A dataframe of the setup.

    Attributes
    ----------
    columns
        Name -> dtype and values; missing ones are `None`.
    index
        Its name, dtype and values; `None` for one that counts.
    partitions
        How many there are.
    """

    columns: dict[str, tuple[str, tuple[Any, ...]]]
    index: tuple[str | None, str, tuple[Any, ...]] | None
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
    """An array of the setup.

    Attributes
    ----------
    dtype, shape, chunks
        Of the array.
    seed
        Of its elements.
    missing
        Whether some of them are NaN.
    """

    dtype: str
    shape: tuple[int, ...]
    chunks: tuple[tuple[int, ...], ...]
    seed: int
    missing: bool = False

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
    """A program.

    Attributes
    ----------
    seed
        From which it was made.
    kind
        Whether it is about dataframes or arrays.
    data
        Its data by the name of the collection: `v`, which the steps change, and `w`.
    steps
        The steps, in their order.
    """

    seed: int
    kind: Kind
    data: dict[str, Table | Numbers]
    steps: tuple[Step, ...] = field(default=())

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
    return {"np": np, "pd": pd, "math": math, "__name__": "__main__"}
