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

# %% map with two bags
other = db.from_sequence(range(10, 20), npartitions=3)
db.map(lambda a, n: a * n, b, other).compute()

# %% map with a keyword
b.map(lambda n, factor=1: n * factor, factor=3).sum().compute()

# %% starmap
db.from_sequence([(1, 2), (3, 4)], npartitions=2).starmap(lambda a, n: a**n).compute()

# %% flatten
db.from_sequence([[1, 2], [3], []], npartitions=2).flatten().compute()

# %% words of texts
texts = db.from_sequence(["the quick brown fox", "the lazy dog", "the end"], npartitions=2)
counts = texts.str.split().flatten().frequencies(sort=True)
counts.take(1), counts.count().compute()

# %% texts of files
import tempfile
from pathlib import Path

_folder = Path(tempfile.mkdtemp())
for n in range(2):
    (_folder / f"{n}.txt").write_text(f"a{n}\nb{n}\n")
db.read_text(str(_folder / "*.txt")).str.strip().str.upper().compute()

# %% text files with their paths
import tempfile
from pathlib import Path

_folder = Path(tempfile.mkdtemp())
(_folder / "x.txt").write_text("1\n2\n")
lines = db.read_text(str(_folder / "*.txt"), include_path=True)
lines.map(lambda line: (int(line[0]), Path(line[1]).name)).compute()

# %% written and read again
import tempfile
from pathlib import Path

_folder = Path(tempfile.mkdtemp())
_paths = records.map(json.dumps).to_textfiles(str(_folder / "*.json"))
len(_paths), db.read_text(str(_folder / "*.json")).map(json.loads).pluck("n").compute()

# %% groups
_groups = dict(b.groupby(lambda n: n % 3).compute())
{key: sorted(values) for key, values in sorted(_groups.items())}

# %% reduction
b.reduction(max, max).compute(), b.reduction(sum, sum, split_every=2).compute()

# %% distinct and product
sorted(b.map(lambda n: n % 4).distinct().compute()), b.filter(lambda n: n < 2).product(b).count().compute()

# %% accumulate
from operator import add

b.accumulate(add).compute()

# %% any and all
b.any().compute(), b.all().compute(), b.filter(lambda n: n > 100).count().compute()

# %% remove and min and max
b.remove(lambda n: n % 2).compute(), b.min().compute(), b.max().compute(), b.var().compute()

# %% functions of partitions
b.map_partitions(lambda part: [sum(part)]).compute(), b.npartitions

# %% repartition and zip
c = b.repartition(npartitions=2)
c.npartitions, db.zip(b, b.map(str)).compute()[:2], db.concat([b, b]).count().compute()

# %% join with a list
people = db.from_sequence([("Alice", 1), ("Bob", 2)], npartitions=2)
sorted(people.join([(1, "x"), (2, "y")], on_self=lambda p: p[1], on_other=lambda o: o[0]).compute())

# %% pluck with a default
db.from_sequence([{"a": 1}, {}], npartitions=1).pluck("a", default=0).compute(), records.pluck(["name", "n"]).compute()

# %% to delayed and back
import dask

parts = [dask.delayed(lambda part: [n + 1 for n in part])(part) for part in b.to_delayed()]
db.from_delayed(parts).sum().compute()

# %% unfold nested records
orders = db.from_sequence([{"who": "Alice", "items": [1, 2]}, {"who": "Bob", "items": [5]}], npartitions=2)
rows = orders.map(lambda o: [{"who": o["who"], "item": i} for i in o["items"]]).flatten()
rows.to_dataframe().groupby("who").item.sum().compute()

# %% arrays in a bag
import numpy as np

arrays = db.from_sequence(range(1, 4), npartitions=3).map(np.ones)
arrays.map(lambda a: float(a.sum())).sum().compute()

# %% a range of numbers
db.range(10, npartitions=3).map(lambda n: n * 2).filter(lambda n: n > 6).compute()
