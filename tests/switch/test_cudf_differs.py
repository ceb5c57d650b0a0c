"""What cuDF alone does otherwise than pandas, for each rule of `patches.frames`.

A test that fails here is good news: cuDF agrees with pandas, and the rule that the row names can go. Each row is
computed by pandas and by cuDF, without Dask and without this package; `of` moves what pandas has made to the library.
"""

from __future__ import annotations

import datetime as dt
import io
import re
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pytest

pytestmark = [pytest.mark.gpu, pytest.mark.filterwarnings("ignore")]


class Library(NamedTuple):
    """pandas or cuDF, with the function that takes an object of pandas to it."""

    module: Any
    of: Any

    def frame(self, **columns: Any) -> Any:
        return self.of(pd.DataFrame(columns))

    def series(self, values: Any, **options: Any) -> Any:
        return self.of(pd.Series(values, **options))


TIMES = pd.to_datetime(["2024-01-01 10:30", "2024-01-01 12:00", "2024-02-03 00:00"])
ORDERED = pd.CategoricalDtype(["b", "a", "c"], ordered=True)
NAN = float("nan")


def _computed_nan(lib: Library) -> Any:
    frame = lib.frame(k=[1, 1, 2], x=[0.0, 1.0, 2.0])
    frame["y"] = frame.x / frame.x
    return frame


def _texts(lib: Library, *texts: str) -> Any:
    return lib.of(pd.Series(list(texts), dtype="str"))


def _selected_by_levels(lib: Library) -> Any:
    series = lib.of(pd.DataFrame({"a": [1, 2], "b": [3, 4], "x": [5, 6]})).set_index(["a", "b"]).x
    return len(series[series > 5])


def _hashed(lib: Library) -> Any:
    series = lib.series([1])
    return int(pd.util.hash_pandas_object(series, index=False)[0] if lib.module is pd else series.hash_values().iloc[0])


