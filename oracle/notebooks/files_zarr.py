# Arrays and datasets in files: Zarr, netCDF and HDF5, after tutorials of Xarray and Pangeo
# needs: h5netcdf, netCDF4, xarray, zarr

# %% imports and data
import dask
import dask.array as da
import h5py
import numpy as np
import pandas as pd
import xarray as xr
import zarr

rng = np.random.default_rng(21)
nt, ny, nx = 120, 18, 24
time = pd.date_range("2001-01-01", periods=nt, freq="D")
lat = np.linspace(-85, 85, ny)
lon = np.arange(0, 360, 15.0)
values = (15 + 10 * np.cos(np.deg2rad(lat))[None, :, None] + rng.normal(size=(nt, ny, nx))).astype("float32")
rain = rng.gamma(2, 2, size=(nt, ny, nx)).astype("float32")
rain[rng.random(rain.shape) < 0.1] = np.nan
ds = xr.Dataset(
    {"t2m": (("time", "lat", "lon"), values, {"units": "degC"}), "tp": (("time", "lat", "lon"), rain)},
    coords={"time": time, "lat": lat, "lon": lon},
    attrs={"title": "made up"},
)
chunks = {"chunks": (30, ny, nx)}
ds.to_zarr("era.zarr", mode="w", consolidated=True, encoding={"t2m": chunks, "tp": chunks})
ds.to_netcdf("era.nc", engine="netcdf4")
ds.to_netcdf("era5.nc", engine="h5netcdf")
zarr.create_array("plain.zarr", shape=values.shape, chunks=(30, 18, 24), dtype="float32", overwrite=True)[:] = values
ds

# %% open Zarr
era = xr.open_zarr("era.zarr", chunks={"time": 30})
era.t2m.mean("time")

# %% open Zarr with the chunks of the file
stored = xr.open_dataset("era.zarr", engine="zarr", chunks={})
stored.tp.sum("time")

# %% open netCDF4
nc = xr.open_dataset("era.nc", chunks={"time": 40}, engine="netcdf4")
nc.t2m.std(("lat", "lon")).values

# %% open with h5netcdf
h5 = xr.open_dataset("era5.nc", chunks={"time": 40}, engine="h5netcdf")
(h5.t2m - h5.t2m.mean("time")).isel(lat=3, lon=4)

# %% array of Zarr
x = da.from_zarr("plain.zarr")
x.mean(axis=0)

# %% array of Zarr with other chunks
rechunked = da.from_zarr("plain.zarr", chunks=(120, 6, 6))
(rechunked - rechunked.mean(axis=0)).std(axis=0).compute()

# %% array of HDF5
with h5py.File("plain.h5", "w") as file:
    file["data/t2m"] = values
source = h5py.File("plain.h5", "r")
hdf = da.from_array(source["data/t2m"], chunks=(30, 18, 24))
hdf.max(axis=(1, 2)).compute()

# %% write an array
((x - 273.15) * 2).to_zarr("scaled.zarr", overwrite=True)
zarr.open_array("scaled.zarr", mode="r")[:3]

# %% write into a region
target = zarr.open_array("scaled.zarr", mode="r+")
da.zeros((30, 18, 24), chunks=(30, 18, 24), dtype="float32").to_zarr(
    target, region=(slice(30, 60), slice(None), slice(None))
)
da.from_zarr("scaled.zarr").sum(axis=(1, 2)).compute()

# %% store two arrays
first = zarr.create_array("first.zarr", shape=(120, 18, 24), chunks=(30, 18, 24), dtype="float32", overwrite=True)
second = zarr.create_array("second.zarr", shape=(18, 24), chunks=(18, 24), dtype="float32", overwrite=True)
da.store([x**2, x.max(axis=0)], [first, second])
first[5], second[:]

# %% compression by blosc
packed = zarr.create_array(
    "packed.zarr",
    shape=x.shape,
    chunks=(30, 18, 24),
    dtype="float32",
    compressors=zarr.codecs.BloscCodec(cname="lz4"),
    overwrite=True,
)
da.store(x + 1, packed)
da.from_zarr(packed).mean().compute()

# %% shards
sharded = zarr.create_array(
    "sharded.zarr", shape=x.shape, chunks=(10, 9, 12), shards=(30, 18, 24), dtype="float32", overwrite=True
)
da.store(x, sharded)
da.from_zarr("sharded.zarr", chunks=(30, 18, 24)).min(axis=0)

# %% write a dataset
climate = xr.Dataset({"anomaly": era.t2m - era.t2m.mean("time"), "wet": era.tp > 4})
climate.to_zarr("climate.zarr", mode="w")
xr.open_zarr("climate.zarr").anomaly.std("time").values

# %% append along time
later = era.assign_coords(time=era.time + np.timedelta64(120, "D"))
era.to_zarr("long.zarr", mode="w")
later.to_zarr("long.zarr", append_dim="time")
longer = xr.open_zarr("long.zarr")
longer.t2m.resample(time="MS").mean().mean(("lat", "lon")).values

