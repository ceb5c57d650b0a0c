"""Reductions ignore partitions without rows or without numbers. Here cuDF is a subclass of pandas."""

import pickle

import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from cudf_stand_in import FRAME, Frame, Series, as_stand_in, to_gpu_as
from dask._collections import new_collection

from jupyter_gpudask.inspection import placement
from jupyter_gpudask.patches.frames.as_pandas import replaced
from jupyter_gpudask.patches.frames.reductions import VarianceAsPandas

pytestmark = pytest.mark.usefixtures("cudf_stand_in")


class Strict(Frame):
    """As a dataframe of cuDF, which refuses the extremes of integers without rows."""

    @property
    def _constructor(self):
        return Strict

    def _extreme(self, name, options):
        if not len(self):
            raise ValueError("cannot convert float NaN to integer")
        return Series(getattr(self.to_pandas(), name)(**options))

    def min(self, **options):
        return self._extreme("min", options)

    def max(self, **options):
        return self._extreme("max", options)


@pytest.mark.parametrize("partitions", [1, 3])
@pytest.mark.parametrize(
    "compute",
    [
        lambda frame: frame[["k"]].min(),
        lambda frame: frame[["k"]].max(),
        lambda frame: frame[frame.k > 4][["k", "x"]].max(),
        lambda frame: frame[frame.k > 4].min(numeric_only=True),
        lambda frame: frame[frame.k > 4][["k", "x"]].min(skipna=False),
    ],
)
def test_extremes_ignore_partitions_without_rows(compute, partitions):
    data = FRAME.assign(k=[9, 2, 7, *range(-6, 1)]).set_index(pd.Index(list("abcdefghij")))
    frame = dd.from_pandas(data, npartitions=partitions)
    result = compute(to_gpu_as(Strict, frame))
    assert placement.place_of_partitions(result.expr.lower_completely()) == "gpu"
    pd.testing.assert_series_equal(pd.Series(result.compute()), compute(data))


@pytest.mark.parametrize("partitions", [1, 3, 9])
@pytest.mark.parametrize("limit", [4, 99])
@pytest.mark.parametrize("skipna", [True, False])
@pytest.mark.parametrize("column", ["k", "when", "name", "flag"])
def test_extremes_of_a_column_ignore_partitions_without_rows(column, skipna, limit, partitions):
    data = FRAME.assign(k=[9, 2, 7, *range(-6, 1)], flag=FRAME.x > 0)[["k", "when", "name", "flag"]]
    rows = to_gpu_as(Frame, dd.from_pandas(data, npartitions=partitions))
    found = rows[rows.k > limit][column].max(skipna=skipna, split_every=2).compute()
    expected = data[data.k > limit][column].max(skipna=skipna)
    assert pd.isna(found) == pd.isna(expected)
    assert pd.isna(found) or (found == expected and type(found) is type(expected))


@pytest.mark.parametrize("name", ["idxmin", "idxmax"])
@pytest.mark.parametrize("numeric_only", [False, True])
def test_extremes_of_columns_of_several_levels_have_their_names(name, numeric_only):
    data = FRAME[["k", "when", "x"] if numeric_only else ["k", "x"]]
    data.columns = pd.MultiIndex.from_product([["a"], data.columns])
    result = getattr(to_gpu_as(Frame, dd.from_pandas(data, npartitions=2)), name)(numeric_only=numeric_only)
    pd.testing.assert_series_equal(pd.Series(result.compute()), getattr(data, name)(numeric_only=numeric_only))


@pytest.mark.parametrize(
    "compute",
    [
        lambda frame: frame.nlargest(3, "k")["k"],
        lambda frame: frame.nsmallest(3, ["k", "when"])["x"],
        lambda frame: frame[["k"]].nlargest(2, "k").k,
        lambda frame: frame.nlargest(3, "k")[["k"]].eval("k * k"),
        lambda frame: frame.k.nsmallest(4),
    ],
)
def test_a_column_is_selected_of_the_rows_with_the_largest_values(compute):
    data = FRAME.assign(k=[9, 2, 7, *range(-6, 1)])
    result = compute(to_gpu_as(Frame, dd.from_pandas(data, npartitions=3)))
    pd.testing.assert_series_equal(pd.Series(result.compute()), compute(data))


