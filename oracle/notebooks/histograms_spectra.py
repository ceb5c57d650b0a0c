# Histograms with xhistogram and spectra with xrft, after their tutorials
# needs: xarray, xhistogram, xrft

# %% imports and data
import dask.array as da
import numpy as np
import xarray as xr
import xrft
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
back = xrft.ifft(
    xrft.fft(data.isel(time=0), dim=["x", "y"], true_phase=True), dim=["freq_x", "freq_y"], true_phase=True
)
back.real.values