# %% write a region of a dataset
(era[["t2m"]].isel(time=slice(0, 30)) * 0).drop_vars(["time", "lat", "lon"]).to_zarr(
    "long.zarr", region={"time": slice(0, 30)}
)
xr.open_zarr("long.zarr").t2m.isel(time=slice(20, 40)).mean(("lat", "lon")).values

# %% the layout first, the blocks later
later_written = climate.to_zarr("lazy.zarr", mode="w", compute=False)
dask.compute(later_written)
xr.open_zarr("lazy.zarr").wet.mean().values

# %% encoding with scale and offset
era.t2m.to_dataset().to_zarr(
    "scaled_ints.zarr", mode="w", encoding={"t2m": {"dtype": "int16", "scale_factor": 0.01, "_FillValue": -9999}}
)
xr.open_zarr("scaled_ints.zarr").t2m.mean("time").values

# %% write netCDF
era.t2m.resample(time="MS").mean().to_netcdf("monthly.nc")
xr.open_dataset("monthly.nc").t2m.values

# %% write netCDF with compression
era[["tp"]].to_netcdf("small.nc", engine="h5netcdf", encoding={"tp": {"zlib": True, "complevel": 1}})
xr.open_dataset("small.nc", engine="h5netcdf", chunks={"time": 60}).tp.sum("time").values

# %% several files
months, parts = zip(*era.groupby("time.month"))
xr.save_mfdataset(parts, [f"month_{month}.nc" for month in months])
many = xr.open_mfdataset("month_*.nc", combine="by_coords")
many.t2m.mean(("lat", "lon")).values

# %% several files, opened by the workers
parallel = xr.open_mfdataset("month_*.nc", combine="by_coords", parallel=True, chunks={"time": 15})
(parallel.t2m.max("time") - parallel.t2m.min("time")).values


# %% preprocess
def warmest(part):
    return part[["t2m"]].isel(lat=slice(6, 12))


tropics = xr.open_mfdataset("month_*.nc", preprocess=warmest)
tropics.t2m.mean().values

# %% climatology from a file, written back
by_month = era.t2m.groupby("time.month")
anomaly = by_month - by_month.mean()
anomaly.rename("anomaly").to_dataset().to_zarr("anomaly.zarr", mode="w")
xr.open_zarr("anomaly.zarr").anomaly.groupby("time.month").mean().mean(("lat", "lon")).values

# %% rolling mean, written
smooth = era.t2m.rolling(time=7, center=True).mean()
smooth.chunk(time=30).drop_encoding().rename("smooth").to_dataset().to_zarr("smooth.zarr", mode="w")
xr.open_zarr("smooth.zarr").smooth.isel(time=slice(2, 6)).mean(("lat", "lon")).values

# %% coarsen and write
era.coarsen(lat=2, lon=2).mean().drop_encoding().to_zarr("coarse.zarr", mode="w")
xr.open_zarr("coarse.zarr").tp.mean("time").values

# %% rechunk through a file
era.t2m.chunk(time=-1, lat=6, lon=6).drop_encoding().to_dataset().to_zarr("series.zarr", mode="w")
series = xr.open_zarr("series.zarr").t2m
series.quantile(0.9, "time").values

# %% groups in one store
era[["t2m"]].to_zarr("tree.zarr", group="surface", mode="w")
era[["tp"]].to_zarr("tree.zarr", group="rain", mode="a")
xr.open_zarr("tree.zarr", group="rain").tp.max().values, xr.open_zarr("tree.zarr", group="surface").t2m.max().values

# %% datatree
tree = xr.open_datatree("tree.zarr", engine="zarr", chunks={})
tree["surface"]["t2m"].mean("lat").values

# %% select, then load
box = era.sel(lat=slice(-30, 30), time="2001-02").load()
box.t2m.mean().values

# %% fsspec mapper
import fsspec

mapped = xr.open_zarr(fsspec.get_mapper("era.zarr"), chunks={"time": 60})
mapped.tp.median("time").values

# %% intermediate file of NumPy
da.to_npy_stack("stack", x, axis=0)
da.from_npy_stack("stack").mean(axis=(0, 2)).compute()

# %% dataframe of a dataset
era.t2m.isel(lat=4).to_dataframe().groupby("lon").t2m.mean()

# %% quantiles by month of a file
monthly = stored.t2m.groupby("time.month").quantile(0.5)
monthly.mean(("lat", "lon")).values

# %% weighted mean of a file
weighted = stored.t2m.weighted(np.cos(np.deg2rad(stored.lat))).mean(("lat", "lon"))
weighted.resample(time="MS").max().values

# %% a function of blocks on a file
xr.apply_ufunc(np.square, stored.t2m, dask="parallelized", output_dtypes=["float32"]).mean("time").values

# %% interpolation of a file
stored.t2m.chunk(time=40, lat=-1, lon=-1).interp(lat=[-10.0, 0.0, 10.0]).mean("lon").values

# %% blocks of a dataset
stored.map_blocks(lambda part: part - part.mean(("lat", "lon")), template=stored).tp.sum().values

# %% polynomial of a file
stored.t2m.mean(("lat", "lon")).polyfit("time", 1).polyfit_coefficients.values
