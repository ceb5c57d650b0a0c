# %% setup
import dask
import dask.array as da
import numpy as np

data = np.arange(24.0).reshape(4, 6)
x = da.from_array(data, chunks=(2, 3))

# %% sum of ones
ones = da.ones((1000, 1000), chunks=(250, 250))
ones.sum().compute()

# %% mean over an axis
(x + x.T[:4, :4].sum()).mean(axis=0).compute()

# %% standardize columns
z = (x - x.mean(axis=0)) / x.std(axis=0)
z.compute()

# %% slices and masks
big = x[x > 10]
big.compute(), x[1:, ::2].compute(), x[[0, 2]].compute()

# %% where and clip
da.where(x > 5, x, -1).clip(0, 20).compute()

# %% matrix product
(x @ x.T).compute()

# %% least squares
tall = da.from_array(np.vander(np.linspace(0, 1, 40), 3), chunks=(10, 3))
coefficients, residuals, rank, s = da.linalg.lstsq(tall, tall @ np.array([1.0, 2.0, 3.0]))
coefficients.compute().round(6)

# %% singular values
u, s, v = da.linalg.svd(da.from_array(np.vander(np.linspace(0, 1, 40), 4), chunks=(10, 4)))
s.compute()

# %% solve
a = da.from_array(np.array([[4.0, 1.0], [2.0, 3.0]]), chunks=1)
da.linalg.solve(a, da.from_array(np.array([1.0, 2.0]), chunks=1)).compute()

# %% histogram
counts, edges = da.histogram(x, bins=5, range=(0, 25))
counts.compute(), edges

# %% percentiles
da.percentile(x.ravel(), [25, 50, 75]).compute()

# %% quantiles without NaN
holes = da.where(x % 5 == 0, np.nan, x)
da.nanquantile(holes.rechunk((4, 3)), 0.5, axis=0).compute(), da.nanmean(holes).compute()

# %% Fourier transform
abs(da.fft.fft(x.rechunk((2, 6)))).compute()

# %% a function of blocks
def double(block):
    return np.asarray(block) * 2


x.map_blocks(double).compute()

# %% a function of blocks that says its type
x.map_blocks(lambda block: np.sort(np.array(block), axis=1), dtype=float).compute()

# %% a function of blocks that creates arrays
x.map_blocks(lambda block: block + np.arange(block.shape[1]), dtype=float).compute()

# %% neighbours
def smooth(block):
    return (block + np.roll(block, 1, axis=0) + np.roll(block, -1, axis=0)) / 3


x.map_overlap(smooth, depth=1, boundary="reflect").compute()

# %% a filter of SciPy
from scipy.ndimage import gaussian_filter

x.map_overlap(gaussian_filter, depth=2, boundary="reflect", sigma=1).compute()

# %% a generalized function
def spread(values):
    return np.asarray(values).max(axis=-1) - np.asarray(values).min(axis=-1)


da.apply_gufunc(spread, "(i)->()", x.rechunk({1: -1}), output_dtypes=float).compute()

# %% a vectorized function
@da.as_gufunc(signature="(),()->()", output_dtypes=float, vectorize=True)
def pick(a, b):
    return a if a > b else b


pick(x, 10.0).compute()

# %% along an axis
da.apply_along_axis(lambda row: row.cumsum(), 1, x).compute()

# %% blockwise
da.blockwise(np.multiply, "ij", x, "ij", 3.0, None, dtype=float).compute()

# %% reductions of one's own
def chunk(block, axis, keepdims):
    return np.sum(block**2, axis=axis, keepdims=keepdims)


def combine(block, axis, keepdims):
    return np.sum(block, axis=axis, keepdims=keepdims)


da.reduction(x, chunk, combine, dtype=float).compute()

# %% stack, concatenate and broadcast
da.concatenate([x, da.stack([x, x])[1]], axis=1).shape, (x + da.arange(6, chunks=3)).compute()

# %% texts
words = da.from_array(np.array(["a", "b", "a"]), chunks=2)
(words == "a").compute()

# %% dates
days = da.from_array(np.array(["2024-01-01", "2024-02-01"], dtype="datetime64[D]"), chunks=1)
(days[1:] - days[:1]).compute()

# %% masked arrays
da.ma.masked_greater(x, 10).mean().compute()

# %% unique values with counts
values, counts = da.unique(da.from_array(np.array([3, 1, 3, 2]), chunks=2), return_counts=True)
values.compute(), counts.compute()

# %% index of the largest
position = da.argmax(x)
da.unravel_index(position, x.shape)[0].compute(), x.max().compute()

