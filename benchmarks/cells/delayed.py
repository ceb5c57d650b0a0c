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
