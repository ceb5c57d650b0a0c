"""Distinct values are not shuffled where their partitions become one. Here cuDF is a subclass of pandas."""

from types import SimpleNamespace

import dask
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from cudf_stand_in import Series, gpu_cell, to_gpu_as
from dask._expr import FinalizeCompute
from distributed import Client

from jupyter_gpudask.inspection.placement import to_gpu, to_host

pytestmark = pytest.mark.usefixtures("cudf_stand_in")

NUMBERS = np.random.default_rng(0).integers(0, 50, 1000)
DATA = pd.DataFrame({"k": NUMBERS, "s": NUMBERS.astype(str), "x": np.arange(1000.0)})


def on_gpu(partitions):
    return to_gpu(dd.from_pandas(DATA, npartitions=partitions))


def in_order(result):
    result = pd.Series(result) if isinstance(result, np.ndarray) else result
    return sorted(map(str, result.reset_index().to_numpy().tolist()))


CALLS = {
    "value_counts": lambda frame: frame.s.value_counts(),
    "normalized": lambda frame: frame.s.value_counts(normalize=True),
    "ascending": lambda frame: frame.k.value_counts(ascending=True),
    "drop_duplicates": lambda frame: frame.k.drop_duplicates(),
    "of a dataframe": lambda frame: frame[["k", "s"]].drop_duplicates(),
    "of a column": lambda frame: frame.drop_duplicates(subset=["k"]),
    "nunique": lambda frame: frame.s.nunique(),
    "length": lambda frame: frame.s.drop_duplicates().size,
    "largest": lambda frame: frame.k.value_counts().nlargest(3),
}


def tasks_of(collection):
    return len(FinalizeCompute(collection.expr).optimize().__dask_graph__())


@pytest.mark.parametrize(
    ("name", "partitions"),
    [*((name, number) for name in CALLS for number in (1, 3)), *((name, 16) for name in CALLS), ("value_counts", 40)],
)
def test_they_are_those_of_pandas_with_fewer_tasks(name, partitions):
    collection = CALLS[name](on_gpu(partitions))
    plain = CALLS[name](dd.from_pandas(DATA, npartitions=partitions))
    expected = CALLS[name](DATA)
    result = collection.compute()
    if np.ndim(expected):
        assert in_order(pd.Series(result) if result.ndim == 1 else pd.DataFrame(result)) == in_order(expected)
    else:
        assert result == expected
    assert tasks_of(collection) < tasks_of(plain) or partitions == 1
    assert collection.npartitions == plain.npartitions


@pytest.mark.parametrize("name", ["value_counts", "drop_duplicates", "of a column"])
def test_so_are_those_whose_result_is_moved_to_the_host(name):
    moved = to_host(CALLS[name](on_gpu(16)))
    assert tasks_of(moved) < tasks_of(CALLS[name](dd.from_pandas(DATA, npartitions=16)))
    assert in_order(moved.compute()) == in_order(CALLS[name](DATA))


def test_the_counts_of_up_to_15_partitions_are_sorted():
    counts = on_gpu(15).s.value_counts().compute()
    assert list(counts) == sorted(counts, reverse=True)


def test_who_sees_the_partitions_gets_as_many_as_from_dask():
    distinct = on_gpu(16).k.drop_duplicates()
    assert distinct.npartitions == distinct.persist().npartitions == 16
    lengths = distinct.map_partitions(len).compute()
    assert len(lengths) == 16
    assert sum(lengths) == 50


def test_they_are_computed_once_beside_something_that_sees_the_partitions():
    distinct = on_gpu(16).k.drop_duplicates()
    graph = dask.base.collections_to_expr([distinct, distinct.partitions[0]]).optimize().__dask_graph__()
    assert sum(key[0].startswith("drop_duplicates-") for key in graph) == 16
    whole, first = dask.compute(distinct, distinct.partitions[0])
    assert set(first) <= set(whole)
    assert len(whole) == 50


@pytest.mark.parametrize(
    "compute",
    [lambda frame: frame.set_index("k").x.nunique(), lambda frame: frame.repartition(partition_size="1kB").s.nunique()],
)
def test_no_partition_is_computed_more_often_than_by_dask(compute):
    counts = []
    for move in (lambda frame: frame, to_gpu):
        parts = []
        frame = move(dd.from_pandas(DATA, npartitions=16))
        frame = frame.map_partitions(lambda part: parts.append(1) or part, meta=frame._meta)  # noqa: B023
        result = compute(frame)
        parts.clear()
        result.compute()
        counts.append(len(parts))
    assert counts[1] <= counts[0]


def test_a_number_of_partitions_of_the_user_stays():
    counts = on_gpu(16).s.value_counts(split_out=4)
    assert counts.npartitions == 4
    assert tasks_of(counts) > tasks_of(on_gpu(16).s.value_counts())


def test_with_optimize_false_they_are_shuffled(monkeypatch):
    collection = CALLS["nunique"](on_gpu(16))
    fewer = tasks_of(collection)
    monkeypatch.setattr(Client, "current", lambda: SimpleNamespace(optimizes=False))
    assert tasks_of(CALLS["nunique"](on_gpu(16))) > 2 * fewer


class WithoutCategories(Series):
    """As a Series of cuDF, which counts no categories if there are no rows."""

    __module__ = Series.__module__

    @property
    def _constructor(self):
        return WithoutCategories

    def value_counts(self, **options):
        counts = self.to_pandas().value_counts(**options)
        return Series(counts if len(self) else counts[:0])


def test_categories_without_rows_are_counted():
    names = pd.Series(pd.Categorical(["a", "b", "a", "c"]), name="c")
    frame = dd.from_pandas(names.to_frame().assign(n=range(4)), npartitions=2)
    for chosen in (frame[frame.n > 9], frame[frame.n > 2]):
        with gpu_cell(fallback="host", results="gpu"):
            counts = to_gpu_as(WithoutCategories, chosen.c).value_counts().compute()
        expected = chosen.c.value_counts().compute()
        pd.testing.assert_series_equal(pd.Series(counts).sort_index(), expected.sort_index())


class WithoutZeros(Series):
    """As cuDF, which counts no category without rows if missing values are counted."""

    __module__ = Series.__module__

    @property
    def _constructor(self):
        return WithoutZeros

    def value_counts(self, dropna=True, **options):
        counts = pd.Series(self).value_counts(dropna=dropna, **options)
        return Series(counts if dropna else counts[counts > 0])


def test_categories_without_rows_are_counted_beside_missing_values():
    dtype = pd.CategoricalDtype(["r", "p", "q"])
    frame = dd.from_pandas(pd.Series(["p", None, "p", "q"] * 2, dtype=dtype, name="c").to_frame(), npartitions=2)
    with gpu_cell(fallback="host", results="gpu"):
        counts = to_gpu_as(WithoutZeros, frame.c).value_counts(dropna=False).compute()
    expected = frame.c.value_counts(dropna=False).compute()
    assert len(expected) == 4
    pd.testing.assert_series_equal(pd.Series(counts).sort_index(), expected.sort_index())
