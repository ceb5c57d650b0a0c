"""``dd.concat`` on GPUs: all joins of rows stay there, and unknown categories do not get into results."""

import dask.dataframe as dd
import pandas as pd
import pytest
from cudf_stand_in import FRAME, Frame, Series, on_both
from dask.dataframe.dask_expr._concat import Concat

from jupyter_gpudask.inspection.placement import place_of, to_gpu

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
    frame = to_gpu(dd.from_pandas(FRAME, npartitions=3))
    assert type(compute(frame).expr) is Concat  # which runs on the host in a cell with the fallback


@pytest.mark.parametrize(
    "compute",
    [
        lambda unknown, known: dd.concat([unknown.assign(other=1), known[["c"]]]),
        lambda unknown, known: dd.concat([known[["k", "c"]], unknown[["c"]]], join="inner"),
        lambda unknown, known: dd.concat([unknown.c, known.c.rename("d")]),
    ],
)
def test_a_result_has_no_category_that_stands_for_unknown_ones(compute):
    letters = pd.DataFrame({"k": range(6), "c": pd.Categorical(list("abcbca"))})
    on_gpu = to_gpu(dd.from_pandas(letters, npartitions=2))
    unknown = on_gpu.assign(c=on_gpu.c.cat.as_unknown())
    collection = compute(unknown, on_gpu)
    assert place_of(collection) == "gpu"
    result = collection.compute()
    assert isinstance(result, Frame | Series)
    values = result.c if result.ndim > 1 else result
    assert set(values.dtype.categories) == set("abc")
    assert values.astype(object).tolist() == list("abcbca") * 2
