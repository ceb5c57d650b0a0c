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
