"""Categories of several partitions are those of pandas, with their order. Here cuDF is a subclass of pandas."""

import dask.dataframe as dd
import pandas as pd
import pytest
from cudf_stand_in import Frame, Series, concat_alone, gpu_cell, to_gpu_as
from dask.dataframe.backends import concat_pandas
from dask.dataframe.dispatch import concat

pytestmark = pytest.mark.usefixtures("cudf_stand_in")

GRADES = pd.CategoricalDtype(["low", "mid", "high"], ordered=True)
LETTERS = [pd.Categorical(list(letters)) for letters in ("ba", "cb", "da")]
NOTHING = pd.Categorical([None], ["z", "a"])
GRADED = [pd.Categorical([grade, None], dtype=GRADES) for grade in ("mid", "high", "low")]


def series(values, index=None):
    return pd.Series(values, index, name="c")


def frame(values):
    return series(values).to_frame().assign(n=range(len(values)))


@pytest.mark.parametrize("parts", [LETTERS, [NOTHING, *LETTERS], GRADED], ids=["letters", "missing", "ordered"])
@pytest.mark.parametrize(
    "make", [series, frame, lambda v: frame(v).set_index("c"), lambda v: frame(v).set_index(["n", "c"], append=True)]
)
@pytest.mark.parametrize("ignore_index", [False, True])
def test_concatenated_categories_are_those_of_pandas(make, parts, ignore_index):
    plain = [make(values) for values in parts]
    result = concat([(Frame if each.ndim > 1 else Series)(each) for each in plain], ignore_index=ignore_index)
    expected = concat_pandas(plain)
    expected = expected.reset_index(drop=True) if ignore_index else expected
    (pd.testing.assert_frame_equal if expected.ndim > 1 else pd.testing.assert_series_equal)(
        result.to_pandas(), expected
    )


def test_cudf_alone_would_have_other_values_and_no_order():
    letters = concat_alone([Series(series(values)) for values in LETTERS]).to_pandas()
    assert letters.isna().any()
    assert not concat_alone([Frame(frame(values)) for values in GRADED]).c.dtype.ordered


def test_ordered_categories_that_differ_are_refused_as_in_pandas():
    parts = [pd.Categorical(["a"], list(letters), ordered=True) for letters in ("ab", "ba")]
    for kind, make in ((Frame, frame), (Series, series)):
        with pytest.raises(TypeError, match="ordered Categoricals"):
            concat([kind(make(values)) for values in parts])


def test_categories_that_an_operation_left_without_an_order_have_that_of_the_others():
    given = [frame(GRADED[0]), frame(GRADED[1].as_unordered()), frame(pd.Categorical(["low"], GRADES.categories[::-1]))]
    result = concat(list(map(Frame, given)))
    assert result.c.dtype == GRADES
    assert list(result.c.dropna()) == ["mid", "high", "low"]


DATA = pd.DataFrame({"g": pd.Categorical(["low", "high", "mid", None] * 3, dtype=GRADES), "n": range(12), "k": 1})


@pytest.mark.parametrize(
    "compute",
    [
        lambda f: f[f.g > "low"].n,
        lambda f: f.repartition(npartitions=2).g.max(),
        lambda f: f.repartition(npartitions=2).g > "low",
        lambda f: f.groupby("g", observed=False).n.sum().reset_index(),
        lambda f: f.shuffle("g").sort_values("n").g,
        lambda f: f.groupby(["g", "k"], observed=True).n.sum().reset_index().map_partitions(lambda p: p[p.g > "low"]),
        lambda f: f.groupby(["g", "k"], observed=True)[["n"]].max().reset_index().sort_values("n").g,
        lambda f: f.drop_duplicates(subset=["g"]).sort_values("n").g.cat.codes,
    ],
)
def test_the_order_is_known_after_other_operations(compute):
    plain = dd.from_pandas(DATA, npartitions=4)
    expected = compute(plain).compute()
    with gpu_cell(fallback="host"):
        result = compute(to_gpu_as(Frame, plain)).compute()
    if isinstance(expected, str):
        assert result == expected
        return
    equal = pd.testing.assert_frame_equal if expected.ndim > 1 else pd.testing.assert_series_equal
    equal(result.to_pandas() if hasattr(result, "to_pandas") else result, expected, check_dtype=False)
