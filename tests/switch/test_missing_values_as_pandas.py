"""Comparisons and conversions of missing values give what pandas gives. Here cuDF is a subclass of pandas."""

from contextlib import nullcontext
from types import SimpleNamespace

import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from cudf_stand_in import FRAME, Frame, Series, on_both
from dask._collections import new_collection

from jupyter_gpudask.fallback.missing import DifferentResultError
from jupyter_gpudask.inspection.placement import to_gpu
from jupyter_gpudask.patches.frames.as_pandas import replaced
from jupyter_gpudask.patches.frames.missing_values import concatenated

pytestmark = pytest.mark.usefixtures("cudf_stand_in")


@pytest.mark.parametrize(
    "compute",
    [
        lambda frame: frame.x > 0,
        lambda frame: frame.x != 1,
        lambda frame: ~(frame.x == 1),
        lambda frame: frame.x.ne(1),
        lambda frame: frame.x >= frame.k,
        lambda frame: frame.x.between(0, 2),
        lambda frame: frame.when < pd.Timestamp("2024-06-01"),
        lambda frame: frame.when != frame.when,
        lambda frame: frame[["x", "k"]] != 1,
        lambda frame: frame[["k", "x"]].le(4),
        lambda frame: frame[["k"]].le(frame[["x"]]),
    ],
)
def test_a_comparison_with_nan_is_true_or_false(compute):
    expected, result = on_both(compute)
    assert not np.any(pd.isna(result))
    assert np.array_equal(np.asarray(result, dtype=bool), expected)


def test_rows_that_a_comparison_with_nan_selects_are_those_of_pandas():
    expected, result = on_both(lambda frame: frame[~(frame.x > 0)].k)
    assert result.tolist() == expected.tolist() == [3, 1, 4, 9, 0]


@pytest.mark.parametrize(
    "compute",
    [
        lambda frame: frame.x.astype(bool),
        lambda frame: frame[["x", "k"]].astype("bool"),
        lambda frame: frame[["x", "k"]].astype({"x": bool}),
        lambda frame: frame[["x", "k"]].astype({"x": bool, "k": float}).x,
        lambda frame: frame.x.astype("boolean"),
        lambda frame: frame.k.astype(bool),
    ],
)
def test_nan_is_converted_to_true(compute):
    expected, result = on_both(compute)
    assert pd.DataFrame(result).isna().to_numpy().tolist() == pd.DataFrame(expected).isna().to_numpy().tolist()
    assert pd.DataFrame(result).eq(1).to_numpy().tolist() == pd.DataFrame(expected).eq(1).to_numpy().tolist()


@pytest.mark.parametrize("compute", [lambda frame: frame.name == "b", lambda frame: frame[["name", "x"]] != "b"])
def test_a_comparison_of_strings_keeps_missing_values(compute):
    expected, result = on_both(compute)
    assert pd.DataFrame(result).isna().to_numpy().tolist() == pd.DataFrame(expected).isna().to_numpy().tolist()


TRUTH = pd.DataFrame(
    {
        "p": pd.array([True, False, None] * 3, dtype="boolean"),
        "q": pd.array([True] * 3 + [False] * 3 + [None] * 3, dtype="boolean"),
    }
)


@pytest.mark.parametrize(
    "compute",
    [
        lambda frame: frame.p | frame.q,
        lambda frame: frame.p & frame.q,
        lambda frame: ~(frame.p & frame.q) | frame.q,
        lambda frame: frame.p | True,
        lambda frame: frame.p & False,
        lambda frame: frame[["p"]] | frame[["p"]],
    ],
)
def test_true_or_missing_is_true_and_false_and_missing_is_false(compute):
    frame = dd.from_pandas(TRUTH, npartitions=2)
    on_gpu = compute(to_gpu(frame))
    assert type(on_gpu.expr).__name__ in ("OrAsPandas", "AndAsPandas")
    expected = compute(TRUTH)
    assert pd.DataFrame(on_gpu.compute()).to_numpy().tolist() == pd.DataFrame(expected).to_numpy().tolist()


@pytest.mark.parametrize("partitions", [2, 3])
@pytest.mark.parametrize(
    "compute",
    [
        lambda left, right: left.p | right.q,
        lambda left, right: left.p & right.q,
        lambda left, right: left.x != right.x,
        lambda left, right: left.x >= right.x,
    ],
)
def test_dataframes_of_two_sources_are_compared_as_those_of_one(compute, partitions):
    data = TRUTH.assign(x=[1.0, None, 3.0] * 3)
    left, right = dd.from_pandas(data, npartitions=2), dd.from_pandas(data.assign(y=1), npartitions=partitions)
    result = compute(*map(to_gpu, (left, right)))
    assert type(result.expr).__name__ == "AlignedAsPandas"
    assert list(map(str, result.compute())) == list(map(str, compute(data, data)))


