# Climate and ocean diagnostics: EOFs, trends, spectra, indices
# needs: xarray, scipy

# %% imports and data
import dask
import dask.array as da
import numpy as np
import pandas as pd
import scipy.signal
import xarray as xr

rng = np.random.default_rng(3)
nt, ny, nx = 240, 18, 36
time = pd.date_range("1990-01-01", periods=nt, freq="MS")
lat = np.linspace(-85, 85, ny)
lon = np.arange(0, 360, 10.0)
t = np.arange(nt)
field = (
    15 * np.cos(np.deg2rad(lat))[None, :, None]
    + 3 * np.sin(2 * np.pi * t / 12)[:, None, None]
    + 0.002 * t[:, None, None]
    + rng.normal(size=(nt, ny, nx))
)
sst = xr.DataArray(field, dims=("time", "lat", "lon"), coords={"time": time, "lat": lat, "lon": lon}, name="sst").chunk(
    time=60
)
sst

# %% monthly climatology and anomalies
clim = sst.groupby("time.month").mean("time")
anom = sst.groupby("time.month") - clim
anom.std("time")


# %% standardized anomalies
def standardize(x):
    return (x - x.mean("time")) / x.std("time")


standardized = sst.groupby("time.month").map(standardize)
standardized.isel(lat=4, lon=5).values

# %% Nino index
w = np.cos(np.deg2rad(sst.lat))
nino = anom.sel(lat=slice(-15, 15), lon=slice(190, 240)).weighted(w).mean(("lat", "lon"))
nino.rolling(time=3, center=True).mean()

# %% zonal mean
zonal = sst.mean(("time", "lon"))
zonal.values

# %% meridional section
section = sst.sel(lon=180).groupby("time.season").mean()
section.transpose("season", "lat")

# %% Hovmoller
hovmoller = sst.sel(lat=slice(-10, 10)).mean("lat") - sst.sel(lat=slice(-10, 10)).mean(("lat", "lon"))
hovmoller.sel(time="1995").values

# %% annual means
annual = sst.resample(time="YS").mean()
annual.mean(("lat", "lon")).to_series()

# %% trend by polyfit
trend = annual.assign_coords(time=annual.time.dt.year).polyfit("time", 1)
trend.polyfit_coefficients.sel(degree=1).mean()

# %% detrend by polyval
fit = sst.polyfit("time", deg=1)
detrended = sst - xr.polyval(sst.time, fit.polyfit_coefficients)
detrended.mean("time").values.round(3)

# %% EOF by SVD
weighted = (anom * np.sqrt(w)).stack(space=("lat", "lon")).transpose("time", "space")
matrix = weighted.data.rechunk((60, -1))
u, s, v = da.linalg.svd(matrix)
u, v = u[:, : nt - 12], v[: nt - 12]  # the last are not determined: without the means of the months, s is 0
variance = (s**2 / (s**2).sum()).compute()
variance[:5].round(5)

# %% leading pattern
pc1 = (u[:, 0] * s[0]).compute()
np.abs(pc1).round(2)

# %% covariance matrix and eigenvalues
cov = (matrix.T @ matrix / (nt - 1)).compute()
np.linalg.eigvalsh(cov)[-3:].round(3)

# %% compressed SVD tags=["random"]
u2, s2, v2 = da.linalg.svd_compressed(matrix, k=3, n_power_iter=4, seed=1)
s2.compute().round(1)

# %% correlation map
index = nino.compute()
correlation = xr.corr(anom, index, dim="time")
correlation

# %% regression map
regression = (anom * index).mean("time") / (index**2).mean()
regression.max()

# %% composites
el_nino = anom.where(index > index.std(), drop=True).mean("time")
la_nina = anom.where(index < -index.std(), drop=True).mean("time")
(el_nino - la_nina).values

# %% power spectrum
x = sst.mean(("lat", "lon")).data.rechunk(-1)
power = np.abs(da.fft.rfft(x - x.mean())) ** 2
power.compute()[:20]

# %% Welch spectrum of SciPy
f, pxx = scipy.signal.welch(sst.mean(("lat", "lon")).values, nperseg=64)
pxx

# %% two-dimensional spectrum
spectrum = da.fft.fft2(anom.data.rechunk((60, -1, -1)), axes=(1, 2))
np.abs(spectrum).mean(axis=0).compute()

# %% Butterworth filter on blocks
b, a = scipy.signal.butter(3, 0.2)
filtered = da.map_blocks(
    lambda block: scipy.signal.filtfilt(b, a, block, axis=0), anom.data.rechunk((-1, 9, 12)), dtype="float64"
)
filtered.std(axis=0).mean().compute()

