"""Shuffles of dataframes keep the order of rows, as with pandas. Here cuDF is a subclass of pandas."""

import pickle

import dask
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from cudf_stand_in import Frame
from dask.dataframe.dask_expr import _shuffle
from dask.dataframe.dask_expr._shuffle import DiskShuffle, TaskShuffle
from dask.dataframe.dispatch import group_split_dispatch, hash_object_dispatch

from jupyter_gpudask.inspection.placement import to_gpu
from jupyter_gpudask.patches.apply import patches
from jupyter_gpudask.patches.shuffle import split_in_order

pytestmark = pytest.mark.usefixtures("cudf_stand_in")

DATA = pd.DataFrame(np.random.default_rng(1).integers(0, 20, (900, 3)), columns=["x", "y", "z"])


@pytest.fixture
def splits_in_any_order():
    """Let the stand-in split as libcudf, whose `partition` returns the rows of a group in any order."""
    generator = np.random.default_rng(0)

    def split(frame, groups, number, ignore_index=False):
        parts = split_in_order(frame, groups, number, ignore_index=ignore_index)
        return {group: part.iloc[generator.permutation(len(part))] for group, part in parts.items()}

    group_split_dispatch.register(Frame, split)
    yield
    group_split_dispatch.register(Frame, group_split_dispatch.dispatch(pd.DataFrame))


def first_rows(**options):
    frame = dd.from_pandas(DATA, npartitions=40)
    on_gpu = to_gpu(frame)
    # Partitions that are joined before the shuffle hold several rows with the same values.
    with dask.config.set({"dataframe.shuffle.method": "tasks", "scheduler": "sync"}):
        return pd.DataFrame(on_gpu.drop_duplicates(subset=["x", "z"], **options).compute()).sort_index()


@pytest.mark.usefixtures("splits_in_any_order")
def test_without_the_patch_other_rows_are_kept(monkeypatch):
    monkeypatch.setattr(_shuffle, "TaskShuffle", TaskShuffle)
    assert not first_rows(split_out=10).equals(DATA.drop_duplicates(subset=["x", "z"]))


@pytest.mark.usefixtures("splits_in_any_order")
@pytest.mark.parametrize("keep", ["first", "last"])
@pytest.mark.parametrize("number", [3, 10])
def test_the_first_or_last_of_equal_rows_is_kept(keep, number):
    expected = DATA.drop_duplicates(subset=["x", "z"], keep=keep)
    pd.testing.assert_frame_equal(first_rows(split_out=number, keep=keep), expected, check_dtype=False)


@pytest.mark.usefixtures("splits_in_any_order")
@pytest.mark.parametrize("max_branch", [2, 32])
def test_rows_of_a_group_keep_their_order_through_all_stages(max_branch):
    frame = dd.from_pandas(DATA, npartitions=8)
    on_gpu = to_gpu(frame)
    for target in (5, 8, 11):
        options = {"npartitions": target, "shuffle_method": "tasks", "max_branch": max_branch}
        shuffled = on_gpu.shuffle("x", **options).compute(scheduler="sync")
        for _, rows in pd.DataFrame(shuffled).groupby("x"):
            assert rows.index.is_monotonic_increasing
        pd.testing.assert_frame_equal(pd.DataFrame(shuffled).sort_index(), DATA, check_dtype=False)


@pytest.mark.parametrize(
    "call",
    [
        lambda frame: frame.shuffle("x"),
        lambda frame: frame.groupby("x").y.shift(1, meta=("y", "f8")),
        lambda frame: frame.merge(frame, on="x", broadcast=False, npartitions=3),
    ],
)
def test_no_rows_are_shuffled_by_files(call):
    frame = dd.from_pandas(DATA.assign(y=1.0), npartitions=3)
    with dask.config.set({"dataframe.shuffle.method": "disk"}):
        on_cpu, on_gpu = (
            list(call(each).optimize(fuse=False).expr.find_operations(DiskShuffle)) for each in (frame, to_gpu(frame))
        )
    assert on_cpu
    assert not on_gpu


