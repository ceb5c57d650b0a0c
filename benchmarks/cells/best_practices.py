# %% setup
import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd

# %% compute once
x = da.arange(100, chunks=10)
low, high, mean = dask.compute(x.min(), x.max(), x.mean())
low, high, mean

# %% persist what is used again
x = (da.ones((100, 100), chunks=50) * 2).persist()
x.sum().compute(), x.mean().compute()

# %% rechunk before the computation
x = da.ones((100, 100), chunks=(10, 100)).rechunk((100, 10))
x.sum(axis=0).compute()

# %% load data in the tasks
def load(number):
    return np.full((5, 5), number, dtype=float)


blocks = [da.from_delayed(dask.delayed(load)(n), shape=(5, 5), dtype=float) for n in range(4)]
da.block([blocks[:2], blocks[2:]]).sum(axis=1).compute()

# %% a helper for NumPy and Dask
def normalize(values):
    return (values - np.min(values)) / np.ptp(values)


normalize(da.arange(12.0, chunks=4)).compute()

# %% NumPy's functions
x = da.arange(1.0, 9.0, chunks=4)
np.sqrt(x).compute(), np.log(x).sum().compute(), np.concatenate([x, x]).shape

# %% from arrays to dataframes and back
columns = dd.from_dask_array(da.ones((6, 2), chunks=(3, 2)), columns=["a", "b"])
columns.a.sum().compute(), columns.to_dask_array(lengths=True).sum().compute()

# %% configuration
with dask.config.set({"array.slicing.split-large-chunks": False}):
    total = da.ones(10, chunks=5)[::2].sum().compute()
total

# %% a figure from a result
import matplotlib

matplotlib.use("agg")
import matplotlib.pyplot as plt

counts, edges = da.histogram(da.arange(100, chunks=10), bins=4, range=(0, 100))
(line,) = plt.plot(edges[:-1], counts.compute())
line.get_ydata()

# %% a model on a result
from sklearn.linear_model import LinearRegression

x = da.arange(20.0, chunks=5)
model = LinearRegression().fit(x.compute().reshape(-1, 1), (2 * x + 1).compute())
model.coef_

# %% a generator is no collection
sum(float(x.sum().compute()) for x in (da.ones(n, chunks=2) for n in range(1, 4)))

# %% one graph for a loop
results = []
for n in range(4):
    x = da.arange(10, chunks=5) * n
    results.append({"n": n, "sum": x.sum(), "max": x.max()})
[{name: int(value) for name, value in result.items()} for result in dask.compute(results)[0]]

# %% batches of small tasks
def process(batch):
    return [n**2 for n in batch]


batches = [range(n, n + 25) for n in range(0, 100, 25)]
sum(sum(part) for part in dask.compute(*[dask.delayed(process)(batch) for batch in batches]))

# %% large objects are delayed once
table = dask.delayed(np.arange(1000.0))
dask.compute(*[dask.delayed(lambda t, n: float(t[n]))(table, n) for n in (1, 10, 100)])

# %% do not mutate inputs
@dask.delayed
def scaled(frame):
    frame = frame.copy()
    frame["x"] *= 2
    return frame


frame = pd.DataFrame({"x": [1, 2]})
scaled(frame).compute(), frame

# %% reset the index before a join
left = dd.from_pandas(pd.DataFrame({"k": [1, 2, 3], "a": [1.0, 2.0, 3.0]}), npartitions=2)
right = pd.DataFrame({"k": [1, 3], "b": [10, 30]})
left.merge(right, on="k").compute().reset_index(drop=True)

# %% filter first, then join
orders = dd.from_pandas(pd.DataFrame({"id": range(20), "item": [0, 1] * 10, "n": range(20)}), npartitions=4)
items = dd.from_pandas(pd.DataFrame({"item": [0, 1], "price": [2.5, 4.0]}), npartitions=1)
big = orders[orders.n > 10].merge(items, on="item")
(big.n * big.price).sum().compute()

# %% columns of a file
import tempfile

_folder = tempfile.mkdtemp()
dd.from_pandas(pd.DataFrame({"a": range(6), "b": range(6), "c": range(6)}), npartitions=2).to_parquet(_folder)
dd.read_parquet(_folder, columns=["a", "c"]).sum().compute()

# %% a memory map
import tempfile

with tempfile.NamedTemporaryFile(suffix=".npy") as _file:
    np.save(_file.name, np.arange(100.0))
    total = float(da.from_array(np.load(_file.name, mmap_mode="r"), chunks=25).sum().compute())
total

# %% stacks of images
def image(number):
    rows, columns = np.mgrid[:6, :8]
    return (rows * columns + number) % 7


images = [da.from_delayed(dask.delayed(image)(n), shape=(6, 8), dtype=int) for n in range(5)]
movie = da.stack(images)
movie.max(axis=0).compute(), movie[:, 2, 3].compute()

# %% chunks are chosen
x = da.ones((1000, 1000), chunks="auto").rechunk({0: 250, 1: -1})
x.numblocks, float(x.mean().compute())

# %% chunks along the slow axis
x = da.arange(60, chunks=60).reshape(3, 4, 5).rechunk((1, 4, 5))
x.sum(axis=(1, 2)).compute(), x.chunks

# %% NumPy code that gets a Dask array
def softmax(x):
    e = np.exp(x - np.max(x, axis=1, keepdims=True))
    return e / np.sum(e, axis=1, keepdims=True)


softmax(da.from_array(np.arange(12.0).reshape(3, 4), chunks=(2, 2))).compute()

# %% type checks of results
result = da.arange(5, chunks=2).sum().compute()
isinstance(result, (int, np.integer)), json_value if (json_value := int(result)) else None

# %% results as JSON
import json

x = da.arange(6, chunks=3)
json.dumps({"sum": int(x.sum().compute()), "values": x.compute().tolist()})

# %% results in a file
import io

file = io.StringIO()
np.savetxt(file, (da.arange(4.0, chunks=2) * 2).compute(), fmt="%.1f")
file.getvalue()

# %% results in a loop
lines = []
for row in da.arange(6, chunks=3).reshape(2, 3).compute():
    lines.append(" ".join(f"{value:3d}" for value in row))
"\n".join(lines)

# %% results in a set and as keys
values = da.from_array(np.array([1, 2, 2, 3]), chunks=2).compute()
sorted(set(values.tolist())), {int(value): "x" for value in values}

# %% rounding and formatting
mean = da.arange(10.0, chunks=5).mean().compute()
f"{mean:.2f}", round(float(mean), 1), "%.3e" % mean, str(int(mean))

# %% time stamps from numbers
seconds = da.arange(4, chunks=2) * 3600
pd.to_datetime(seconds.compute(), unit="s")

# %% a progress bar
from dask.diagnostics import ProgressBar

with ProgressBar(out=None):
    total = da.ones(100, chunks=10).sum().compute(scheduler="threads")
float(total)

# %% a single-threaded scheduler for debugging
with dask.config.set(scheduler="synchronous"):
    x = da.arange(9, chunks=3).map_blocks(lambda block: block[::-1]).compute()
x

# %% annotations
with dask.annotate(priority=5):
    x = da.ones(10, chunks=5) + 1
float(x.sum().compute())
