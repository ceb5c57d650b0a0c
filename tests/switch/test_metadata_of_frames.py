"""Metadata of dataframes by functions of the user is inferred on the host. Here cuDF is a subclass of pandas."""

import dask.dataframe as dd
import pandas as pd
import pytest
from cudf_stand_in import FRAME, Frame, Series

from jupyter_gpudask.fallback.functions import names_gpu_library
from jupyter_gpudask.inspection.placement import place_of, to_gpu

pytestmark = pytest.mark.usefixtures("cudf_stand_in")

NUMBERS = FRAME[["k", "x"]].assign(x=range(10))


@pytest.fixture
def on_gpu():
    """Numbers on a stand-in for a GPU."""
    return to_gpu(dd.from_pandas(NUMBERS, npartitions=3))


def grouped(function):
    def of_two(first, _):
        return function(first)

    return dd.Aggregation(
        "mine",
        lambda group: (function(group.sum()), function(group.sum())),
        lambda a, b: (function(a.sum()), function(b.sum())),
        of_two,
    )


@pytest.mark.parametrize(
    "compute",
    [
        lambda frame, f: frame.groupby("k").agg(grouped(f)),
        lambda frame, f: frame.groupby("k").x.agg(grouped(f)),
        lambda frame, f: frame.groupby("k").agg({"x": [grouped(f), "max"]})["x"]["mine"],
        lambda frame, f: frame.groupby("k").agg({"x": grouped(f)}, split_out=2),
        lambda frame, f: frame.groupby(frame.k > 2).agg({"x": grouped(f)}),
        lambda frame, f: frame.reduction(lambda part: f(part.sum()), aggregate=lambda parts: f(parts.sum())),
        lambda frame, f: frame.x.reduction(f, aggregate=lambda parts: f(parts.sum()), combine=f),
    ],
)
def test_a_function_is_called_with_metadata_of_pandas_only(on_gpu, compute):
    def function(data):
        if not is_computing:
            seen.add(type(data))
        return data * 1

    is_computing, seen = [], set()
    plain = compute(dd.from_pandas(NUMBERS, npartitions=3), function)
    seen.clear()
    result = compute(on_gpu, function)
    result.optimize()
    assert place_of(result) == "gpu"
    assert seen
    assert not seen & {Frame, Series}
    is_computing.append(True)
    computed, expected = (as_pandas(each.compute()) for each in (result, plain))
    assert computed.to_dict() == expected.to_dict()


def test_a_function_of_windows_is_not_called_with_metadata_on_the_gpu(on_gpu, monkeypatch):
    monkeypatch.setattr(Series, "rolling", None)
    monkeypatch.setattr(Series, "resample", None)
    assert place_of(on_gpu.x.rolling(2).apply(lambda window: window.sum())) == "gpu"
    frame = dd.from_pandas(NUMBERS.set_index(pd.date_range("2024", periods=10)), npartitions=2)
    on_gpu = to_gpu(frame)
    assert place_of(on_gpu.x.resample("2D").agg(lambda window: window.sum())) == "gpu"


def test_a_function_for_dataframes_of_gpus_only_gets_them(on_gpu):
    def function(data):
        return data.to_pandas().sum()

    result = on_gpu.x.reduction(function, aggregate=lambda sums: sums.sum(), meta=1)
    assert result.compute() == 45


def as_pandas(result):
    return pd.DataFrame(result).sort_index()


def test_the_functions_of_an_aggregation_are_inspected():
    def chunk(groups):
        import cudf

        return cudf.Series(groups.sum())

    functions = [lambda groups: groups.sum(), lambda sums: sums.sum()]
    assert not names_gpu_library(dd.Aggregation("plain", *functions))
    assert names_gpu_library({"x": [dd.Aggregation("for GPUs", chunk, functions[1])]})


def test_the_metadata_of_a_merge_is_computed_once(monkeypatch):
    merged = []
    merge = pd.DataFrame.merge
    monkeypatch.setattr(pd.DataFrame, "merge", lambda *args, **kwargs: [merged.append(1), merge(*args, **kwargs)][1])

    def join(frame):
        other = dd.from_pandas(frame.rename(columns={"x": "once"}), npartitions=1)
        joined = dd.from_pandas(frame, npartitions=2).merge(other, on="k", how="left").merge(other, on="k")
        return joined[joined.x > 1].once_x.sum()

    frame = NUMBERS.assign(k=NUMBERS.k.astype("int16"))
    join(frame).optimize()
    assert 2 <= len(merged) <= 6
    merged.clear()
    join(frame).optimize()
    assert not merged
    different = join(frame.assign(x=frame.x.astype("float32")))
    assert merged
    assert different.compute() == join(frame).compute()
    meta = dd.from_pandas(frame, npartitions=1).merge(dd.from_pandas(frame, npartitions=1), on="k")._meta
    meta["new"] = 1
    assert "new" not in dd.from_pandas(frame, npartitions=1).merge(dd.from_pandas(frame, npartitions=1), on="k").columns
