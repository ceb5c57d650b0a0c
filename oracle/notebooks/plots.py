# What plots are made of: histograms, bins, curves, tables
# needs: matplotlib

# %% imports and data
import matplotlib

matplotlib.use("Agg")
import dask.array as da
import dask.dataframe as dd
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

rng = np.random.default_rng(15)
x = da.from_array(rng.normal(size=10_000), chunks=2500)
y = da.from_array(rng.exponential(size=10_000), chunks=2500)
df = dd.from_pandas(
    pd.DataFrame(
        {"g": rng.choice(list("abc"), 1200), "v": rng.normal(size=1200), "w": rng.integers(0, 50, 1200)},
        index=pd.date_range("2022-01-01", periods=1200, freq="h", name="t"),
    ),
    npartitions=4,
)

# %% histogram of Dask
h, edges = da.histogram(x, bins=30, range=(-4, 4))
plt.stairs(h.compute(), edges)
h

# %% histogram of NumPy given a Dask array
counts, edges2 = np.histogram(x, bins=20, range=(-3, 3))
counts

# %% plt.hist of an array
n, bins, _ = plt.hist(x.compute(), bins=15)
n

# %% plt.plot of lazy arrays
line = plt.plot(x[:100], y[:100])[0]
line.get_ydata().sum()

# %% histogram in two dimensions
h2, xe, ye = da.histogram2d(x, y, bins=[10, 12], range=[[-3, 3], [0, 5]])
h2.sum().compute()

# %% density
d, e = da.histogram(y, bins=np.linspace(0, 8, 33), density=True)
d.compute()

# %% weighted histogram
hw, _ = da.histogram(x, bins=[-2, -1, 0, 1, 2], weights=y)
hw.compute()

# %% histogram of a column
np.histogram(df.v.compute(), bins=10, range=(-3, 3))[0]

# %% histogram of a lazy column
da.histogram(df.v.to_dask_array(lengths=True), bins=8, range=(-2, 2))[0].compute()

# %% box plot statistics
q = df.v.compute().groupby(df.g.compute()).quantile([0.25, 0.5, 0.75]).unstack()
q

# %% bar chart
ax = df.groupby("g").w.mean().compute().plot.bar()
[p.get_height() for p in ax.containers[-1]]

# %% lines of several groups
pivoted = df.reset_index().compute().pivot_table(index="t", columns="g", values="v").resample("1D").mean()
pivoted.shape

# %% plot of a resampled series
daily = df.v.resample("1D").mean().compute()
daily.plot()
daily

# %% plot of a column without compute
df.w.sum().compute(), df.v.cumsum().compute().plot().lines[-1].get_ydata().shape

# %% scatter of a sample
sample = df.loc["2022-01-03"].compute()
plt.scatter(sample.v, sample.w).get_offsets().shape

# %% empirical distribution
s = np.sort(x.compute())
np.searchsorted(s, [-1, 0, 1]) / len(s)

# %% percentiles for a band
da.percentile(x, [5, 50, 95]).compute().shape

# %% binned means
which = da.digitize(x, np.linspace(-3, 3, 7))
sums = da.bincount(which, weights=y, minlength=8)
(sums / da.bincount(which, minlength=8)).compute()

# %% image
image = da.outer(da.sin(da.linspace(0, 3, 50, chunks=25)), da.cos(da.linspace(0, 3, 60, chunks=30)))
plt.imshow(image).get_array().shape

# %% contour levels
z = image.compute()
np.linspace(z.min(), z.max(), 5)

# %% mesh
xx, yy = da.meshgrid(da.linspace(-2, 2, 40, chunks=20), da.linspace(-1, 1, 30, chunks=15))
np.exp(-(xx**2) - yy**2).sum().compute()

# %% smoothed curve
da.map_overlap(lambda b: np.convolve(b, np.ones(5) / 5, mode="same"), x, depth=2, boundary=0).compute()[:10]

# %% error bars
stats = df.groupby("g").v.agg(["mean", "std", "count"]).compute().sort_index()
stats["std"] / np.sqrt(stats["count"])

# %% heat map of a table
hours = df.reset_index()
hours.assign(hour=hours.t.dt.hour).groupby(["g", "hour"]).w.sum().compute().unstack("g")

# %% stacked areas
table = df.groupby(["g", "w"]).size().compute().sort_index().unstack("g", fill_value=0)
table.cumsum().iloc[-1]

# %% top categories and the rest
vc = df.w.value_counts().compute()
vc.nlargest(3).sum(), vc.nsmallest(len(vc) - 3).sum()

# %% rows of a table
for g, mean in df.groupby("g").v.mean().compute().items():
    label = f"{g}: {mean:.3f}"
label

# %% min-max downsampling
pairs = x.reshape(-1, 100).rechunk((25, 100))
lows, highs = da.compute(pairs.min(axis=1), pairs.max(axis=1))
lows[:3], highs[:3]

# %% log bins
np.histogram(np.log10(y.compute() + 1e-9), bins=[-3, -2, -1, 0, 1])[0]

# %% complex spectrum in decibels
20 * np.log10(abs(da.fft.rfft(x[:1024].rechunk(-1))) + 1e-12)[:20].compute()
