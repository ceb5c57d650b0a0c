# dask.delayed, bags and futures together with arrays and frames, after the Dask tutorial

# %% imports
import json
from operator import add

import dask
import dask.array as da
import dask.bag as db
import dask.dataframe as dd
import numpy as np
import pandas as pd
from dask import delayed
from dask.distributed import as_completed, get_client, wait

client = get_client()
rng = np.random.default_rng(13)
x = da.from_array(rng.normal(size=(400, 300)), chunks=(100, 100))
df = dd.from_pandas(
    pd.DataFrame({"k": np.arange(600) % 5, "v": rng.normal(size=600), "t": np.resize(["a", "b", "cc"], 600)}),
    npartitions=4,
)


# %% delayed functions
@delayed
def inc(i):
    return i + 1


total = delayed(sum)([inc(i) for i in range(10)])
total.compute()

# %% delayed and a loop with a condition
results = [inc(i) if i % 2 else delayed(abs)(-i) for i in range(6)]
dask.compute(*results)

# %% delayed on blocks
parts = [delayed(np.linalg.norm)(block) for block in x.to_delayed().ravel()]
delayed(max)(parts).compute()


# %% array from delayed
def read(i):
    return np.full((50, 20), float(i))


stacked = da.concatenate([da.from_delayed(delayed(read)(i), (50, 20), float) for i in range(4)])
stacked.mean(axis=1)[::50].compute()

# %% compute delayed, array and frame together
a, b, c = dask.compute(inc(1), x.sum(), df.v.mean())
a, b, c

# %% delayed of a reduction
scaled = delayed(lambda m: m * 2)(x.mean())
scaled.compute()

# %% delayed given an array
delayed(np.shape)(x[:100, :100]).compute()

# %% persist and wait
y = (x + x.mean(axis=0)).persist()
wait(y)
y.std().compute()

# %% dask.persist of several
p, q = dask.persist(x * 2, df)
float(p.max().compute()), len(q)

# %% submit
future = client.submit(sum, [1, 2, 3])
future.result()

# %% map and gather
squares = client.map(lambda n: n**2, range(10))
client.gather(squares)

# %% as completed
done = sorted(f.result() for f in as_completed(client.map(add, range(5), range(5))))
done

# %% scatter
big = client.scatter(np.arange(1000.0))
client.submit(np.sum, big).result()

# %% client.compute
client.compute(x.sum(axis=0)).result()[:5]

# %% client.compute of a list
client.gather(client.compute([df.v.sum(), x.min()]))

# %% futures of blocks
fs = client.compute(x.to_delayed().ravel().tolist())
sum(client.gather(client.map(np.sum, fs)))

# %% client.persist
z = client.persist(x.T)
z[0].sum().compute()

# %% bag
bag = db.from_sequence(range(100), npartitions=4)
bag.filter(lambda n: n % 2).map(lambda n: n * n).sum().compute()

# %% bag of records
records = db.from_sequence([{"name": n, "n": i} for i, n in enumerate(["ann", "bob", "cy"] * 20)], npartitions=3)
records.pluck("name").frequencies(sort=True).compute()

# %% fold by key
records.foldby("name", lambda t, r: t + r["n"], 0, add, 0).compute()

# %% bag to a dataframe
frame = records.to_dataframe()
frame.groupby("name").n.sum().compute()

# %% JSON lines
records.map(json.dumps).to_textfiles("records-*.json")
db.read_text("records-*.json").map(json.loads).pluck("n").max().compute()

# %% words
text = db.from_sequence(["the quick brown fox", "the lazy dog", "The end"], npartitions=2)
text.map(str.lower).map(str.split).flatten().frequencies().topk(2, key=1).compute()

# %% bag of arrays
db.from_delayed([delayed(lambda i: [np.arange(i)])(i) for i in range(1, 4)]).map(len).compute()

# %% frame to bag
df.head(6, npartitions=-1).shape, df[["k", "t"]].to_bag().take(3)

# %% frame to delayed
lengths = [delayed(len)(part) for part in df.to_delayed()]
sum(dask.compute(*lengths))


# %% write blocks with delayed
@delayed
def save(block, i):
    np.save(f"block-{i}.npy", block)
    return block.shape


dask.compute(*[save(block, i) for i, block in enumerate(x.to_delayed().ravel())])

# %% load what was saved
np.load("block-0.npy").sum()


# %% map_blocks with block info
def where(block, block_info=None):
    return np.full(block.shape, block_info[0]["chunk-location"][0])


x.map_blocks(where, dtype=int).sum().compute()

# %% blockwise
da.blockwise(np.outer, "ij", x[:, 0], "i", x[0], "j", dtype=float).sum().compute()


# %% reduction of a user
def chunk(a, axis, keepdims):
    return np.abs(a).sum(axis=axis, keepdims=keepdims)


da.reduction(x, chunk, lambda a, axis, keepdims: a.sum(axis=axis, keepdims=keepdims), dtype=float, axis=0).compute()

# %% apply along axis
da.apply_along_axis(lambda row: np.percentile(row, 90), 1, x.rechunk((100, -1)), dtype=float, shape=()).compute()


# %% gufunc
def unit(v):
    return v / np.linalg.norm(v, axis=-1, keepdims=True)


da.apply_gufunc(unit, "(i)->(i)", x.rechunk((100, -1)), output_dtypes=float).sum().compute()


# %% function by vectorize
@da.as_gufunc(signature="()->()", output_dtypes=float, vectorize=True)
def clamp(v):
    return max(-1.0, min(1.0, v))


clamp(x[:20, :20].rechunk((10, 10))).mean().compute()

# %% frame with an array's column
df.assign(w=da.from_array(np.arange(600.0), chunks=150)).w.sum().compute()

# %% array of a frame times an array
values = df[["k", "v"]].to_dask_array(lengths=True)
(values @ np.array([[1.0], [2.0]])).sum().compute()

# %% optimize
dask.optimize(x + 1)[0].sum().compute()

# %% visible progress
from dask.diagnostics import ProgressBar

with ProgressBar():
    s = x.sum().compute()
s

# %% config in a block
with dask.config.set({"array.chunk-size": "1MiB"}):
    r = x.rechunk("auto").chunks
len(r)

# %% callbacks of futures
collected = []
f = client.submit(pow, 2, 10)
f.add_done_callback(lambda fut: collected.append(fut.status))
f.result()
