"""Rows of several partitions are sorted as in pandas. Here cuDF is a subclass of pandas."""

import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from cudf_stand_in import Frame, Series, gpu_cell, to_gpu_as

from jupyter_gpudask.inspection.placement import place_of, to_gpu, to_host

pytestmark = pytest.mark.usefixtures("cudf_stand_in")

ROWS = pd.DataFrame(
    {
        "n": range(40),
        "x": [None if n % 5 == 0 else n * 7 % 13 / 2 for n in range(40)],
        "s": pd.array([None if n % 3 == 0 else "cabed"[n * 7 % 5] * (n % 2 + 1) for n in range(40)], "str"),
        "w": pd.array([None if n % 3 == 1 or n < 8 else "cabed"[n * 3 % 5] for n in range(40)], "string"),
        "b": pd.array([None if n % 4 == 0 else n % 3 == 1 for n in range(40)], "boolean"),
        "f": [None if n < 10 else n * 7 % 13 / 2 for n in range(40)],
        "i": pd.array([None if n < 10 else n * 7 % 13 for n in range(40)], "Int64"),
        "t": pd.to_datetime([None if n < 10 else f"2024-01-{n * 7 % 13 + 1:02}" for n in range(40)]),
        "o": [None if n % 5 == 0 else n / 2 for n in range(40)],
        "r": pd.array([None if n % 5 == 0 else -n for n in range(40)], "Int64"),
    }
)
"""In a partition of ten rows all of `f`, `i` and `t` are missing; what is not missing of `o` and `r` is in order."""


class Column(Series):
    """A quantile may be a missing value."""

    __module__ = Series.__module__

    @property
    def _constructor(self):
        return Column

    def quantile(self, q, interpolation="linear"):
        if self.dtype.kind == "f":
            return super().quantile(q, interpolation=interpolation)
        values = [*self.dropna().sort_values(), *self[self.isna()]]
        return pd.Series([values[round(each * (len(values) - 1))] for each in q], dtype=object)


class Rows(Frame):
    """A dataframe with such columns."""

    __module__ = Frame.__module__

    @property
    def _constructor(self):
        return Rows

    @property
    def _constructor_sliced(self):
        return Column


@pytest.mark.parametrize("na_position", ["first", "last"])
@pytest.mark.parametrize("ascending", [True, False, [True, False]], ids=str)
@pytest.mark.parametrize("name", [*ROWS.columns.drop("n")])
def test_missing_values_are_the_first_or_the_last_rows(name, ascending, na_position):
    frame = dd.from_pandas(ROWS, npartitions=4)
    options = {"by": [name, "n"], "ascending": ascending, "na_position": na_position}
    with gpu_cell(fallback="host"):
        rows = to_gpu_as(Rows, frame).sort_values(**options)
        assert rows.npartitions > 1
        result = rows.map_partitions(Rows, meta=rows._meta).compute()  # else Dask sorts one partition
    assert list(result.n) == list(ROWS.sort_values(**options).n)
    assert np.array_equal(result[name].isna(), ROWS.sort_values(**options)[name].isna())


@pytest.mark.parametrize("ascending", [True, False])
def test_rows_that_become_one_partition_are_numbered_through(ascending):
    def compute(frame):
        return frame[["n", "x"]].sort_values(["x", "n"], ascending=ascending, ignore_index=True)

    frame = dd.from_pandas(ROWS, npartitions=4)
    rows = compute(to_gpu(frame))
    assert place_of(rows) == "gpu"
    assert rows.npartitions > 1
    result = to_host(rows).compute()
    pd.testing.assert_frame_equal(result, compute(frame).compute())
    assert list(result.index) == list(range(len(ROWS)))
    partitions = to_host(rows).map_partitions(lambda part: part.index.min(), meta=("first", int)).compute()
    assert set(partitions) == {0}, "as in Dask"


def test_more_partitions_than_there_are_have_no_first_rows():
    with gpu_cell(fallback="host", results="host"):
        frame = dd.from_pandas(ROWS, npartitions=4)
        assert list(frame.n.head(12, npartitions=2)) == list(range(12))
        with pytest.raises(ValueError, match="only 4 partitions, head received 5"):
            frame.head(3, npartitions=5)
