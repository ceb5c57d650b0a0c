# Air temperature with xarray and Dask, after xarray's tutorial
# needs: xarray, scipy

# %% imports and data
import numpy as np
import pandas as pd
import xarray as xr

rng = np.random.default_rng(0)
time = pd.date_range("2013-01-01", "2014-12-31", freq="D")
lat = np.linspace(75, 15, 13)
lon = np.linspace(200, 330, 27)
season = 10 * np.cos(2 * np.pi * time.dayofyear.values / 365.25)
air = 280 - season[:, None, None] + 0.3 * lat[None, :, None] + rng.normal(size=(730, 13, 27))
ds = xr.Dataset(
    {"air": (("time", "lat", "lon"), air, {"units": "K", "long_name": "air temperature"})},
    coords={"time": time, "lat": lat, "lon": lon},
)
ds.to_netcdf("air.nc")
ds.air.mean()

# %% open with chunks
ds = xr.open_dataset("air.nc", chunks={"time": 100})
ds.air

# %% mean over time
mean = ds.air.mean("time")
mean

# %% values of a mean
ds.air.mean(["lat", "lon"]).values

# %% compute
computed = ds.air.mean("time").compute()
computed

# %% load in place
loaded = ds.air.isel(time=slice(0, 50)).std("time")
loaded.load()

# %% select by label
point = ds.air.sel(lat=45, lon=260, method="nearest")
point

# %% select a range of times
january = ds.sel(time="2013-01")
january.air.max(("lat", "lon"))

# %% kelvin to celsius
celsius = ds.air - 273.15
celsius.attrs["units"] = "degC"
celsius.mean()

# %% anomaly of the zonal mean
anomaly = ds.air - ds.air.mean("lon")
anomaly.std(("time", "lon"))

# %% climatology by month
climatology = ds.air.groupby("time.month").mean()
climatology

# %% anomalies from the climatology
anomalies = ds.air.groupby("time.month") - ds.air.groupby("time.month").mean()
anomalies.mean("time").values

# %% seasonal means
seasonal = ds.air.groupby("time.season").mean("time")
seasonal.sel(season="DJF")

# %% resample to months
monthly = ds.air.resample(time="1MS").mean()
monthly

# %% resample with max
ds.air.resample(time="QS").max().compute()

# %% rolling mean
smooth = ds.air.rolling(time=7, center=True).mean()
smooth.isel(lat=3, lon=4)

# %% rolling with min_periods
ds.air.rolling(time=5, min_periods=1).max().isel(time=slice(0, 20)).values

# %% rolling construct
windows = ds.air.rolling(time=3).construct("window")
(windows * xr.DataArray([0.25, 0.5, 0.25], dims="window")).sum("window").isel(time=10)

# %% coarsen
coarse = ds.air.coarsen(lat=4, lon=9, boundary="trim").mean()
coarse

# %% coarsen and construct
ds.air.isel(time=slice(0, 728)).coarsen(time=7).construct(time=("week", "day")).mean("day")

# %% area weights
weights = np.cos(np.deg2rad(ds.lat))
weights.name = "weights"
global_mean = ds.air.weighted(weights).mean(("lat", "lon"))
global_mean

# %% weighted quantile and sum
ds.air.isel(time=0).weighted(weights).sum_of_weights(), ds.air.isel(time=0).weighted(weights).std()

# %% interpolate to new coordinates
ds.air.interp(lat=[20.0, 33.3, 47.5], lon=[211.0, 260.5])

# %% interpolate along time
ds.air.isel(lat=0, lon=0).interp(time=pd.date_range("2013-02-01T12", periods=10, freq="D"))

# %% where
warm = ds.air.where(ds.air > 285)
warm.count("time")

# %% where with drop
ds.air.mean("time").where(ds.lat > 45, drop=True).values

# %% fill missing values
masked = ds.air.where(ds.air < 300)
masked.fillna(0).sum(("lat", "lon"))

# %% interpolate missing values
gaps = ds.air.isel(lat=0, lon=0).where(ds.time.dt.day % 5 != 0)
gaps.chunk(time=-1).interpolate_na("time").sum()

# %% forward fill
gaps.chunk(time=50).ffill("time").values

# %% quantiles
ds.air.chunk(time=-1).quantile([0.1, 0.5, 0.9], dim="time")

# %% days above a threshold
hot = (ds.air > 290).groupby("time.year").sum("time")
hot

# %% cumulative sum
degree_days = (ds.air - 283).clip(min=0).cumsum("time")
degree_days.isel(time=-1)

# %% differences
ds.air.diff("time").isel(time=slice(0, 5)).mean(("lat", "lon")).values

# %% shift and lag correlation
lagged = ds.air.shift(time=1)
xr.corr(ds.air, lagged, dim="time")

# %% polynomial fit
fit = ds.air.mean(("lat", "lon")).polyfit("time", deg=1)
fit.polyfit_coefficients

# %% gradient
ds.air.mean("time").differentiate("lat")

# %% integrate
ds.air.isel(time=0).integrate("lon")

# %% argmax over time
warmest = ds.air.argmax("time")
warmest.values

# %% idxmax
ds.air.chunk(time=-1).idxmax("time")

# %% stack and unstack
stacked = ds.air.stack(space=("lat", "lon"))
stacked.mean("time").unstack("space")

# %% transpose and numpy function
np.sqrt(ds.air).transpose("lon", "lat", "time").mean("time")

# %% concatenate
both = xr.concat([ds.air.sel(time="2013"), ds.air.sel(time="2014")], dim="time")
both.equals(ds.air)

# %% merge with another variable
wind = xr.DataArray(rng.normal(size=(13, 27)), dims=("lat", "lon"), coords={"lat": lat, "lon": lon}, name="wind")
merged = xr.merge([ds.air.mean("time"), wind.chunk(lat=5)])
(merged.air * merged.wind).sum()

# %% group into bins
ds.air.groupby_bins("lat", [10, 30, 50, 80]).mean(...)

# %% to a Dask dataframe
frame = ds.isel(time=slice(0, 10)).to_dask_dataframe()
frame.groupby("lat").air.mean().compute()

# %% to pandas
series = ds.air.isel(lat=2, lon=3).to_series()
series.head()

# %% to zarr and back
ds.to_zarr("air.zarr", mode="w", consolidated=False)
again = xr.open_zarr("air.zarr", consolidated=False)
again.air.sum("time")

# %% save results to netCDF
ds.air.groupby("time.month").std().to_netcdf("std.nc")
xr.open_dataset("std.nc").air.values

# %% persist and use twice
persisted = ds.air.persist()
float(persisted.min()), float(persisted.max())

# %% scalar to float
difference = float(ds.air.sel(lat=75).mean() - ds.air.sel(lat=15).mean())
round(difference, 4)
