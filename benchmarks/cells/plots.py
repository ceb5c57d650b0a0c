# %% setup
import dask
import dask.array as da
import dask.dataframe as dd
import matplotlib
import numpy as np
import pandas as pd

matplotlib.use("agg")
import matplotlib.pyplot as plt

plt.close("all")
df = dd.from_pandas(
    pd.DataFrame({"x": np.arange(12.0), "y": np.arange(12.0) ** 2, "name": ["a", "b", "c"] * 4}), npartitions=3
)

# %% a line of a Dask array
x = da.linspace(0, 3, 20, chunks=5)
(line,) = plt.plot(x, da.sin(x))
line.get_xdata(), line.get_ydata()

# %% points of a dataframe
points = plt.scatter(df.x.compute(), df.y.compute())
np.asarray(points.get_offsets())

# %% an image
picture = da.from_array(np.add.outer(np.arange(4.0), np.arange(5.0)), chunks=2)
image = plt.imshow(picture, vmin=0)
np.asarray(image.get_array()), image.get_clim()

# %% bars of groups
sums = df.groupby("name").y.sum().compute().sort_index()
bars = plt.bar(sums.index, sums)
[float(bar.get_height()) for bar in bars]

# %% a histogram of a column
counts, edges, _ = plt.hist(df.y.compute(), bins=4)
counts, edges

# %% pandas draws a result
axes = df[["x", "y"]].compute().plot(x="x")
axes.get_lines()[0].get_ydata()

# %% a result with error bars
means = df.groupby("name").y.mean().compute().sort_index()
stds = df.groupby("name").y.std().compute().sort_index()
line, _, _ = plt.errorbar(range(3), means, yerr=stds)
line.get_ydata()

# %% limits from results
x = da.arange(10, chunks=5)
plt.xlim(x.min().compute(), x.max().compute())
plt.gca().get_xlim()

# %% contours
z = da.from_array(np.hypot.outer(np.linspace(-1, 1, 8), np.linspace(-1, 1, 8)), chunks=4)
plt.contour(z.compute(), levels=[0.5, 1.0]).levels

# %% a title with a number
title = plt.title(f"mean {df.y.mean().compute():.1f} of {len(df)} rows")
title.get_text()

# %% a box plot of columns
boxes = plt.boxplot([df.x.compute(), df.y.compute()])
[float(median.get_ydata()[0]) for median in boxes["medians"]]

# %% a figure is saved
import io

plt.plot(da.arange(5, chunks=2).compute())
_file = io.BytesIO()
plt.savefig(_file)
_file.getvalue()[:4]

# %% a filled band
mean, std = da.arange(6.0, chunks=3), da.ones(6, chunks=3)
band = plt.fill_between(range(6), mean - std, mean + std)
band.get_paths()[0].vertices.max(axis=0)

# %% a mesh of colors
mesh = plt.pcolormesh(da.ones((3, 4), chunks=2) * da.arange(4, chunks=2))
np.asarray(mesh.get_array()).ravel()