def test_a_column_with_a_name_of_several_levels_has_the_largest_values():
    class OneLevel(Frame):
        """As a dataframe of cuDF, which takes a tuple for several names."""

        @property
        def _constructor(self):
            return OneLevel

        def nlargest(self, n, columns):
            assert isinstance(columns, list)
            return OneLevel(self.to_pandas().nlargest(n, columns))

    data = pd.DataFrame({("x", "max"): [3, 1, 2], ("x", "min"): [1, 0, 2]})
    result = to_gpu_as(OneLevel, dd.from_pandas(data, npartitions=1)).nlargest(2, ("x", "max"))[[("x", "max")]]
    assert result.compute().to_numpy().tolist() == [[3], [2]]


@pytest.mark.parametrize("method", ["corr", "cov"])
@pytest.mark.parametrize(
    "select",
    [
        lambda matrix: matrix.x,
        lambda matrix: matrix[["k"]],
        lambda matrix: matrix.drop(columns=["x"]),
        lambda matrix: matrix.groupby(matrix.x > 0).k.size(),
        lambda matrix: matrix[matrix.x > 0].k,
    ],
)
def test_a_column_of_correlations_has_those_with_all_columns(method, select):
    """Dask on the CPU has fewer rows, or an error."""
    rows = FRAME[["k"]].assign(n=range(10), x=FRAME.x * np.arange(10))
    result = select(getattr(to_gpu_as(as_stand_in, dd.from_pandas(rows, npartitions=3)), method)()).compute()
    expected = select(getattr(rows, method)())
    (pd.testing.assert_frame_equal if expected.ndim > 1 else pd.testing.assert_series_equal)(result, expected)


class Unsigned(Series):
    """As a Series of cuDF, whose sum and product of booleans of Arrow are unsigned."""

    @property
    def _constructor(self):
        return Unsigned

    def astype(self, dtype):
        return Unsigned(pd.Series(self).astype(dtype))

    def sum(self, **options):
        return self._of_booleans(pd.Series(self).sum(**options))

    def prod(self, **options):
        return self._of_booleans(pd.Series(self).prod(**options))

    def _of_booleans(self, found):
        return np.uint64(found) if self.dtype.kind == "b" else found


@pytest.mark.parametrize(("name", "expected"), [("sum", 0), ("prod", 1)])
def test_the_sum_and_product_of_booleans_of_arrow_are_signed(name, expected):
    frame = dd.from_pandas(FRAME[["k"]].iloc[:0], npartitions=2)
    booleans = (frame.k > 3).astype("bool[pyarrow]")
    found = getattr(to_gpu_as(Unsigned, booleans), name)().compute()
    assert found == getattr(booleans, name)().compute() == expected
    assert found.dtype == np.int64


class Counted(Series):
    """As a Series of cuDF: if there are no rows, Dask makes counts of texts of its counts."""

    def value_counts(self, **options):
        counts = pd.Series(self).value_counts(**options)
        return Series(counts if len(counts) else counts.set_axis(pd.Index([], dtype="str")))


@pytest.mark.parametrize("dtype", ["int64", "float32", "Int64", "int64[pyarrow]", "boolean"])
def test_the_mode_of_no_rows_has_numbers(dtype):
    frame = dd.from_pandas(FRAME[["k"]], npartitions=2)
    rows = frame[frame.k > 9].k.astype(dtype)
    mode = to_gpu_as(Counted, rows).mode()
    pd.testing.assert_series_equal(pd.Series(mode.compute()), rows.mode().compute())
    assert np.isnan(mode.mean().compute()) or mode.mean().compute() is pd.NA


class Booleans(Series):
    """As a Series of cuDF, whose mean of booleans is not that of 0 and 1."""

    @property
    def _constructor(self):
        return Booleans

    def mean(self, **options):
        return float(self.any()) if self.dtype == bool else super().mean(**options)


@pytest.mark.parametrize("split_every", [False, 2])
def test_the_variance_of_booleans_is_that_of_0_and_1(split_every):
    data = pd.Series([True, True, False, False, False, False, True, True, True])
    series = dd.from_pandas(data, npartitions=3)
    on_gpu = to_gpu_as(Booleans, series)
    variance = new_collection(VarianceAsPandas(on_gpu.expr, True, 1, False, split_every))
    assert variance.compute() == pytest.approx(data.var())
    frame = dd.from_pandas(data.to_frame("p").assign(x=1.5), npartitions=3)
    variance = new_collection(VarianceAsPandas(placement.to_gpu(frame).expr))
    assert variance.compute().to_dict() == {"p": pytest.approx(data.var()), "x": 0}