@pytest.mark.parametrize("values", [[1.0, np.nan], [None], [2.0], [pd.Timestamp("2024-05-01"), pd.NaT]])
def test_missing_values_are_among_others_of_which_one_is_missing(values):
    for name in ("x", "when"):
        expected, result = on_both(lambda frame, name=name: frame[frame[name].isin(values)].k)
        assert result.tolist() == expected.tolist()


def test_codes_of_missing_categories_are_negative():
    def codes(frame):
        return frame.name.astype(pd.CategoricalDtype(["a", "b", "cc"])).cat.codes

    expected, result = on_both(codes)
    assert result.tolist() == expected.tolist() == [1, -1, 0, 2, 1] * 2
    assert result.dtype == expected.dtype == "int8"


@pytest.mark.parametrize(
    "compute",
    [
        lambda frame: np.isnan(frame.x),
        lambda frame: ~np.isfinite(frame.x),
        lambda frame: np.isnan(frame[["x", "k"]]),
        lambda frame: np.isfinite(frame[["x", "k"]]),
        lambda frame: np.not_equal(frame.x, 1),
        lambda frame: np.greater(frame.x, frame.k),
        lambda frame: frame[np.isnan(frame.x)].k,
    ],
)
def test_functions_of_numpy_compare_nan_as_in_pandas(compute):
    expected, result = on_both(compute)
    assert pd.DataFrame(result).to_numpy().tolist() == pd.DataFrame(expected).to_numpy().tolist()


@pytest.mark.parametrize(
    "compute",
    [
        lambda frame: np.sqrt(frame[["x", "k"]]),
        lambda frame: np.exp(frame[["k", "x"]]),
        lambda frame: np.maximum(frame[["x", "k"]], 2),
        lambda frame: np.arctan2(frame[["x", "k"]], frame[["x", "k"]] + 1),
        lambda frame: np.add(frame[["x", "k"]], 1),
        lambda frame: np.less(frame[["x", "k"]], 3),
    ],
)
def test_a_function_of_numpy_loses_no_value_of_a_column_because_another_one_is_missing(compute):
    expected, result = on_both(compute)
    result, expected = (pd.DataFrame(each).astype(float).to_numpy() for each in (result, expected))
    np.testing.assert_allclose(result, expected)


@pytest.mark.parametrize(
    ("texts", "differs"), [([""], True), (["a:b"], False), (["", ""], False), ([None], False), ([], False)]
)
def test_an_empty_text_of_a_single_row_may_be_a_missing_one(texts, differs):
    result = Series(texts, dtype="string")
    series = SimpleNamespace(str=SimpleNamespace(cat=lambda others, sep: result))
    with pytest.raises(DifferentResultError, match="empty text") if differs else nullcontext():
        assert concatenated(series, series, sep=":") is result


def test_texts_of_two_columns_are_concatenated_as_in_pandas():
    frame = dd.from_pandas(FRAME, npartitions=10)
    texts = new_collection(replaced(frame.name.str.cat(frame.name.str.upper(), sep=":").expr))
    assert type(texts.expr).__name__ == "CatBlockwiseAsPandas"
    expected = FRAME.name.str.cat(FRAME.name.str.upper(), sep=":")
    pd.testing.assert_series_equal(texts.compute(), expected, check_dtype=False)


@pytest.mark.parametrize(
    "compute",
    [
        lambda frame: frame.k.where(frame.k >= 0),
        lambda frame: frame.k.mask(frame.k > 3),
        lambda frame: frame[["k"]].mask(frame[["k"]] > 99),
        lambda frame: frame[["k", "x"]].where(frame[["k", "x"]] != 3),
        lambda frame: frame.k.where(frame.k != 3, -1),
    ],
)
def test_integers_in_which_nothing_is_replaced_remain_integers(compute):
    expected, result = on_both(compute)
    assert type(result) in (Frame, Series)
    (pd.testing.assert_frame_equal if expected.ndim > 1 else pd.testing.assert_series_equal)(
        result.to_pandas(), expected
    )


@pytest.mark.parametrize("name", ["x", "k"])
def test_a_column_that_is_selected_after_fillna_is_filled(name):
    values = {"x": -5.0, "k": 7}
    _, result = on_both(lambda frame: frame.fillna(values)[name])
    assert result.tolist() == FRAME.fillna(values)[name].tolist()
    _, several = on_both(lambda frame: frame.fillna(values)[["k", "x"]])
    assert several.x.tolist() == FRAME.fillna(values).x.tolist()


@pytest.mark.parametrize(
    "compute",
    [
        lambda frame: (frame.k / (frame.k - 3)).rolling(2).max(),
        lambda frame: frame[["k"]].assign(z=frame.k / (frame.k - 3)).rolling(2).max(),
    ],
)
def test_infinities_are_missing_in_windows(compute):
    expected, result = on_both(compute)
    assert type(result) in (Frame, Series)
    (pd.testing.assert_frame_equal if expected.ndim > 1 else pd.testing.assert_series_equal)(
        result.to_pandas(), expected
    )
