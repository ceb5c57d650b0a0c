# apply_ufunc and map_blocks, after xarray's pages on Dask
# needs: xarray, scipy

# %% imports and data
import numpy as np
import pandas as pd
import scipy.signal
import scipy.stats
import xarray as xr

rng = np.random.default_rng(1)
da_ = xr.DataArray(
    rng.normal(size=(120, 8, 10)).cumsum(0),
    dims=("time", "y", "x"),
    coords={"time": pd.date_range("2000-01-01", periods=120, freq="MS"), "y": np.arange(8.0), "x": np.arange(10.0)},
    name="sla",
).chunk(time=40, y=4)
da_

# %% apply_ufunc with a NumPy function, allowed
squared = xr.apply_ufunc(np.square, da_, dask="allowed")
squared.sum()


# %% apply_ufunc with a function of Dask, allowed
def magnitude(a, b):
    return (a**2 + b**2) ** 0.5


xr.apply_ufunc(magnitude, da_, da_ + 1, dask="allowed").mean("time")


# %% apply_ufunc parallelized
def demean(x):
    return x - x.mean(axis=-1, keepdims=True)


result = xr.apply_ufunc(
    demean,
    da_.chunk(time=-1),
    input_core_dims=[["time"]],
    output_core_dims=[["time"]],
    dask="parallelized",
    output_dtypes=[float],
)
result

# %% apply_ufunc parallelized with SciPy
detrended = xr.apply_ufunc(
    scipy.signal.detrend,
    da_.chunk(time=-1),
    kwargs={"axis": -1},
    input_core_dims=[["time"]],
    output_core_dims=[["time"]],
    dask="parallelized",
    output_dtypes=["float64"],
)
detrended.std("time")


# %% apply_ufunc vectorized
def slope(y):
    x = np.arange(len(y))
    return np.polyfit(x, y, 1)[0]


trend = xr.apply_ufunc(
    slope, da_.chunk(time=-1), input_core_dims=[["time"]], vectorize=True, dask="parallelized", output_dtypes=[float]
)
trend


# %% vectorized with two outputs
def regress(x, y):
    fit = scipy.stats.linregress(x, y)
    return fit.slope, fit.rvalue


index = da_.mean(("y", "x")).compute()
slopes, correlations = xr.apply_ufunc(
    regress,
    index,
    da_.chunk(time=-1),
    input_core_dims=[["time"], ["time"]],
    output_core_dims=[[], []],
    vectorize=True,
    dask="parallelized",
    output_dtypes=[float, float],
)
slopes.values, correlations.values


# %% new dimension with output sizes
def spectrum(x):
    return np.abs(np.fft.rfft(x, axis=-1))


power = xr.apply_ufunc(
    spectrum,
    da_.chunk(time=-1),
    input_core_dims=[["time"]],
    output_core_dims=[["freq"]],
    dask="parallelized",
    dask_gufunc_kwargs={"output_sizes": {"freq": 61}},
    output_dtypes=[float],
)
power.mean(("y", "x"))


# %% interpolation of each column
def interp_column(values, old, new):
    return np.interp(new, old, values)


new_y = np.linspace(0, 7, 15)
xr.apply_ufunc(
    interp_column,
    da_.chunk(y=-1),
    da_.y,
    new_y,
    input_core_dims=[["y"], ["y"], ["y_new"]],
    output_core_dims=[["y_new"]],
    exclude_dims={"y"},
    vectorize=True,
    dask="parallelized",
    output_dtypes=[float],
).assign_coords(y_new=new_y)

# %% percentile of scores
xr.apply_ufunc(
    scipy.stats.rankdata,
    da_.chunk(time=-1).isel(y=0),
    input_core_dims=[["time"]],
    output_core_dims=[["time"]],
    vectorize=True,
    dask="parallelized",
    output_dtypes=[float],
).max()


# %% map_blocks
def double(block):
    return block * 2


xr.map_blocks(double, da_)


# %% map_blocks with a template
def time_mean(block):
    return block.mean("time")


whole = da_.chunk(time=-1)
xr.map_blocks(time_mean, whole, template=whole.mean("time"))


# %% map_blocks with groupby
def calculate_anomaly(da, groupby_type="time.month"):
    gb = da.groupby(groupby_type)
    return gb - gb.mean(dim="time")


month = whole.groupby("time.month") - whole.groupby("time.month").mean("time")
whole.map_blocks(calculate_anomaly, template=month.chunk(time=-1)).std("time").values


# %% map_blocks with an argument of xarray
def add_mean(block, mean):
    return block + mean


whole.map_blocks(add_mean, args=[whole.mean("time")], template=whole).isel(time=0)

# %% map_blocks of a dataset
ds = xr.Dataset({"a": da_, "b": da_ * 3})


def ratio(block):
    return block.assign(c=block.a / block.b)


ds.map_blocks(ratio).c.mean()

# %% DataArray.map over variables
ds.map(lambda v: v.clip(min=0)).b.sum("time")

# %% reduce with a function
da_.reduce(np.nanmax, dim="time")

# %% reduce with SciPy
whole.reduce(scipy.stats.skew, dim="time")

# %% data of Dask
array = da_.data
array.map_blocks(lambda b: b - b.mean(axis=0)).mean(axis=(1, 2)).compute()

# %% copy with new data
da_.copy(data=da_.data.rechunk((120, 4, 10)) ** 2).mean("time")

# %% dot
pattern = xr.DataArray(rng.normal(size=(8, 10)), dims=("y", "x"), coords={"y": da_.y, "x": da_.x})
projection = xr.dot(da_, pattern, dim=["y", "x"])
projection

# %% covariance
xr.cov(da_, index, dim="time").values

# %% ones like and full like
(xr.ones_like(da_) + xr.full_like(da_, 2)).sum()

# %% where of two
xr.where(da_ > 0, da_, -da_).mean("time")

# %% universal functions with attributes
with xr.set_options(keep_attrs=True):
    logs = np.log1p(np.abs(da_))
logs.sum()

# %% sort
da_.isel(x=0, y=0).compute().sortby(da_.time, ascending=False)

# %% rank on one chunk
whole.isel(y=0, x=slice(0, 3)).compute().rank("time")

# %% pad
da_.pad(x=2, mode="edge").mean("time")

# %% roll
da_.roll(x=3, roll_coords=True).isel(time=5).values

# %% isin and unique
classes = (da_ // 2).astype("int64")
classes.isin([0, 1]).sum()

# %% group by an array of labels
labels = xr.DataArray(np.arange(10) % 3, dims="x", name="basin")
da_.groupby(labels).mean()

# %% loop over chunks of time
totals = []
for year, block in da_.groupby("time.year"):
    totals.append(float(block.sum()))
totals

# %% iterate and print
for name in ds.data_vars:
    print(name, ds[name].mean().values)
last = float(ds[name].isel(time=-1).max())
last
