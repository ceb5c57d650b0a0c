"""What cuDF alone does otherwise than pandas, for each rule of `patches.frames`.

A test that fails here is good news: cuDF agrees with pandas, and the rule that the row names can go. Each row is
computed by pandas and by cuDF, without Dask and without this package; `of` moves what pandas has made to the library.
"""

from __future__ import annotations

import datetime as dt
import io
import re
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import dask
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from dask.array.dispatch import percentile_lookup
from dask.dataframe import dispatch
from dask.dataframe.dask_expr._groupby import GetGroup, _mean_chunk
from dask.dataframe.groupby import _compute_sum_of_squares

from jupyter_gpudask.patches.frames import as_pandas, differences
from jupyter_gpudask.patches.frames.groupby import (
    GroupbyAggregationAsPandas,
    SizeAsPandas,
    StdAsPandas,
    in_order,
    with_sums_of_nothing,
)
from jupyter_gpudask.patches.frames.missing_values import (
    CombineFirstAlignAsPandas,
    Comparison,
    Logical,
    MaskAlignAsPandas,
    WhereAlignAsPandas,
    with_one_missing,
)

pytestmark = pytest.mark.filterwarnings("ignore")


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


def _index_selected_by_levels(lib: Library) -> Any:
    frame = lib.of(pd.DataFrame({"a": [1, 2, 3], "b": [3, 4, 5], "x": [5, 6, 7]})).set_index(["a", "b"])
    return len(frame.index[frame.x > 5])


def _assigned_without_columns(lib: Library) -> Any:
    frame = lib.of(pd.DataFrame({("b", "sum"): [1]}))[[]]
    frame["z"] = lib.series([1])
    return len(frame[("z", "")])


def _hashed(lib: Library) -> Any:
    series = lib.series([1])
    return int(pd.util.hash_pandas_object(series, index=False)[0] if lib.module is pd else series.hash_values().iloc[0])


