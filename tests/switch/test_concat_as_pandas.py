"""``dd.concat`` on GPUs: inner joins stay there, and unknown categories do not get into results."""

import dask.dataframe as dd
import pandas as pd
import pytest
from cudf_stand_in import FRAME, Frame, Series, on_both

from jupyter_gpudask.inspection.placement import place_of

pytestmark = pytest.mark.usefixtures("cudf_stand_in")


@pytest.mark.parametrize(
    "compute",
    [
        lambda frame: dd.concat([frame[["k", "x"]], frame[["x", "name", "k"]]], join="inner"),
        lambda frame: dd.concat([frame[["x", "k"]], frame, frame[["name", "k"]]], join="inner", axis="index"),
        lambda frame: dd.concat([frame.x, frame.k], join="inner"),
        lambda frame: dd.concat([frame[["k"]], frame[["x", "k"]]], join="outer"),
        lambda frame: dd.concat([frame[["k", "x"]], frame[["k", "x"]]]),
    ],
)
def test_rows_are_concatenated_on_the_gpu_as_in_pandas(compute):
    expected, result = on_both(compute)
    assert isinstance(result, Frame | Series)
    assert type(result)(expected).equals(result)
    assert list(getattr(expected, "columns", [])) == list(getattr(result, "columns", []))


@pytest.mark.parametrize(
    "compute",
    [
        lambda frame: dd.concat([frame[["x"]], frame[["k"]]], join="inner"),
        lambda frame: dd.concat([frame[["x"]], frame.k], join="inner"),
        lambda frame: dd.concat([frame[["k", "x"]], frame[["x", "name"]]], join="inner", axis=1),
    ],
)
def test_a_join_that_is_none_of_columns_is_not_changed(compute):
    frame = dd.from_pandas(FRAME, npartitions=3).map_partitions(Frame, meta=Frame(FRAME.head(0)))
    assert place_of(frame) == "gpu"
    with pytest.raises(AssertionError):  # of dask_cudf, without a cell that falls back
        compute(frame)


@pytest.mark.parametrize(
    "compute",
    [
        lambda unknown, known: dd.concat([unknown.assign(other=1), known[["c"]]]),
        lambda unknown, known: dd.concat([known[["k", "c"]], unknown[["c"]]], join="inner"),
        lambda unknown, known: dd.concat([unknown.c, known.c.rename("d")]),
    ],
)
def test_a_result_has_no_category_that_stands_for_unknown_ones(compute, monkeypatch):
    # For dataframes of cuDF, which are none of pandas, it does nothing.
    monkeypatch.setattr("dask.dataframe.dask_expr._concat.strip_unknown_categories", lambda meta: meta)
    letters = pd.DataFrame({"k": range(6), "c": pd.Categorical(list("abcbca"))})
    known = dd.from_pandas(letters, npartitions=2)
    on_gpu = known.map_partitions(Frame, meta=Frame(known._meta))
    unknown = on_gpu.assign(c=on_gpu.c.cat.as_unknown())
    collection = compute(unknown, on_gpu)
    assert place_of(collection) == "gpu"
    result = collection.compute()
    values = result.c if result.ndim > 1 else result
    assert set(values.dtype.categories) == set("abc")
    assert values.astype(object).tolist() == list("abcbca") * 2