# %% assign to a slice
y = x.copy()
y[0, :3] = -1
y[y > 20] = 0
y.compute()

# %% a result is used in Python
total = float(x.sum().compute())
f"the sum is {total:.1f}", [total], max(total, 1.0)

# %% a result is used in NumPy
result = x.mean(axis=0).compute()
np.asarray(result) + np.ones(6)

# %% random numbers
rng = da.random.default_rng(0)
r = rng.normal(size=(100, 100), chunks=50)
r.compute().shape, bool(abs(r.mean().compute()) < 1)

# %% a mandelbrot set
c = da.linspace(-2, 1, 12, chunks=6)[None, :] + 1j * da.linspace(-1, 1, 8, chunks=4)[:, None]
z = c * 0
for _ in range(5):
    z = da.where(abs(z) < 2, z * z + c, z)
(abs(z) < 2).sum(axis=0).compute()

# %% a game of life
def step(board):
    neighbours = sum(np.roll(board, (i, j), (0, 1)) for i in (-1, 0, 1) for j in (-1, 0, 1)) - board
    return ((neighbours == 3) | ((board == 1) & (neighbours == 2))).astype(int)


board = da.from_array(np.eye(12, dtype=int)[:, ::-1] + np.eye(12, k=1, dtype=int), chunks=6)
for _ in range(3):
    board = board.map_overlap(step, depth=1, boundary=0, dtype=int)
board.compute()

# %% a running mean
x.map_overlap(lambda b: np.array([row.cumsum() for row in b]), depth=0, dtype=float).compute()

# %% Einstein's sum
da.einsum("ij,kj->ik", x, x).compute(), da.tensordot(x, x, axes=((1,), (1,))).compute()

# %% outer products and differences
v = da.arange(6, chunks=3)
da.outer(v, v).compute(), da.diff(v**2).compute(), da.gradient(v * 1.0, axis=0).compute()

# %% cumulative sums along axes
x.cumsum(axis=0).compute(), da.cumprod(x + 1, axis=1).compute()

# %% assignment by indices
y = x.copy()
y[:, da.from_array(np.array([1, 4]), chunks=1)] = 0
y[[0, 3]] = y[[0, 3]] * 2
y.compute()

# %% sorted parts
da.topk(x.ravel(), 3).compute(), da.argtopk(x.ravel(), 2).compute(), x.ravel().argmin().compute()

# %% digits and bins
da.digitize(x, np.array([5.0, 10.0, 15.0])).compute(), da.bincount(da.from_array([0, 1, 1, 3], chunks=2)).compute()

# %% two-dimensional histogram
h, xe, ye = da.histogram2d(x.ravel(), (x * 2).ravel(), bins=[3, 2], range=[(0, 24), (0, 48)])
h.compute(), xe

# %% masks and fills
m = da.ma.masked_where(x % 3 == 0, x)
da.ma.filled(m, -1).compute(), m.sum().compute()

# %% pads, tiles and flips
da.pad(x, 1, mode="edge").compute(), da.tile(x[:1], 2).compute(), da.flip(x, 1).compute(), da.roll(x, 2, axis=1).compute()

# %% triangles and diagonals
square = x[:, :4]
da.tril(square).compute(), da.diag(square).compute(), da.trace(square).compute()

# %% norms and inverses
square = da.from_array(np.array([[4.0, 1.0], [1.0, 3.0]]), chunks=2)
da.linalg.norm(square).compute(), da.linalg.inv(square).compute(), da.linalg.cholesky(square, lower=True).compute()

# %% selection of several conditions
da.select([x < 5, x > 15], [x * 10, -x], default=0).compute(), da.choose(da.from_array([0, 1], chunks=1), [x[0, :2], x[1, :2]]).compute()

# %% logic and counting
da.count_nonzero(x % 2, axis=0).compute(), da.isin(x, [1.0, 5.0]).any().compute(), da.allclose(x, x + 1e-12).compute()

# %% shapes
x.reshape(2, 2, 6).transpose(2, 0, 1).shape, da.squeeze(x[None]).shape, da.moveaxis(x, 0, 1).compute()

# %% statistics of blocks as objects
def extremes(block):
    return np.array([[{"least": block.min(), "greatest": block.max()}]], dtype=object)


found = x.map_blocks(extremes, dtype=object, chunks=(1, 1)).compute()
[(name, float(value)) for block in found.ravel() for name, value in block.items()]

# %% a library's function in delayed tasks
saved = [dask.delayed(np.ma.masked_greater)(block, 10) for block in x.to_delayed().ravel()]
[float(part.sum()) for part in dask.compute(*saved)]