# %% regridding by a matrix
old, new = lat, np.linspace(-80, 80, 9)
weights = np.maximum(0, 1 - np.abs(new[:, None] - old[None, :]) / 20)
weights /= weights.sum(axis=1, keepdims=True)
regridded = da.tensordot(sst.data, weights, axes=([1], [1]))
regridded.mean(axis=0).compute()

# %% regridding by einsum
da.einsum("tyx,Yy->tYx", sst.data, da.from_array(weights, chunks=(3, 18))).sum().compute()

# %% geostrophic velocities by gradient
f0 = 2 * 7.2921e-5 * np.sin(np.deg2rad(sst.lat))
dy = 111e3 * 10
ssh = sst.isel(time=0) * 0.01
u_g = -9.81 / f0 * ssh.differentiate("lat") / 111e3
u_g.values

# %% vorticity with np.gradient
uu = da.from_array(rng.normal(size=(64, 80)), chunks=(32, 40))
vv = da.from_array(rng.normal(size=(64, 80)), chunks=(32, 40))
vorticity = da.gradient(vv, axis=1) - da.gradient(uu, axis=0)
vorticity.std().compute()


# %% Laplacian with map_overlap
def laplacian(a):
    return np.roll(a, 1, 0) + np.roll(a, -1, 0) + np.roll(a, 1, 1) + np.roll(a, -1, 1) - 4 * a


uu.map_overlap(laplacian, depth=1, boundary="periodic").compute()

# %% NDVI of bands
red = da.from_array(rng.integers(0, 4000, (300, 300), dtype="uint16"), chunks=(100, 100))
nir = da.from_array(rng.integers(0, 6000, (300, 300), dtype="uint16"), chunks=(100, 100))
ndvi = (nir.astype("f4") - red) / (nir.astype("f4") + red)
ndvi.mean().compute()

# %% NDVI with integers that wrap
wrapped = nir - red
wrapped.max().compute()

# %% NDVI as a mask
vegetation = xr.DataArray(ndvi, dims=("y", "x")).where(ndvi > 0.3)
int(vegetation.count()), float(vegetation.mean())

# %% cloud mask with bits
qa = da.from_array(rng.integers(0, 2**12, (300, 300), dtype="uint16"), chunks=(100, 100))
cloud = ((qa >> 3) & 1).astype(bool) | ((qa & (1 << 4)) != 0)
da.where(cloud, np.nan, ndvi)[::50, ::50].compute()

# %% median composite
scenes = da.stack([ndvi, ndvi * 0.9, ndvi + 0.05]).rechunk((3, 100, 100))
da.nanmedian(scenes[:, :60, :60], axis=0).mean().compute()

# %% classify with digitize
classes = da.digitize(ndvi, bins=[-0.5, 0, 0.3, 0.6])
da.bincount(classes.ravel(), minlength=5).compute()

# %% zonal statistics
zones = np.repeat(np.arange(9).reshape(3, 3), 100, axis=0).repeat(100, axis=1)
xr.DataArray(ndvi, dims=("y", "x")).groupby(xr.DataArray(zones, dims=("y", "x"), name="zone")).mean()


# %% hillshade
def hillshade(z, azimuth=315.0, altitude=45.0):
    gy, gx = np.gradient(z)
    slope = np.pi / 2 - np.arctan(np.hypot(gx, gy))
    aspect = np.arctan2(-gx, gy)
    az, alt = np.deg2rad(azimuth), np.deg2rad(altitude)
    return np.sin(alt) * np.sin(slope) + np.cos(alt) * np.cos(slope) * np.cos(az - np.pi / 2 - aspect)


dem = da.from_array(rng.normal(size=(120, 120)).cumsum(0).cumsum(1), chunks=(60, 60))
shade = dem.map_overlap(hillshade, depth=1, boundary="nearest", dtype=float)
shade.mean().compute()

# %% heat waves: runs of hot days
temps = sst.mean(("lat", "lon"))
hot = temps > temps.quantile(0.8)
runs = hot.cumsum() - hot.cumsum().where(~hot).ffill("time").fillna(0)
int(runs.max())

# %% exceedance of percentiles
threshold = sst.chunk(time=-1).quantile(0.95, "time")
(sst > threshold).sum("time").values

# %% haversine distances
la, lo = (
    np.deg2rad(da.from_array(rng.uniform(-90, 90, 1000), chunks=250)),
    np.deg2rad(da.from_array(rng.uniform(-180, 180, 1000), chunks=250)),
)
chord = da.sin((la - 0.5) / 2) ** 2 + da.cos(la) * np.cos(0.5) * da.sin((lo - 1.0) / 2) ** 2
(2 * 6371 * da.arcsin(da.sqrt(chord))).min().compute()

# %% ensemble mean and spread
members = xr.concat([sst + i for i in range(4)], dim="member")
members.mean("member").mean(), members.std("member").mean()

# %% compute several at once
lo_, hi_ = dask.compute(sst.min(), sst.max())
hi_ - lo_
