# Group-bys with flox, after its documentation
# needs: xarray, flox

# %% imports and data
import dask.array as da
import flox
import flox.xarray
import numpy as np
import pandas as pd
import xarray as xr

rng = np.random.default_rng(2)
oisst = xr.DataArray(
    da.from_array(rng.normal(20, 3, size=(400, 6, 8)), chunks=(50, 6, 8)),
    dims=("time", "lat", "lon"),
    coords={"time": pd.date_range("1981-09-01", periods=400, freq="3D")},
    name="sst",
)
day = oisst.time.dt.dayofyear.rename("day")

# %% groupby_reduce of an array
labels = rng.integers(0, 5, size=400)
result, groups = flox.groupby_reduce(oisst.data.T, labels, func="mean")
result

# %% groupby_reduce with a method
sums, *_ = flox.groupby_reduce(oisst.data.T, labels, func="sum", method="map-reduce")
sums.sum(axis=(0, 1)).compute()

# %% blockwise
blocks = np.repeat(np.arange(8), 50)
means, found = flox.groupby_reduce(oisst.data.T, blocks, func="max", method="blockwise")
means.compute()

# %% cohorts by month
flox.xarray.xarray_reduce(oisst, oisst.time.dt.month, func="mean", method="cohorts")

# %% map-reduce by month
monthly = flox.xarray.xarray_reduce(oisst, oisst.time.dt.month, func="mean", method="map-reduce")
monthly.values

# %% day of year
oisst.groupby("time.dayofyear").count()

# %% groupby mean of xarray with flox
with xr.set_options(use_flox=True):
    climatology = oisst.groupby("time.month").mean()
climatology

# %% standard deviation
oisst.groupby("time.month").std().compute()

# %% first and last
oisst.groupby("time.year").first(), oisst.groupby("time.year").last()

# %% resample
oisst.resample(time="ME").mean()

# %% resample and count
oisst.resample(time="10D").count().isel(lat=0, lon=0).values

# %% with missing values
holes = oisst.where(oisst > 18)
holes.groupby("time.season").mean()

# %% sum with min_count
holes.groupby("time.month").sum(min_count=3).compute()

# %% groupby bins
depth = xr.DataArray(rng.uniform(0, 100, size=(6, 8)), dims=("lat", "lon"), name="depth")
flox.xarray.xarray_reduce(
    oisst.mean("time"), depth, func="mean", expected_groups=pd.IntervalIndex.from_breaks([0, 25, 50, 100]), isbin=True
)

# %% two groupers
basin = xr.DataArray(np.array([0, 0, 1, 1, 2, 2, 2, 0]), dims="lon", name="basin")
flox.xarray.xarray_reduce(oisst, oisst.time.dt.month, basin, func="mean", expected_groups=(np.arange(1, 13), [0, 1, 2]))

# %% labels of Dask
codes = xr.DataArray(da.from_array(rng.integers(0, 4, (6, 8)), chunks=(3, 4)), dims=("lat", "lon"), name="codes")
flox.xarray.xarray_reduce(oisst.isel(time=0), codes, func="sum", expected_groups=([0, 1, 2, 3],))

# %% argmax
flox.xarray.xarray_reduce(oisst, labels_ := xr.DataArray(labels, dims="time", name="label"), func="argmax").compute()

# %% several statistics
stats = xr.Dataset({f: flox.xarray.xarray_reduce(oisst, labels_, func=f) for f in ("min", "max", "var")})
stats.mean(("lat", "lon")).to_dataframe()

# %% any and all
(oisst > 25).groupby("time.year").any(), (oisst > 5).groupby("time.year").all()

# %% median on one chunk
oisst.chunk(time=-1).groupby("time.month").median()

# %% quantile
oisst.chunk(time=-1).groupby("time.season").quantile(0.9)

# %% groupby anomalies
anomalies = oisst.groupby("time.month") - oisst.groupby("time.month").mean("time")
anomalies.mean("time")

# %% cumulative sum by group
oisst.groupby("time.year").cumsum("time").isel(time=-1).values

# %% grouper objects
from xarray.groupers import BinGrouper, TimeResampler

oisst.groupby(time=TimeResampler("3MS")).mean()

# %% bin grouper
ds = oisst.mean("time").to_dataset().assign(depth=depth)
ds.groupby(depth=BinGrouper(bins=[0, 30, 60, 100])).mean()

# %% custom aggregation
from flox import Aggregation

rms = Aggregation(
    "rms",
    chunk=("sum", "nanlen"),
    combine=("sum", "sum"),
    finalize=lambda total, count: total / count,
    fill_value=0,
    numpy=None,
)
flox.groupby_reduce(oisst.data.T, labels, func=rms)[0]

# %% scans
flox.groupby_scan(oisst.data.T, labels, func="cumsum")[..., -1].compute()