@pytest.mark.parametrize(
    "call",
    [
        lambda frame: frame.drop_duplicates(),
        lambda frame: frame[[("n", "sum")]].drop_duplicates(),
        lambda frame: frame.drop_duplicates(subset=[("n", "sum")], keep="last"),
        lambda frame: frame.merge(frame, on=[("k", "")]),
    ],
)
def test_columns_of_several_levels_are_shuffled_without_those_of_dask(call):
    rows = pd.DataFrame(DATA.to_numpy() % 4, columns=pd.MultiIndex.from_tuples([("k", ""), ("n", "sum"), ("n", "max")]))
    frame = to_gpu(dd.from_pandas(rows, npartitions=3))
    with dask.config.set({"dataframe.shuffle.method": "tasks", "scheduler": "sync"}):
        made = call(frame).persist().compute()  # of several partitions
    expected = call(rows)
    assert list(made.columns) == list(expected.columns)
    assert sorted(made.to_numpy().tolist()) == sorted(expected.to_numpy().tolist())


@pytest.fixture
def hashes_codes():
    """Let the stand-in hash the codes of categories, as cuDF does."""

    def codes(frame, index=True):
        names = [name for name, dtype in frame.dtypes.items() if dtype == "category"]
        plain = pd.DataFrame(frame).assign(**{name: frame[name].cat.codes for name in names})
        return pd.Series(pd.util.hash_pandas_object(plain, index=index).to_numpy())

    before = hash_object_dispatch.dispatch(Frame)
    hash_object_dispatch.register(Frame, codes)
    yield
    hash_object_dispatch.register(Frame, before)


@pytest.mark.usefixtures("hashes_codes")
def test_rows_of_the_same_category_meet_whatever_its_code_is():
    """Each partition has categories of its own, so that a category has another code in each."""
    parts = [pd.DataFrame({"c": pd.Categorical(list(letters)), "n": 1}) for letters in ("abc", "bcd", "cde", "dea")]
    frame = dd.from_map(lambda number: parts[number], range(4))
    other = dd.from_map(lambda number: parts[number][["c"]].drop_duplicates().assign(m=number), range(4))
    with dask.config.set({"dataframe.shuffle.method": "tasks", "scheduler": "sync"}):
        counts = to_gpu(frame).c.value_counts(split_out=3).compute()
        merged = to_gpu(frame).merge(to_gpu(other), on="c", broadcast=False).compute()
        expected = frame.merge(other, on="c", broadcast=False).compute()
    assert {key: count for key, count in counts.items() if count} == {"a": 2, "b": 2, "c": 3, "d": 3, "e": 2}
    assert sorted(map(str, merged.to_numpy().tolist())) == sorted(map(str, expected.to_numpy().tolist()))


def test_a_worker_that_makes_the_tasks_needs_no_patch():
    frame = to_gpu(dd.from_pandas(DATA, npartitions=40))
    with dask.config.set({"dataframe.shuffle.method": "tasks"}):
        plan = pickle.dumps(frame.shuffle("x", npartitions=50, max_branch=8).expr.optimize(fuse=False))
    patches.undo("kernel")
    graph = pickle.loads(plan).__dask_graph__()  # noqa: S301 - of this test
    functions = (getattr(task, "func", task[0] if isinstance(task, tuple) else None) for task in graph.values())
    assert {getattr(function, "__name__", "") for function in functions} >= {
        "_with_partitions_of_rows",
        "_filtered_groups",
        "_groups_of_last_stage",
    }


@pytest.mark.parametrize("ignore_index", [True, False])
def test_a_split_has_all_groups_in_order(ignore_index):
    frame = pd.DataFrame({"a": [5, 6, 7, 8]}, index=[3, 2, 1, 0])
    groups = split_in_order(frame, pd.Series([2, 0, 2, 0]), 4, ignore_index=ignore_index)
    assert [part.a.tolist() for part in groups.values()] == [[6, 8], [], [5, 7], []]
    assert groups[2].index.tolist() == ([0, 1] if ignore_index else [3, 1])
