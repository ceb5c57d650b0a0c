# Filters with gcm-filters and grids with xgcm, after their tutorials
# needs: xarray, gcm_filters, xgcm

# %% imports and data
import dask.array as da
import gcm_filters
import numpy as np
import xarray as xr
from xgcm import Grid

rng = np.random.default_rng(4)
data = xr.DataArray(
    da.from_array(rng.normal(size=(100, 30, 40)), chunks=(25, 30, 40)),
    dims=["time", "x", "y"],
    name="foo",
    coords={"time": np.arange(100.0), "x": np.arange(30.0), "y": np.arange(40.0)},
)

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
    {
        "temp": (
            ("x", "z"),
            da.from_array(np.sort(rng.uniform(0, 20, (12, 25)), axis=1)[:, ::-1].copy(), chunks=(4, 25)),
        )
    },
    coords={"z": np.arange(25.0), "x": np.arange(12)},
)
vertical = Grid(profile, coords={"Z": {"center": "z"}}, padding="fill", autoparse_metadata=False)
vertical.transform(profile.temp, "Z", np.array([2.5, 7.5, 12.5]))

# %% transform to isotherms
depth = xr.zeros_like(profile.temp) + profile.z
vertical.transform(depth, "Z", np.array([5.0, 10.0]), target_data=profile.temp).compute()