NUMBERS = pd.DataFrame({"a": [3.0, None, 4, 2, None, None, 5, 6, 1], "b": [1, 2, 3, 4, 5, 6, 7, 8, 9], "c": np.nan})


@pytest.mark.parametrize(
    ("skipna", "ddof", "split_every"),
    [(True, 1, 2), (True, 0, False), (True, 20, 2), (False, 1, False), (False, 20, 2)],
)
@pytest.mark.parametrize(
    "choose",
    [
        lambda frame: frame,
        lambda frame: frame[frame.b > 3],
        lambda frame: frame[(frame.b == 2) | (frame.b > 8)],
        lambda frame: frame[frame.b > 9],
    ],
)
def test_the_variance_ignores_partitions_without_numbers(choose, skipna, ddof, split_every):
    frame = choose(dd.from_pandas(NUMBERS, npartitions=5))
    expected = choose(NUMBERS).var(skipna=skipna, ddof=ddof)
    of_frame = VarianceAsPandas(frame.expr, skipna, ddof, False, split_every)
    pd.testing.assert_series_equal(new_collection(of_frame).compute(), expected)
    for name in NUMBERS:
        of_column = VarianceAsPandas(frame[name].expr, skipna, ddof, False, split_every)
        np.testing.assert_allclose(new_collection(of_column).compute(), expected[name], rtol=1e-12)


def test_variances_of_dataframes_on_gpus_ignore_partitions_without_numbers():
    data = NUMBERS.assign(b=NUMBERS.a.where(NUMBERS.b > 4))
    frame = placement.to_gpu(dd.from_pandas(data, npartitions=5))
    pd.testing.assert_series_equal(pd.Series(frame.var().compute()), data.var())
    assert frame.b.std().compute() == pytest.approx(data.b.std())
    assert frame.b.describe().compute()["std"] == pytest.approx(data.b.std())


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_variances_of_nullable_numbers_are_floats_of_numpy_as_dask_computes_them():
    dtypes = {"a": "Float64", "b": "UInt8", "c": "double[pyarrow]"}
    for data in (NUMBERS.iloc[:0].astype(dtypes), NUMBERS[["a"]].astype("double[pyarrow]")):
        frame = dd.from_pandas(data, npartitions=2)
        expected = frame[list(data)].std().compute()
        result = placement.to_gpu(frame).std()
        assert result.dtype == expected.dtype == result.compute().dtype == float
        np.testing.assert_allclose(result.compute(), expected)


@pytest.mark.parametrize("name", ["cumsum", "cumprod", "cummin", "cummax"])
@pytest.mark.parametrize("columns", [["a"], ["a", "b"], "a"])
def test_cumulative_results_ignore_partitions_without_rows(name, columns):
    chosen = lambda frame: frame[(frame.b < 2) | (frame.b > 6)][columns]  # noqa: E731
    frame = chosen(dd.from_pandas(NUMBERS, npartitions=5))
    try:
        getattr(dd.from_pandas(NUMBERS[["a"]], npartitions=2), name)().compute()
    except IndexError:  # of pandas 3.0 for cummin and cummax
        pytest.skip("Dask does not do it with this pandas")
    result = new_collection(pickle.loads(pickle.dumps(replaced(getattr(frame, name)().expr))))  # noqa: S301
    expected = getattr(chosen(NUMBERS), name)()
    assert result.compute().to_numpy().tolist() == expected.to_numpy().tolist()


@pytest.mark.parametrize("name", ["cumsum", "cumprod", "cummin", "cummax"])
@pytest.mark.parametrize("columns", [["a"], ["a", "b", "c"], "a"])
@pytest.mark.parametrize("skipna", [True, False])
def test_cumulative_results_go_on_after_partitions_in_which_a_column_is_missing(name, columns, skipna):
    nan = np.nan
    data = pd.DataFrame({"a": [nan, nan, 3, 1, nan, nan, 5, nan, 2, 4], "b": range(10), "c": [7.0, *[nan] * 9]})
    frame = dd.from_pandas(data, npartitions=5)[columns]
    expected = getattr(data[columns], name)(skipna=skipna)
    try:
        getattr(dd.from_pandas(NUMBERS[["a"]], npartitions=2), name)().compute()
    except IndexError:  # of pandas 3.0 for cummin and cummax
        pytest.skip("Dask does not do it with this pandas")
    result = new_collection(replaced(getattr(frame, name)(skipna=skipna).expr)).compute()
    np.testing.assert_array_equal(result.to_numpy(dtype=float), expected.to_numpy(dtype=float))
