"""Rows in the style of public pages: examples of Dask, benchmarks of Coiled, and those of H2O.

They compute what these pages compute, but were written anew, with sizes for a GPU, and smaller ones for the CPU:

- https://examples.dask.org/array.html, https://examples.dask.org/dataframe.html,
  https://examples.dask.org/applications/stencils-with-numba.html
- https://docs.dask.org/en/stable/array-gufunc.html, https://docs.dask.org/en/stable/dataframe-groupby.html
- https://github.com/coiled/benchmarks (``test_array.py``, ``test_dataframe.py``)
- https://h2oai.github.io/db-benchmark (group-by)
"""

from __future__ import annotations

from typing import Any

import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd

from . import row
from .frames import parquet


def _timeseries(large: bool) -> Any:
    """A row a second for half a year, or for five days."""
    end = "2000-07-01" if large else "2000-01-06"
    return dask.datasets.timeseries("2000-01-01", end, partition_freq="7d" if large else "1d", seed=1).to_backend()


@row("public: rows of y > 0, deviation of x by name")
def filtered_groups(large: bool) -> Any:
    df = _timeseries(large)
    return df[df.y > 0].groupby("name").x.std().compute()


@row("public: mean of hours")
def hours(large: bool) -> Any:
    return _timeseries(large)[["x", "y"]].resample("1h").mean().compute()


@row("public: rolling mean of 24 rows")
def rolling(large: bool) -> Any:
    return _timeseries(large)[["x", "y"]].rolling(24).mean().sum().compute()


@row("public: two frames aligned by their index")
def aligned(large: bool) -> Any:
    end = "2000-04" if large else "2000-01-04"
    first, second = (dask.datasets.timeseries("2000", end, seed=seed).to_backend()[["x", "y"]] for seed in (1, 2))
    return (first - second).mean().compute()


def _h2o(part: int, count: int) -> pd.DataFrame:
    random = np.random.default_rng(part)
    keys = {f"id{number}": random.integers(1, top + 1, count) for number, top in ((4, 100), (5, 100), (6, 100_000))}
    values = {"v1": random.integers(1, 6, count), "v2": random.integers(1, 16, count)}
    return pd.DataFrame({**keys, **values, "v3": random.uniform(0, 100, count).round(6)})


def _files_of_h2o(large: bool) -> str:
    return parquet(f"h2o-{large}", _h2o, 5_000_000 if large else 20_000)


def _of_h2o(large: bool) -> Any:
    return dd.read_parquet(_files_of_h2o(large))


@row("public: H2O 4, means by a key of 100", files=_files_of_h2o)
def h2o_4(large: bool) -> Any:
    return _of_h2o(large).groupby("id4").agg({"v1": "mean", "v2": "mean", "v3": "mean"}).compute()


@row("public: H2O 5, sums by a key of 100,000", files=_files_of_h2o)
def h2o_5(large: bool) -> Any:
    return _of_h2o(large).groupby("id6").agg({"v1": "sum", "v2": "sum", "v3": "sum"}).compute()


@row("public: H2O 6, deviation by two keys", files=_files_of_h2o)
def h2o_6(large: bool) -> Any:
    return _of_h2o(large).groupby(["id4", "id5"]).agg({"v3": "std"}).compute()


@row("public: sum of residuals")
def residuals(large: bool) -> Any:
    size = 60_000 if large else 2_000
    x = da.random.random((size, size), chunks=size // 20)
    return ((x - x.mean(axis=0)) ** 2).sum().compute()


@row("public: anomaly of months")
def anomaly(large: bool) -> Any:
    days, side = (1_460, 1_000) if large else (365, 60)
    x = da.random.random((days, side, side), chunks=(50, side, side))
    months = np.arange(days) // 30 % 12
    parts = [x[months == month] - x[months == month].mean(axis=0) for month in range(12)]
    return da.concatenate(parts).std().compute()


@row("public: double difference")
def double_difference(large: bool) -> Any:
    size = 40_000 if large else 2_000
    x, y = (da.random.random((size, size), chunks=(size // 10, size // 20)) for _ in range(2))
    return da.diff((x[1:] - y[:-1]).rechunk((size // 20, size // 10)), axis=1).max().compute()


def _smooth(x: Any) -> Any:
    near = x[:-2, :-2] + x[:-2, 1:-1] + x[:-2, 2:] + x[1:-1, :-2] + x[1:-1, 2:] + x[2:, :-2] + x[2:, 1:-1] + x[2:, 2:]
    result = x.copy()
    result[1:-1, 1:-1] = (near + x[1:-1, 1:-1]) / 9
    return result


@row("public: a stencil of nine neighbors")
def stencil(large: bool) -> Any:
    size = 40_000 if large else 2_000
    x = da.random.random((size, size), chunks=size // 10)
    return x.map_overlap(_smooth, depth=1, boundary="reflect", dtype=x.dtype).max(axis=1).sum().compute()


def _stats(x: Any) -> tuple[Any, Any]:
    return x.mean(axis=-1), x.std(axis=-1)


@row("public: a generalized function of rows")
def generalized(large: bool) -> Any:
    x = da.random.normal(10, 5, size=(100_000, 20_000) if large else (2_000, 500), chunks=(1_000, -1))
    mean, deviation = da.apply_gufunc(_stats, "(i)->(),()", x, output_dtypes=2 * (float,))
    return dask.compute(mean.sum(), deviation.sum())


@row("public: principal components")
def components(large: bool) -> Any:
    x = da.random.random((1_000_000, 500) if large else (20_000, 100), chunks=(20_000 if large else 2_000, -1))
    return da.linalg.svd_compressed(x - x.mean(axis=0), k=10, seed=1)[1].compute()
