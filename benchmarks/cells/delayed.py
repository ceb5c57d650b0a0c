# %% setup
import dask
import dask.array as da
import numpy as np
from dask import delayed


def inc(x):
    return x + 1


def add(x, y):
    return x + y


# %% a small graph
a, b = delayed(inc)(1), delayed(inc)(2)
delayed(add)(a, b).compute()

# %% a loop
total = delayed(sum)([delayed(inc)(n) for n in range(10)])
total.compute()

# %% a decorator
@delayed
def square(n):
    return n * n


dask.compute(*[square(n) for n in range(4)])

# %% several results
@delayed(nout=2)
def divide(a, b):
    return divmod(a, b)


quotient, rest = divide(17, 5)
dask.compute(quotient, rest)

# %% blocks of an array
x = da.ones((4, 4), chunks=2)
blocks = x.to_delayed().ravel()
sum(float(result) for result in dask.compute(*[delayed(lambda block: block.sum())(block) for block in blocks]))

# %% an array of delayed blocks
parts = [da.from_delayed(delayed(np.full)(3, n), shape=(3,), dtype=int) for n in range(3)]
da.concatenate(parts).sum().compute()

# %% methods and attributes
delayed("a,b,c").split(",").compute()

# %% with an array as an argument
delayed(len)(da.arange(10, chunks=5)).compute()

# %% a tree of sums
values = [delayed(inc)(n) for n in range(8)]
while len(values) > 1:
    values = [delayed(add)(a, b) for a, b in zip(values[::2], values[1::2])]
values[0].compute()

# %% a pipeline of files
import json
import tempfile
from pathlib import Path

_folder = Path(tempfile.mkdtemp())
for n in range(3):
    (_folder / f"{n}.json").write_text(json.dumps({"n": n, "values": [n, n + 1]}))


@delayed
def load(path):
    return json.loads(path.read_text())


@delayed
def clean(record):
    return {**record, "total": sum(record["values"])}


@delayed
def summarize(records):
    return sorted((record["n"], record["total"]) for record in records)


summarize([clean(load(path)) for path in sorted(_folder.glob("*.json"))]).compute()

# %% a condition in a loop
results = []
for n in range(6):
    y = delayed(inc)(n) if n % 2 else delayed(add)(n, 10)
    results.append(y)
dask.compute(*results)

# %% arithmetic of delayed values
a, b = delayed(3), delayed(4.0)
((a * b + 2) / (b - 1) ** 2 - a // 2).compute(), (a < b).compute(), (-a % 2).compute()

# %% a nested structure
data = {"a": [delayed(inc)(1), 2], "b": (delayed(inc)(3), {"c": delayed(inc)(4)})}
dask.compute(data)[0]

# %% an object of a class
class Counter:
    def __init__(self, start):
        self.count = start

    def plus(self, n):
        return Counter(self.count + n)


counter = delayed(Counter)(3)
counter.plus(4).plus(5).count.compute()

# %% an item of a delayed dictionary
record = delayed(dict)(a=1, b=[10, 20, 30])
record["b"][1].compute(), record.get("c", 0).compute()

# %% a pure function is called once
from operator import mul

first, second = delayed(mul, pure=True)(3, 4), delayed(mul, pure=True)(3, 4)
first.key == second.key, dask.compute(first, second)

# %% traverse is off
@delayed(traverse=False)
def count(things):
    return len(things)


count([1, 2, 3]).compute()

# %% delayed NumPy
x = delayed(np.arange)(12).reshape((3, 4))
x.sum(axis=0).compute(), (x * 2).max().compute(), x.T.shape.compute()

# %% delayed pandas
import pandas as pd

frame = delayed(pd.DataFrame)({"a": [1, 2, 3], "b": [4.0, 5.0, 6.0]})
frame.describe().loc["mean"].compute(), frame[frame.a > 1].b.sum().compute()

# %% a mean of chunks by hand
@delayed
def partial(chunk):
    return chunk.sum(), chunk.size


@delayed
def total(parts):
    return sum(part[0] for part in parts) / sum(part[1] for part in parts)


x = np.arange(100.0)
total([partial(x[n : n + 30]) for n in range(0, 100, 30)]).compute()

# %% delayed blocks of an array, one function for each
x = da.arange(12.0, chunks=4)
scaled = [delayed(lambda block, n: np.asarray(block) * n)(block, n) for n, block in enumerate(x.to_delayed())]
np.concatenate(dask.compute(*scaled))

# %% from delayed to an array and on
@delayed
def field(n):
    return np.outer(np.arange(3.0), np.arange(4.0)) + n


stack = da.stack([da.from_delayed(field(n), shape=(3, 4), dtype=float) for n in range(5)])
stack.mean(axis=0).compute(), stack.max(axis=(1, 2)).compute()

# %% delayed partitions of a dataframe
import dask.dataframe as dd
import pandas as pd

df = dd.from_pandas(pd.DataFrame({"a": range(10)}), npartitions=2)
sizes = [delayed(len)(part) for part in df.to_delayed()]
dask.compute(*sizes)

# %% persist and use again
a, b = dask.persist(delayed(inc)(1), delayed(inc)(2))
delayed(add)(a, b).compute()

# %% an error of a task is raised
@delayed
def broken(n):
    raise ValueError(f"no {n}")


try:
    delayed(inc)(broken(3)).compute()
except ValueError as error:
    message = str(error)
message

# %% a Fibonacci number
@delayed
def plus(a, b):
    return a + b


a, b = delayed(0), delayed(1)
for _ in range(20):
    a, b = b, plus(a, b)
a.compute()

# %% parameters on a grid
from itertools import product


@delayed
def score(alpha, depth):
    return alpha, depth, round(alpha * depth - depth**2 / 10, 6)


max(dask.compute(*[score(a, d) for a, d in product([0.1, 1.0], [1, 5])]), key=lambda row: row[2])

# %% graph manipulation
from dask.graph_manipulation import bind, checkpoint

first = delayed(inc)(1)
second = bind(delayed(inc)(10), first)
second.compute(), checkpoint(first).compute()
