"""Reductions of groups by flox run on the GPU, with the results of the CPU."""

import dask
import dask.array as da
import device
import numpy as np
import pandas as pd
import pytest

from jupyter_gpudask.fallback import groups

xr = pytest.importorskip("xarray")
pytest.importorskip("flox")

pytestmark = [*device.MARKS, pytest.mark.filterwarnings("ignore::RuntimeWarning")]

TIMES = pd.date_range("2001-01-01", periods=400)
VALUES = np.random.default_rng(0).normal(280, 9, (400, 24, 30))
VALUES[np.random.default_rng(1).random(VALUES.shape) < 0.1] = np.nan
VALUES[:60, 3, 4] = np.nan
_OF_NUMPY = {
    "sum": np.add,
    "nansum": np.add,
    "max": np.maximum,
    "nanmax": np.fmax,
    "min": np.minimum,
    "nanmin": np.fmin,
}


def loop_of_numpy(name, rows, labels, size, dtype):
    """As the kernels, for the stand-in."""
    rows, step = rows.get(), _OF_NUMPY.get(name, np.add)
    if name == "nanlen":
        rows, dtype = rows == rows, np.dtype("i8")  # noqa: PLR0124
    elif name == "nansum":
        rows = np.nan_to_num(rows)
    out = np.full((size, len(rows)), groups._identity(name, dtype), dtype)
    for place, label in enumerate(labels):
        if label >= 0:
            out[label] = step(out[label], rows[:, place])
    return device.cupy.asarray(out)


@pytest.fixture(autouse=True)
def kernels(monkeypatch):
    if not device.HAS_GPU:
        monkeypatch.setattr(groups, "_loop", loop_of_numpy)


def data(dtype="f4", chunks=(90, 24, 30)):
    values = VALUES if np.dtype(dtype).kind == "f" else np.nan_to_num(VALUES)
    return xr.DataArray(da.from_array(values.astype(dtype), chunks=chunks), {"time": TIMES}, ("time", "lat", "lon"))


def long(dtype="f4"):
    """More times than Dask makes quantiles of by itself."""
    values = np.concatenate([VALUES[:, :6, :5]] * 3).astype(dtype)
    return xr.DataArray(da.from_array(values, chunks=(500, 6, 5)), dims=("time", "lat", "lon"))


def anomaly(x):
    grouped = x.groupby("time.dayofyear")
    return grouped - grouped.mean()


LABELS = pd.Index(list("abca") * 100)
REDUCED = {
    "climatology": lambda: data().groupby("time.dayofyear").mean(),
    "anomaly": lambda: anomaly(data()),
    **{f"{name} by month": lambda name=name: getattr(data().groupby("time.month"), name)() for name in ("sum", "max")},
    "count by month": lambda: data().groupby("time.month").count(),
    "mean by month, with NaN": lambda: data("f8").groupby("time.month").mean(skipna=False),
    "minimum by month, with NaN": lambda: data().groupby("time.month").min(skipna=False),
    "integers": lambda: data("i2").groupby("time.month").mean(),
    "seasons": lambda: data().groupby("time.season").mean(),
    "labels": lambda: data().assign_coords(k=("time", LABELS)).groupby("k").max(),
    "resampled mean": lambda: data().resample(time="MS").mean(),
    "resampled maximum": lambda: data().resample(time="10D").max(),
    "quantile by month": lambda: data(chunks=(-1, 24, 30)).groupby("time.month").quantile(0.9),
    "median by month, with NaN": lambda: data(chunks=(-1, 24, 30)).groupby("time.month").median(skipna=False),
    "months without days": lambda: data()[:100].groupby("time.month").max(),
    "quantile": lambda: long().quantile(0.95, "time"),
    "quantiles": lambda: long(dtype="f8").quantile([0.1, 0.9], "time"),
    "median": lambda: long().median("time"),
}


@pytest.mark.parametrize("name", REDUCED)
def test_groups_are_reduced_on_the_gpu_with_the_results_of_the_cpu(cell, name):
    expected = REDUCED[name]().to_numpy()
    log = cell()
    found = dask.compute(REDUCED[name]().data)[0]
    assert isinstance(found, device.cupy.ndarray)
    assert found.dtype == expected.dtype
    np.testing.assert_allclose(device.cupy.asnumpy(found), expected, rtol=1e-5, atol=1e-4)
    assert log() == {}


ON_HOST = {
    "standard deviation": lambda: data().groupby("time.month").std(),
    "two quantiles": lambda: data(chunks=(-1, 24, 30)).groupby("time.month").quantile([0.1, 0.9]),
    "one row": lambda: data()[:, 0, 0].groupby("time.month").mean(),
}


@pytest.mark.parametrize("name", ON_HOST)
def test_other_reductions_of_groups_are_those_of_flox(cell, name):
    expected = ON_HOST[name]().to_numpy()
    log = cell()
    found = dask.compute(ON_HOST[name]().data)[0]
    np.testing.assert_allclose(device.cupy.asnumpy(found), expected, rtol=1e-5, atol=1e-4)
    assert log()