ROWS = {
    # arithmetic
    "as_pandas.converting, booleans beside fractions": lambda lib: lib.series([True, False]) - 0.5,
    "as_pandas.converting, booleans beside integers": lambda lib: lib.series([True, False]) + 127,
    "as_pandas.converting, division of small integers": lambda lib: lib.series([16777217], dtype="int32") / 1,
    "arithmetic.with_floats, shift": lambda lib: str(lib.series([1, 2]).shift().dtype),
    "arithmetic.with_floats, diff": lambda lib: lib.series([-128, 127], dtype="int8").diff(),
    "arithmetic.with_nullable_dtypes": lambda lib: str(lib.series([1, None], dtype="UInt8").round(0).dtype),
    "arithmetic.with_nullable_dtypes, NaN for new labels": lambda lib: lib.series(
        [1.0], dtype="double[pyarrow]"
    ).reindex([0, 1], fill_value=NAN),
    "as_pandas.converting, signs of quotients": lambda lib: lib.series([np.inf, 1.0]) / -2.0,
    "as_pandas.converting, signs of Arrow's quotients": lambda lib: (
        0.5 // lib.series([-1.25, -0.0], dtype="double[pyarrow]")
    ),
    "as_pandas.converting, quotients": lambda lib: lib.series([1.0]) // 0.1,
    "as_pandas.converting, remainders": lambda lib: lib.series([1.0]) % -np.inf,
    "as_pandas.with_levels": _assigned_without_columns,
    # missing_values
    "as_pandas.compared, NaN": lambda lib: (lib.series([1.0], dtype="double[pyarrow]") <= NAN).isna().any(),
    "as_pandas.compared, categories": lambda lib: (lib.series([True]).astype("category") == "a").any(),
    "as_pandas.compared": lambda lib: (lib.series([1.0, NAN]) != 1).isna().any(),
    "missing_values.Logical": lambda lib: (
        (lib.series([True, None], dtype="boolean") | lib.series([None, True], dtype="boolean")).isna().any()
    ),
    "as_pandas.filtered": lambda lib: len(
        lib.frame(x=[1, 2])[lib.series([True, None], dtype="boolean") | lib.series([None, True], dtype="boolean")]
    ),
    "as_pandas.of_columns_of_numpy": lambda lib: np.sqrt(lib.frame(a=[1.0, NAN], b=[4.0, 9.0])),
    "missing_values.with_one_missing, mean of groups": lambda lib: _computed_nan(lib).groupby("k").y.mean(),
    "missing_values.with_one_missing, count of groups": lambda lib: _computed_nan(lib).groupby("k").y.count(),
    "missing_values.with_one_missing, sorted": lambda lib: list(
        _computed_nan(lib).sort_values("y", ascending=False).index.to_numpy()
    ),
    "missing_values.with_one_missing, largest": lambda lib: _computed_nan(lib).y.nlargest(1),
    "missing_values.with_one_missing, bins": lambda lib: (
        lib.of(pd.DataFrame({"x": [0.0, 1.0, 2.0]}, index=TIMES)).eval("x / x").resample("10D").mean()
    ),
    "missing_values.CatBlockwiseAsPandas": lambda lib: lib.series([None], dtype="str").str.cat(
        lib.series(["a"], dtype="str")
    ),
    "missing_values.NotNullAsPandas": lambda lib: list(map(bool, lib.frame(x=[1, 2]).index.notnull())),  # noqa: PD004 - the other name
    "missing_values.ReplaceAsPandas": lambda lib: str(lib.series([1, 2]).replace(5, 0.5).dtype),
    "missing_values.found": lambda lib: lib.series([1.0, NAN]).isin([1.0, NAN]),
    "missing_values.found, None": lambda lib: lib.series([1.0, NAN]).isin([1.0, None]),
    "missing_values.found, NaN of Arrow's integers": lambda lib: lib.series([None], dtype="int64[pyarrow]").isin([NAN]),
    "missing_values.found, zeros of Arrow": lambda lib: lib.series([-0.0], dtype="double[pyarrow]").isin([0.0]),
    "missing_values.found, floats of 32 bits": lambda lib: lib.series([0.1], dtype="float32").isin([0.1]),
    "missing_values.rolling": lambda lib: lib.series([1.0, np.inf, 1.0, 1.0]).rolling(2).sum(),
    "missing_values.RollingAsPandas": lambda lib: (
        lib.of(pd.Series([1.0, 2.0], index=pd.DatetimeIndex([TIMES[0]] * 2))).rolling("1D").sum()
    ),
    # as_pandas
    "as_pandas.as_type, NaN to boolean": lambda lib: lib.series([0.0, NAN]).astype("bool").isna().any(),
    "as_pandas.as_type, NaN to a nullable integer": lambda lib: _computed_nan(lib).y.astype("Int64").isna().any(),
    "as_pandas.as_type, negative floats": lambda lib: lib.series([-1.5]).astype("uint8"),
    "as_pandas.as_type, fraction to a nullable integer": lambda lib: lib.series([0.5]).astype("Int64"),
    "as_pandas.as_type, texts of integers beside missing ones": lambda lib: (
        lib.series([0, 2]).replace(0, NAN).astype("str").dropna()
    ),
    "as_pandas.as_type, NaT to an integer": lambda lib: (
        lib.of(pd.Series([TIMES[0], pd.NaT])).astype("int64").isna().any()
    ),
    "as_pandas.TimesOfNumbers": lambda lib: str(lib.module.to_datetime(lib.series([3.0]), unit="D").dtype),
    "as_pandas.with_dtype_of_pandas, lengths": lambda lib: str(lib.series(["ab"], dtype="str").str.len().dtype),
    "as_pandas.with_dtype_of_pandas, codes": lambda lib: lib.series(["a", None], dtype="category").cat.codes,
    "as_pandas.with_columns_in_order": lambda lib: list(
        lib.frame(k=[1, 2], a=[1, 2]).merge(lib.frame(b=[1, 2], k=[2, 3]), on="k", how="right").columns
    ),
    "as_pandas.with_columns_in_order, names of indexes": lambda lib: (
        (
            lib.frame(a=[1]).merge(
                lib.of(pd.DataFrame({"b": [1]}, pd.Index([5], name="i"))),
                left_index=True,
                right_index=True,
                how="outer",
            )
        )
        .index.isna()
        .any()
    ),
    "as_pandas.with_plain_booleans": lambda lib: str(
        lib.of(pd.DataFrame({"a": pd.array([1], "int64[pyarrow]"), "b": [1]})).all().dtype
    ),
    "as_pandas.with_floats_of_numpy": lambda lib: str(
        percentile_lookup(lib.series([1.0, 2.0], dtype="double[pyarrow]"), [50.0])[0].dtype
    ),
    # groupby
    "groupby.with_sums_of_nothing": lambda lib: lib.frame(k=[1], x=[NAN]).groupby("k").x.sum(),
    "groupby.with_sums_of_nothing, unsigned": lambda lib: str(
        lib.frame(k=[1], x=np.array([1], "uint8")).groupby("k").x.sum().dtype
    ),
    "groupby.with_sums_of_nothing, bins": lambda lib: (
        lib.of(pd.Series([1.0, 2.0, 3.0], index=TIMES)).resample("10D").sum()
    ),
    "groupby.summed_so_far": lambda lib: 1 / lib.frame(k=[1], x=[-0.0]).groupby("k").x.cumsum(),
    "groupby.CumsumAsPandas": lambda lib: lib.frame(k=[1, 1], x=pd.array([100, 100], "Int8")).groupby("k").x.cumsum(),
    "groupby.CumprodAsPandas": lambda lib: lib.frame(k=[1, 1], x=pd.array([99, 99], "Int8")).groupby("k").x.cumprod(),
    "groupby.of_no_number": lambda lib: lib.frame(k=[1], x=[NAN]).groupby("k").x.transform("sum"),
    "groupby.selected": _selected_by_levels,
    "groupby.selected, index": _index_selected_by_levels,
    "groupby.in_order": lambda lib: list(
        lib.of(pd.DataFrame({"k": np.arange(300) * 7919 % 300, "x": 1})).groupby("k").sum().index.to_numpy()
    ),
    # reductions
    "reductions.VarianceAsPandas, booleans": lambda lib: lib.series([True, False, True]).var(),
    "reductions.of_rows": lambda lib: str(
        lib.of(pd.DataFrame({"a": pd.array([True, None], "bool[pyarrow]")})).min(axis=1).dtype
    ),
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
    "differences._cumulated": lambda lib: list(
        lib.of(pd.DataFrame({"a": pd.array([2], "Int64"), "b": pd.array([2.5], "double[pyarrow]"), "c": [1]}))
        .tail(1)
        .squeeze()
        .to_dict()
        .values()
    ),
    "differences._replace, times": lambda lib: str(lib.of(pd.Series([TIMES[0], pd.NaT])).replace(NAN, 0).dtype),
    "differences._ufunc, arrays": lambda lib: isinstance(np.nan_to_num(lib.series([1.0, NAN])), np.ndarray),
    "differences._ufunc, exchanged operands": lambda lib: np.arctan2(1.0, lib.series([2.0])),
    "differences._ufunc, fmod": lambda lib: np.fmod(lib.series([-3.0]), 2.0),
    "differences._ufunc, float_power": lambda lib: np.float_power(lib.series([2]), -1),
    "arithmetic._is_boolean, Arrow": lambda lib: (lib.series([False], dtype="bool[pyarrow]") != 0).any(),
    "differences._ufunc, fmax": lambda lib: np.fmax(lib.series([1.0, NAN]), 0.5),
    "differences._ufunc, copysign": lambda lib: np.copysign(lib.series([1.0]), lib.series([NAN])).isna().any(),
    "differences._ufunc, logical_or": lambda lib: np.logical_or(lib.series([NAN]), lib.series([0.0])).isna().any(),
    "differences.ToNumeric": lambda lib: str(
        pd.to_numeric(lib.series([1], dtype="Int64"), downcast="integer").dtype
    ).lower(),
    "differences.Clip": lambda lib: lib.series([1, 5]).clip(1.5, 3.5),
    "differences._dropna, no columns": lambda lib: len(lib.frame(a=[1.0, NAN])[[]].dropna(how="all")),
    "differences._dropna, None": lambda lib: len(lib.frame(a=[1.0, NAN], b=[1.0, 2.0]).dropna(thresh=None)),
    "differences._has_equal_names": lambda lib: list(
        lib.frame(k=[1, 1], x=[1, 2]).groupby("k").agg({"x": ["median", "median"]}).columns
    ),
    "differences._grouped, ordered categories": lambda lib: list(
        lib.of(pd.DataFrame({"k": [1, 1], "c": pd.Categorical(["a", "b"], dtype=ORDERED), "x": [1, 2]}))
        .groupby("k")
        .max()
        .columns
    ),
    "differences._merge": lambda lib: sorted(
        lib.frame(k=[1, 2], a=[1, 2]).merge(lib.frame(k=[0, 1], b=[1, 2]), left_index=True, right_on="k").columns
    ),
    "differences._merge, names of indexes": lambda lib: (
        lib.of(pd.DataFrame({"a": [1]}, [0]))
        .merge(
            lib.of(pd.DataFrame({"b": [2]}, pd.Index([5], name="i"))), left_index=True, right_index=True, how="outer"
        )
        .index.isna()
        .any()
    ),
    "differences._merge, kinds of labels": lambda lib: (
        lib.of(pd.DataFrame({"a": [1]}, ["p"]))
        .merge(lib.of(pd.DataFrame({"b": [2]}, [0])), left_index=True, right_index=True, how="outer")
        .index.to_list()
    ),
    "groupby.with_keys": lambda lib: (
        lib.of(pd.DataFrame({"k": pd.array([None], "Int64"), "x": ["a"]}))
        .groupby("k")
        .x.apply(lambda texts: texts.max())
        .index.name
    ),
    "differences._concat, names of indexes": lambda lib: (
        lib.module.concat([lib.of(pd.DataFrame({"x": [1]}, pd.Index([0], name=name))) for name in "ab"]).index.name
    ),
    "differences._concat, several kinds": lambda lib: lib.module.concat([lib.series([1, 2]), lib.of(pd.Series(TIMES))]),
    "differences._concat, booleans": lambda lib: (
        type(lib.module.concat([lib.series([1, 2]), lib.series([True])]).iloc[2]).__name__
    ),
    "differences._of_several_kinds": lambda lib: lib.series([1.0, NAN]).combine_first(_texts(lib, "a", "b")),
    "differences._rename_axis": lambda lib: (
        lib.of(pd.DataFrame({"x": [1]}, pd.Index([0], name="i"))).rename_axis(index={"i": "j"}).index.name
    ),
    "differences._replace, numbers among times": lambda lib: (
        lib.of(pd.DataFrame({"k": [0, 3], "t": pd.to_timedelta([7, 13], "h")})).replace(0, NAN).t
    ),
    "differences._replace, texts": lambda lib: lib.series(["a", "b"], dtype="category").replace("a", "b").astype("str"),
    "differences._replace, columns": lambda lib: lib.frame(x=[1, 2], y=[1, 2]).replace({"x": {1: 5}}),
    "differences.FloorDiv": lambda lib: str((lib.series([1], dtype="Int64") // lib.series([0], dtype="Int64")).dtype),
    "differences.DescribeNonNumeric": lambda lib: _texts(lib, "a", "b", "a").describe(),
    "differences.DescribeNumeric": lambda lib: lib.of(pd.Series(TIMES)).describe(),
    "differences.VarColumns": lambda lib: lib.frame(a=[1.0], b=[2.0]).var(axis=1, ddof=2),
    "as_pandas.with_frequency": lambda lib: lib.of(pd.Series(1, pd.date_range("2024", periods=2))).index.shift(1)[0],
    "differences.GetDummies": lambda lib: lib.module.get_dummies(
        lib.series([1, None], dtype="category"), dummy_na=True
    ).shape[1],
    "differences._of_partitions": lambda lib: lib.frame(a=[1.0], b=[2.0]).std(axis=1, ddof=2),
    "differences._of_partitions, melt": lambda lib: list(
        lib.of(pd.DataFrame({"a": [1], "b": [2]}).rename_axis(columns="s")).melt().columns
    ),
    "differences._labels": lambda lib: lib.of(pd.Series([1], pd.to_datetime(["2024-01-02"]))).add_prefix("a").index[0],
    "differences._operator, fill_value of integers": lambda lib: lib.frame(x=[0, 1]).floordiv(
        lib.frame(x=[0, 1]), fill_value=2
    ),
    "differences._accessor, compiled patterns": lambda lib: _texts(lib, "A").str.count(re.compile("a", re.IGNORECASE)),
    "differences._isin": lambda lib: lib.series(["a", None, "b"], dtype="category").isin(["z"]),
    "differences._replace, booleans": lambda lib: str(lib.series([True, False]).replace(1, 5).dtype),
    "differences._variance": lambda lib: str(lib.frame(a=[1.0, 2.0])[[]].var().dtype),
    "differences._grouped, arguments of functions": lambda lib: len(
        lib.frame(k=[1, 1, 2], x=[1, 2, 3]).groupby("k").apply(lambda rows, number: rows.head(number), number=1)
    ),
    "differences._grouped, computed keys": lambda lib: list(
        _mean_chunk((frame := lib.frame(k=[1, 2, 3], x=[1, 2, 3])), frame.k % 2).columns
    ),
    "groupby.GetGroupAsPandas": lambda lib: len(
        GetGroup.operation(lib.frame(k=[1, 1, 2], x=[1, 2, 3]), "k", get_key=1, columns=["x"])
    ),
    "as_pandas.with_dtype_of_pandas, elements": lambda lib: lib.series(["a b"], dtype="string").str.split().str.get(0),
    "differences._elemwise": lambda lib: np.cosh(lib.of(pd.Series(np.linspace(0, 20, 10_000)))),
    "differences._grouped, ties": lambda lib: (
        lib.of(pd.DataFrame({"k": np.arange(20_000) % 3, "x": 1.0})).groupby("k").x.idxmax()
    ),
    "differences._replace, fractions": lambda lib: str(lib.series([1], dtype="int64[pyarrow]").replace(1, 2.5).dtype),
    "differences._grouped, value_counts": lambda lib: lib.frame(k=[1], x=[2]).groupby("k").x.value_counts(),
    "differences.Mod": lambda lib: str((lib.series([1], dtype="Int64") % lib.series([0], dtype="Int64")).dtype),
    "differences._operator": lambda lib: str(lib.series([1], dtype="Int64").floordiv(0).dtype),
    "differences._sorted_by_categories": lambda lib: len(lib.series(["b", "a"], dtype=ORDERED).quantile([0.0, 1.0])),
    "differences.NuniqueApprox": _hashed,
    "differences.SeriesQuantile": lambda lib: isinstance(
        lib.series([1, 2], dtype="Int64").values, pd.api.extensions.ExtensionArray
    ),
    "differences._dropna, more than all columns": lambda lib: len(lib.frame(a=[1.0, 1], b=[1.0, 2]).dropna(thresh=3)),
    "arithmetic.with_signed_sums": lambda lib: isinstance(
        lib.series([], dtype="bool[pyarrow]").sum(), np.unsignedinteger
    ),
    "arithmetic.with_signed_sums, products": lambda lib: isinstance(
        lib.series([], dtype="bool[pyarrow]").prod(), np.unsignedinteger
    ),
    "reductions.cumulated, unsigned": lambda lib: str(lib.series([1], dtype="uint8").cumsum().dtype),
    "as_pandas.as_type, units": lambda lib: str(
        lib.module.read_csv(io.BytesIO(b"t\n2024-01-01\n"), parse_dates=["t"]).t.dtype
    ),
    "missing_values.WhereAsPandas": lambda lib: str(lib.series([1, 2]).where(lib.series([True, True]), NAN).dtype),
    "missing_values.MaskAsPandas": lambda lib: str(lib.series([1, 2]).mask(lib.series([False, False]), NAN).dtype),
    "groupby.StdAsPandas": lambda lib: np.sqrt(lib.frame(a=[NAN, 4.0], b=[1.0, NAN])),
    "texts.called, spaces": lambda lib: _texts(lib, "\u3000a").str.strip(),
    "texts.SplitMapAsPandas, spaces": lambda lib: len(_texts(lib, "a\u3000b").str.split().iloc[0]),
    "texts.called, missing booleans of files": lambda lib: (
        lib.module.read_csv(io.BytesIO(b"s,n\na,1\n,2\n"), dtype={"s": "string"}).s.str.contains("a").isna().any()
    ),
    "fewer_partitions.distinct, categories": lambda lib: len(lib.series(["a"], dtype="category")[:0].value_counts()),
    "fewer_partitions.distinct, categories beside missing values": lambda lib: len(
        lib.series(["a", None], dtype=pd.CategoricalDtype(["a", "b"])).value_counts(dropna=False)
    ),
    "concat.concatenation, booleans": lambda lib: str(
        lib.module.concat([lib.frame(a=[True]), lib.frame(b=[1])]).a.dtype
    ),
    "categories.concatenate, order": lambda lib: (
        lib.module.concat([lib.frame(c=pd.Categorical(["a"], dtype=ORDERED))] * 2).c.dtype.ordered
    ),
    "categories.concatenate, name of columns": lambda lib: (
        lib.module.concat([lib.of(pd.DataFrame({"x": [1]}).rename_axis(columns="n"))] * 2).columns.name
    ),
    "categories.concatenate, Series": lambda lib: len(
        getattr(lib.module.concat([lib.series([one], dtype="category") for one in "ab"]).dtype, "categories", "ab")
    ),
    "as_pandas.with_dtype_of_pandas, days of a year": lambda lib: str(lib.of(pd.Series(TIMES)).dt.dayofyear.dtype),
    "fewer_partitions.distinct, NaN": lambda lib: len(
        (lib.series([0.0, NAN]) / lib.series([0.0, 1.0])).drop_duplicates()
    ),
    "groupby.GroupbyAggregationAsPandas, missing keys": lambda lib: len(
        _compute_sum_of_squares(lib.frame(k=[1.0, NAN], x=[1, 2]).groupby("k", dropna=False), "x")
    ),
    "groupby.GroupbyAggregationAsPandas": lambda lib: np.sqrt(lib.frame(a=[NAN, 4.0], b=[1.0, NAN])),
    "reductions.DescribeAsPandas": lambda lib: lib.series([True, False, True]).std(),
    "reductions.IdxMinAsPandas": lambda lib: lib.frame(a=[1.0, 3.0, 1.0]).idxmin(),
    "concat.concatenation, join": lambda lib: list(
        dispatch.concat([lib.frame(a=[1], b=[1]), lib.frame(b=[1])], join="inner")
    ),
    "reductions.MinAsPandas": lambda lib: lib.of(pd.DataFrame({"a": np.array([], "int64")})).min(),
    "reductions.NLargestAsPandas": lambda lib: len(
        lib.of(pd.DataFrame({("x", "max"): [1, 3], ("y", "min"): [1, 2]})).nlargest(1, ("x", "max"))
    ),
}


OF_TESTS = {
    "as_pandas.first_rows": "test_the_first_rows_of_files_are_those_of_pandas",
    "differences._operator, fill_value": "test_no_column_row_or_value_is_lost",
    "differences.GetCategories": "test_categories_that_are_found_have_the_order_of_the_rows",
    "groupby.SizeAsPandas": "test_no_column_row_or_value_is_lost",
    "reductions.ResampleAggAsPandas": "test_no_column_row_or_value_is_lost",
    "reductions.ModeAsPandas": "test_no_column_row_or_value_is_lost",
    "sorting.indexed": "test_an_index_of_several_files_has_divisions",
}
"""For rules that Dask needs as it calls cuDF, which alone agrees with pandas: the test on a GPU in `IN_CELLS`."""
IN_CELLS = Path(__file__).with_name("test_frames_as_pandas.py")


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


@pytest.mark.gpu
@pytest.mark.parametrize("rule", ROWS)
def test_cudf_alone_differs_from_pandas(rule):
    cudf = pytest.importorskip("cudf")
    expected = outcome(ROWS[rule], Library(pd, lambda made: made))
    assert not isinstance(expected, (AttributeError, NameError, SyntaxError)), expected
    found = outcome(ROWS[rule], Library(cudf, cudf.from_pandas))
    assert not same(expected, found), f"cuDF agrees with pandas: {expected!r}. The rule is not needed any more."


def _without_keys(frame: Any) -> Any:
    return frame.assign(k=frame.x.where(frame.x > 1)).groupby("k").x


OF_DASK = {
    "groupby.of_no_column": (lambda frame: frame.groupby("k")[["x"]].first()[[]].assign(y=1).y, [1, 1]),
    "whole_groups.GroupCorrAsPandas": (lambda frame: frame.groupby("k").corr(), ["x"]),
    "whole_groups.GroupCovAsPandas": (lambda frame: frame.groupby("k").cov(), ["x"]),
    "groupby.of_known_keys": (lambda frame: _without_keys(frame.fillna(2.0)).mean(), [2.0]),
    "groupby.FFillAsPandas": (lambda frame: _without_keys(frame).ffill().isna(), [True, True]),
    "groupby.BFillAsPandas": (lambda frame: _without_keys(frame).bfill().isna(), [True, True]),
    "missing_values.CombineFirstAsPandas": (
        lambda frame: (frame[["k"]] / 2).combine_first(frame[frame.k > 5][["k"]]).k,
        [0.5, 1.0],
    ),
    "reductions.CovAsPandas": (lambda frame: frame.cov()[["k"]].index, ["k", "x"]),
    "reductions.CorrAsPandas": (lambda frame: frame.corr()[["k"]].index, ["k", "x"]),
    "reductions.NLargestAsPandas": (lambda frame: frame.nlargest(1, "k")["k"], [2]),
    "reductions.NSmallestAsPandas": (lambda frame: frame.nsmallest(1, "k")["k"], [1]),
    "reductions.of_variance": (lambda frame: dask.delayed([str(frame.astype("Float64").std().dtype)]), ["float64"]),
    "sorting.sorted_rows": (
        lambda frame: dd.concat([frame, frame + 2]).sort_values("x", na_position="first").k,
        [2, 4, 1, 3],
    ),
    "as_pandas.without_rows": (lambda frame: dd.to_datetime(frame.k), []),
}
"""What Dask alone does otherwise on the CPU: the answer of pandas for `MADE`, or the rows of the metadata."""
MADE = pd.DataFrame({"k": [1, 2], "x": [1.0, NAN]})


@pytest.mark.parametrize("rule", OF_DASK)
def test_dask_alone_differs_from_pandas(rule):
    compute, expected = OF_DASK[rule]
    made = compute(dd.from_pandas(MADE, npartitions=1))
    try:
        found = made._meta if not expected else made.compute()
    except (KeyError, TypeError, ValueError) as error:
        found = [error]
    assert list(found) != expected


def name_of(rule):
    """The module and the name of what implements a rule: of a class with an operation, that of the operation."""
    rule = rule if isinstance(rule, type) else getattr(rule, "func", rule)
    operation = getattr(rule, "operation", None)
    rule = type(operation) if isinstance(operation, Comparison | Logical) else rule
    return f"{rule.__module__.rpartition('.')[2]}.{rule.__name__}"


def names_of_rules():
    """All rules; what Dask aligns first has the rule of the operation."""
    aligned = {
        *(as_pandas.AlignedAsPandas, as_pandas.AlignedMethodAsPandas),
        *(CombineFirstAlignAsPandas, MaskAlignAsPandas, WhereAlignAsPandas),
    }
    of_groups = (GroupbyAggregationAsPandas, SizeAsPandas, StdAsPandas, in_order, with_sums_of_nothing)
    rules = {*as_pandas.RULES.values(), *of_groups, with_one_missing, differences._grouped} - aligned
    yield from (name_of(rule) for rule in rules if "<lambda>" not in name_of(rule))
    for name, rule in differences._OF_EXPRESSIONS.items():
        yield f"differences.{name}" if rule.__name__ == "<lambda>" else name_of(rule)


def test_no_rule_is_without_a_row():
    reached = {name.partition(",")[0] for name in [*ROWS, *OF_DASK, *OF_TESTS]}
    assert set(names_of_rules()) <= reached
    assert all(f"\ndef {name}(" in IN_CELLS.read_text() for name in OF_TESTS.values())
    for module, name in (rule.split(".") for rule in reached):
        known = import_module(f"jupyter_gpudask.patches.frames.{module}")
        assert hasattr(known, name) or name in differences._OF_EXPRESSIONS, f"{module}.{name} is no rule"
