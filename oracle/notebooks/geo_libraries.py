# xhistogram, xrft, gcm-filters and xgcm, after their tutorials
# needs: xarray, xhistogram, xrft, gcm_filters, xgcm

# %% imports and data
import dask.array as da
import gcm_filters
import numpy as np
import xarray as xr
import xrft
from xgcm import Grid
from xhistogram.core import histogram as core_histogram
from xhistogram.xarray import histogram

rng = np.random.default_rng(4)
data = xr.DataArray(
    da.from_array(rng.normal(size=(100, 30, 40)), chunks=(25, 30, 40)),
    dims=["time", "x", "y"],
    name="foo",
    coords={"time": np.arange(100.0), "x": np.arange(30.0), "y": np.arange(40.0)},
)
bins = np.linspace(-4, 4, 20)

# %% histogram over all dimensions
h = histogram(data, bins=[bins])
h

# %% histogram over time
histogram(data, bins=[bins], dim=["time"]).mean(dim=("x", "y")).values

# %% two-dimensional histogram
other = xr.DataArray(da.from_array(rng.normal(size=(100, 30, 40)), chunks=(25, 30, 40)), dims=data.dims, name="bar")
joint = histogram(data, other, bins=[bins, bins])
joint.sum()

# %% weighted histogram
histogram(data, bins=[bins], weights=xr.ones_like(data) * 2, dim=["x", "y"]).isel(time=0)

# %% density
histogram(data, bins=[bins], density=True).compute()

# %% histogram of arrays
counts, edges = core_histogram(data.data, bins=bins, axis=(1, 2))
counts.sum(axis=1).compute()

# %% discrete Fourier transform
spectrum = xrft.dft(data.chunk(time=25), dim=["x", "y"], true_phase=False, true_amplitude=False)
np.abs(spectrum).mean("time")

# %% power spectrum with a window
ps = xrft.power_spectrum(data, dim=["x", "y"], window="hann", detrend="constant", window_correction=True)
ps.mean("time").values

# %% isotropic power spectrum
iso = xrft.isotropic_power_spectrum(data.isel(time=slice(0, 25)), dim=["x", "y"], detrend="constant", truncate=True)
iso.mean("time")

# %% cross spectrum
xrft.cross_spectrum(data, data * 2, dim=["x"], true_phase=True).real.mean(("time", "y"))

# %% detrend
xrft.detrend(data.chunk(x=-1, y=-1), ["x", "y"], detrend_type="linear").std()

# %% inverse transform
back = xrft.ifft(xrft.fft(data.isel(time=0), dim=["x", "y"], true_phase=True), dim=["freq_x", "freq_y"], true_phase=True)
back.real.values

# %% filter on a regular grid
filter_ = gcm_filters.Filter(
    filter_scale=4, dx_min=1, filter_shape=gcm_filters.FilterShape.GAUSSIAN, grid_type=gcm_filters.GridType.REGULAR
)
smooth = filter_.apply(data, dims=["x", "y"])
smooth.std()

# %% filter with a mask
mask = xr.ones_like(data.isel(time=0, drop=True)).where((data.x > 5) | (data.y > 5), 0)
with_mask = gcm_filters.Filter(
    filter_scale=4, dx_min=1, grid_type=gcm_filters.GridType.REGULAR_WITH_LAND, grid_vars={"wet_mask": mask}
)
with_mask.apply(data.where(mask == 1, 0), dims=["x", "y"]).isel(time=3).values

# %% grid of xgcm
ds = xr.Dataset(
    {"t": (("time", "xc"), data.mean("y").data)},
    coords={"xc": ("xc", np.arange(30) + 0.5), "xg": ("xg", np.arange(30.0)), "time": data.time.values},
)
grid = Grid(ds, coords={"X": {"center": "xc", "left": "xg"}}, padding="periodic", autoparse_metadata=False)
grid.interp(ds.t, "X")

# %% difference along an axis
gradient = grid.diff(ds.t, "X")
gradient.mean("time")

# %% cumulative sum along an axis
grid.cumsum(ds.t, "X", padding="fill", to="left").isel(time=0).values

# %% maximum of neighbours
float(grid.max(ds.t, "X").mean())

# %% vertical coordinate transform
profile = xr.Dataset(
    {"temp": (("x", "z"), da.from_array(np.sort(rng.uniform(0, 20, (12, 25)), axis=1)[:, ::-1].copy(), chunks=(4, 25)))},
    coords={"z": np.arange(25.0), "x": np.arange(12)},
)
vertical = Grid(profile, coords={"Z": {"center": "z"}}, padding="fill", autoparse_metadata=False)
vertical.transform(profile.temp, "Z", np.array([2.5, 7.5, 12.5]))

# %% transform to isotherms
depth = xr.zeros_like(profile.temp) + profile.z
vertical.transform(depth, "Z", np.array([5.0, 10.0]), target_data=profile.temp).compute()