ROWS = {
    # arithmetic
    "arithmetic.Arithmetic, booleans beside fractions": lambda lib: lib.series([True, False]) - 0.5,
    "arithmetic.Arithmetic, booleans beside integers": lambda lib: lib.series([True, False]) + 127,
    "arithmetic.Arithmetic, division of small integers": lambda lib: lib.series([16777217], dtype="int32") / 1,
    "arithmetic.with_floats, shift": lambda lib: str(lib.series([1, 2]).shift().dtype),
    "arithmetic.with_floats, diff": lambda lib: lib.series([-128, 127], dtype="int8").diff(),
    # missing_values
    "missing_values.Comparison": lambda lib: (lib.series([1.0, NAN]) != 1).isna().any(),
    "missing_values.Logical": lambda lib: (
        (lib.series([True, None], dtype="boolean") | lib.series([None, True], dtype="boolean")).isna().any()
    ),
    "missing_values.OfColumns": lambda lib: np.sqrt(lib.frame(a=[1.0, NAN], b=[4.0, 9.0])),
    "missing_values.OneMissing, mean of groups": lambda lib: _computed_nan(lib).groupby("k").y.mean(),
    "missing_values.OneMissing, count of groups": lambda lib: _computed_nan(lib).groupby("k").y.count(),
    "missing_values.concatenated": lambda lib: lib.series([None], dtype="str").str.cat(lib.series(["a"], dtype="str")),
    "missing_values.ReplaceAsPandas": lambda lib: str(lib.series([1, 2]).replace(5, 0.5).dtype),
    "missing_values.IsinAsPandas": lambda lib: lib.series([1.0, NAN]).isin([1.0, NAN]),
    "missing_values.with_doubles": lambda lib: lib.series([0.1], dtype="float32").isin([0.1]),
    "missing_values.rolling": lambda lib: lib.series([1.0, np.inf, 1.0, 1.0]).rolling(2).sum(),
    # as_pandas
    "as_pandas.AsTypeAsPandas, NaN to boolean": lambda lib: lib.series([0.0, NAN]).astype("bool").isna().any(),
    "as_pandas.AsTypeAsPandas, NaN to a nullable integer": lambda lib: (
        _computed_nan(lib).y.astype("Int64").isna().any()
    ),
    "as_pandas.AsTypeAsPandas, fraction to a nullable integer": lambda lib: lib.series([0.5]).astype("Int64"),
    "as_pandas.AsTypeAsPandas, NaT to an integer": lambda lib: (
        lib.of(pd.Series([TIMES[0], pd.NaT])).astype("int64").isna().any()
    ),
    "as_pandas.FunctionMapAsPandas": lambda lib: str(lib.series(["ab"], dtype="str").str.len().dtype),
    "as_pandas.PropertyMapAsPandas, codes": lambda lib: lib.series(["a", None], dtype="category").cat.codes,
    "as_pandas.ColumnsInOrder": lambda lib: list(
        lib.frame(k=[1, 2], a=[1, 2]).merge(lib.frame(b=[1, 2], k=[2, 3]), on="k", how="right").columns
    ),
    # groupby
    "groupby.FilledSums": lambda lib: lib.frame(k=[1], x=[NAN]).groupby("k").x.sum(),
    "groupby.FilledSums, unsigned": lambda lib: str(
        lib.frame(k=[1], x=np.array([1], "uint8")).groupby("k").x.sum().dtype
    ),
    "groupby.FilledSums, bins": lambda lib: lib.of(pd.Series([1.0, 2.0, 3.0], index=TIMES)).resample("10D").sum(),
    "groupby.TransformAsPandas": lambda lib: lib.frame(k=[1], x=[NAN]).groupby("k").x.transform("sum"),
    "groupby.SelectedByLevels": _selected_by_levels,
    "groupby.in_order": lambda lib: list(
        lib.of(pd.DataFrame({"k": np.arange(300) * 7919 % 300, "x": 1})).groupby("k").sum().index.to_numpy()
    ),
    # reductions
    "reductions.VarianceAsPandas, booleans": lambda lib: lib.series([True, False, True]).var(),
    "reductions.MaxAsPandas": lambda lib: lib.of(pd.DataFrame({"a": np.array([], "int64")})).max(),
    "reductions.IdxMaxAsPandas": lambda lib: lib.frame(a=[1.0, 3.0, 3.0]).idxmax(),
    # methods, query
    "methods.loc": lambda lib: len(lib.of(pd.Series([1, 2, 3], index=TIMES)).loc["2024-01-01"]),
    "query.selected_by_text, operators": lambda lib: len(lib.frame(x=[1, 2, 3], y=[1, 3, 0]).query("x > 1 & y < 2")),
    "query.selected_by_text, missing": lambda lib: len(lib.frame(x=[1.0, NAN]).query("x != 1")),
    "query.evaluated_text": lambda lib: lib.frame(x=[1, 2]).eval("x + 1").name,
    # texts
    "texts.pattern_of, backreference": lambda lib: _texts(lib, "aa", "ab").str.contains(r"(a)\1"),
    "texts.pattern_of, lookahead": lambda lib: _texts(lib, "ab").str.contains("a(?=b)"),
    "texts.pattern_of, flags in the pattern": lambda lib: _texts(lib, "A").str.contains("(?i)a"),
    "texts.pattern_of, names of groups": lambda lib: _texts(lib, "a1").str.extract("(?P<x>[a-z])([0-9])"),
    "texts.pattern_of, split by groups": lambda lib: len(_texts(lib, "a1b").str.split("([0-9])", regex=True).iloc[0]),
    "texts.reason_of_arguments, case": lambda lib: _texts(lib, "ß", "K").str.contains("k", case=False),
    "texts.reason_of_arguments, references": lambda lib: _texts(lib, "a1").str.replace(
        "([a-z])([0-9])", r"\2\1", regex=True
    ),
    "texts.called, join of nothing": lambda lib: _texts(lib, "").str.join("-"),
    "texts._difference, lines": lambda lib: _texts(lib, "a\n").str.contains("a$"),
    "texts._difference, kinds": lambda lib: _texts(lib, "ß", "İ", "Ⅷ").str.upper(),
    "texts._difference, classes": lambda lib: _texts(lib, "٣", "é").str.contains(r"\d"),
    # differences
    "differences._accessor, dates": lambda lib: type(lib.of(pd.Series(TIMES)).dt.date.iloc[0]) is dt.date,
    "differences._accessor, wrap": lambda lib: _texts(lib, "abcdefghij kl").str.wrap(4),
    "differences._accessor, replace by a dictionary": lambda lib: _texts(lib, "a").str.replace({"a": "b"}),
    "differences._accessor, order of categories": lambda lib: (
        lib.series(["a"], dtype=ORDERED).cat.add_categories(["z"]).cat.ordered
    ),
    "differences._as_text, times": lambda lib: lib.of(pd.Series(TIMES)).astype("str"),
    "differences._as_text, numbers": lambda lib: lib.series([1.23456789012]).astype("str"),
    "differences._cat": lambda lib: _texts(lib, "a", "b").str.cat(pd.Series(["x", "y"], index=[1, 0])),
    "differences._resample": lambda lib: (
        lib.of(pd.Series([1.0, 2.0, 3.0], index=TIMES, name="x")).resample("D").agg({"x": np.sum})
    ),
    "differences._ufunc, arrays": lambda lib: isinstance(np.nan_to_num(lib.series([1.0, NAN])), np.ndarray),
    "differences._ufunc, exchanged operands": lambda lib: np.arctan2(1.0, lib.series([2.0])),
    "differences._ufunc, fmod": lambda lib: np.fmod(lib.series([-3.0]), 2.0),
    "differences._ufunc, float_power": lambda lib: np.float_power(lib.series([2]), -1),
    "differences._ufunc, fmax": lambda lib: np.fmax(lib.series([1.0, NAN]), 0.5),
    "differences._ufunc, copysign": lambda lib: np.copysign(lib.series([1.0]), lib.series([NAN])).isna().any(),
    "differences._ufunc, logical_or": lambda lib: np.logical_or(lib.series([NAN]), lib.series([0.0])).isna().any(),
    "differences._rounded": lambda lib: lib.series([1, 5]).clip(1.5, 3.5),
    "differences._dropna, None": lambda lib: len(lib.frame(a=[1.0, NAN], b=[1.0, 2.0]).dropna(thresh=None)),
    "differences._dropped": lambda lib: list(
        lib.of(pd.DataFrame({"k": [1, 1], "c": pd.Categorical(["a", "b"], dtype=ORDERED), "x": [1, 2]}))
        .groupby("k")
        .max()
        .columns
    ),
    "differences._merge": lambda lib: sorted(
        lib.frame(k=[1, 2], a=[1, 2]).merge(lib.frame(k=[0, 1], b=[1, 2]), left_index=True, right_on="k").columns
    ),
    "differences._concat, names of indexes": lambda lib: (
        lib.module.concat([lib.of(pd.DataFrame({"x": [1]}, pd.Index([0], name=name))) for name in "ab"]).index.name
    ),
    "differences._of_several_kinds": lambda lib: lib.module.concat([lib.series([1, 2]), lib.of(pd.Series(TIMES))]),
    "differences._of_several_kinds, booleans": lambda lib: (
        type(lib.module.concat([lib.series([1, 2]), lib.series([True])]).iloc[2]).__name__
    ),
    "differences._rename_axis": lambda lib: (
        lib.of(pd.DataFrame({"x": [1]}, pd.Index([0], name="i"))).rename_axis(index={"i": "j"}).index.name
    ),
    "differences._replace, texts": lambda lib: lib.series(["a", "b"], dtype="category").replace("a", "b").astype("str"),
    "differences._replace, columns": lambda lib: lib.frame(x=[1, 2], y=[1, 2]).replace({"x": {1: 5}}),
    "differences._by_zero": lambda lib: str((lib.series([1], dtype="Int64") // lib.series([0], dtype="Int64")).dtype),
    "differences, DescribeNonNumeric": lambda lib: _texts(lib, "a", "b", "a").describe(),
    "differences, DescribeNumeric": lambda lib: lib.of(pd.Series(TIMES)).describe(),
    "differences, VarColumns": lambda lib: lib.frame(a=[1.0], b=[2.0]).var(axis=1, ddof=2),
    "differences._accessor, compiled patterns": lambda lib: _texts(lib, "A").str.count(re.compile("a", re.IGNORECASE)),
    "differences._isin": lambda lib: lib.series(["a", None, "b"], dtype="category").isin(["z"]),
    "differences._replace, booleans": lambda lib: str(lib.series([True, False]).replace(1, 5).dtype),
    "differences._variance": lambda lib: len(lib.frame(a=[1.0, 2.0])[[]].var()),
    "differences._elemwise": lambda lib: np.cosh(lib.of(pd.Series(np.linspace(0, 20, 10_000)))),
    "differences._grouped, ties": lambda lib: (
        lib.of(pd.DataFrame({"k": np.arange(20_000) % 3, "x": 1.0})).groupby("k").x.idxmax()
    ),
    "differences.NuniqueApprox": _hashed,
    "differences.SeriesQuantile": lambda lib: isinstance(
        lib.series([1, 2], dtype="Int64").values, pd.api.extensions.ExtensionArray
    ),
    "differences._dropna, more than all columns": lambda lib: len(lib.frame(a=[1.0, 1], b=[1.0, 2]).dropna(thresh=3)),
    "arithmetic.with_unsigned_integers": lambda lib: str(lib.series([1], dtype="uint8").cumsum().dtype),
    "arithmetic.with_units": lambda lib: str(lib.module.to_datetime(_texts(lib, "2024-01-01")).dtype),
    "missing_values.WhereAsPandas": lambda lib: str(lib.series([1, 2]).where(lib.series([True, True]), NAN).dtype),
    "missing_values.MaskAsPandas": lambda lib: str(lib.series([1, 2]).mask(lib.series([False, False]), NAN).dtype),
    "groupby.SizeAsPandas": lambda lib: lib.frame(k=[1]).groupby("k").size().to_frame().columns[0],
    "groupby.StdAsPandas": lambda lib: np.sqrt(lib.frame(a=[NAN, 4.0], b=[1.0, NAN])),
    "texts.called, spaces": lambda lib: _texts(lib, "\u3000a").str.strip(),
    "texts.SplitMapAsPandas, spaces": lambda lib: len(_texts(lib, "a\u3000b").str.split().iloc[0]),
    "texts.called, missing booleans of files": lambda lib: (
        lib.module.read_csv(io.BytesIO(b"s,n\na,1\n,2\n"), dtype={"s": "string"}).s.str.contains("a").isna().any()
    ),
    "fewer_partitions.counted": lambda lib: len(lib.series(["a"], dtype="category")[:0].value_counts()),
    "concat.StackPartitionAsPandas": lambda lib: str(
        lib.module.concat([lib.frame(a=[True]), lib.frame(b=[1])]).a.dtype
    ),
    "as_pandas.PropertyMapAsPandas, days of a year": lambda lib: str(lib.of(pd.Series(TIMES)).dt.dayofyear.dtype),
    "reductions.MinAsPandas": lambda lib: lib.of(pd.DataFrame({"a": np.array([], "int64")})).min(),
    "reductions.NLargestAsPandas": lambda lib: len(
        lib.of(pd.DataFrame({("x", "max"): [1, 3], ("y", "min"): [1, 2]})).nlargest(1, ("x", "max"))
    ),
}


def outcome(call: Any, lib: Library) -> Any:
    """What a library returns, as an object of pandas or Python, or the error that it raises."""
    try:
        result = call(lib)
    except Exception as error:  # noqa: BLE001 - the error is the outcome
        return error
    return result.to_pandas() if hasattr(result, "to_pandas") else result


def same(expected: Any, found: Any) -> bool:
    """Whether two outcomes are alike, whatever the dtypes of texts and integers."""
    if isinstance(expected, Exception) or isinstance(found, Exception):
        return isinstance(expected, Exception) and isinstance(found, Exception)
    try:
        if isinstance(expected, pd.DataFrame):
            pd.testing.assert_frame_equal(expected, found, check_dtype=False, check_index_type=False, check_exact=True)
        elif isinstance(expected, pd.Series):
            pd.testing.assert_series_equal(expected, found, check_dtype=False, check_index_type=False, check_exact=True)
        else:
            return bool(np.all(np.asarray(expected == found)))
    except (AssertionError, AttributeError, TypeError, ValueError):
        return False
    return True


@pytest.mark.parametrize("rule", ROWS)
def test_cudf_alone_differs_from_pandas(rule):
    cudf = pytest.importorskip("cudf")
    expected = outcome(ROWS[rule], Library(pd, lambda made: made))
    assert not isinstance(expected, (AttributeError, NameError, SyntaxError)), expected
    found = outcome(ROWS[rule], Library(cudf, cudf.from_pandas))
    assert not same(expected, found), f"cuDF agrees with pandas: {expected!r}. The rule is not needed any more."
