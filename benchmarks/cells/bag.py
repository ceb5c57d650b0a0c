# %% setup
import json

import dask.bag as db

b = db.from_sequence(range(10), npartitions=3)
records = db.from_sequence([{"name": "Alice", "n": 1}, {"name": "Bob", "n": 2}, {"name": "Alice", "n": 3}], npartitions=2)

# %% map and filter
b.filter(lambda n: n % 2).map(lambda n: n**2).compute()

# %% fold
b.fold(lambda a, n: a + n, initial=0).compute()

# %% frequencies
dict(records.pluck("name").frequencies().compute())

# %% foldby
dict(records.foldby("name", lambda total, r: total + r["n"], 0, lambda a, b: a + b, 0).compute())

# %% json lines
records.map(json.dumps).map(json.loads).pluck("n").sum().compute()

# %% to a dataframe
records.to_dataframe().n.sum().compute()

# %% statistics
b.mean().compute(), b.std().compute(), b.topk(2).compute()
