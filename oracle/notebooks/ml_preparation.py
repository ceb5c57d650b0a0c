# Preparing features for models with arrays and frames
# needs: sklearn

# %% imports and data
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
from sklearn.linear_model import LinearRegression
from sklearn.preprocessing import StandardScaler

rng = np.random.default_rng(14)
n = 2400
housing = pd.DataFrame(
    {
        "rooms": rng.integers(1, 9, n),
        "area": rng.gamma(9, 10, n),
        "year": rng.integers(1900, 2023, n),
        "district": rng.choice(["north", "south", "east", "west"], n),
        "quality": pd.Categorical(
            rng.choice(["low", "mid", "high"], n), categories=["low", "mid", "high"], ordered=True
        ),
        "garden": rng.random(n) < 0.3,
        "sold": pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 900, n), unit="D"),
    }
)
housing["price"] = 1000 * housing.area + 5000 * housing.rooms + rng.normal(0, 1e4, n)
housing.loc[rng.random(n) < 0.1, "area"] = np.nan
df = dd.from_pandas(housing, npartitions=5)
df.describe().compute()

# %% missing share
df.isnull().mean().compute()

# %% impute by the median of a result
median = housing.area.median()
df["area"] = df.area.fillna(median)
df.area.isna().sum().compute()

# %% impute by group
means = df.groupby("district").area.mean().compute()
df.map_partitions(lambda part: part.area.fillna(part.district.map(means)), meta=("area", "float64")).sum().compute()

# %% outliers by the interquartile range
q1, q3 = df.price.quantile([0.25, 0.75]).compute()
inside = df[(df.price > q1 - 1.5 * (q3 - q1)) & (df.price < q3 + 1.5 * (q3 - q1))]
len(inside) > 2000

# %% z-scores
z = (df[["area", "rooms"]] - df[["area", "rooms"]].mean()) / df[["area", "rooms"]].std()
z.abs().max().compute()

# %% logarithm
df["log_price"] = np.log(df.price.clip(lower=1))
df.log_price.mean().compute()

# %% dummies
dummies = dd.get_dummies(
    df.assign(district=df.district.astype("category")).categorize("district"), columns=["district"]
)
[c for c in dummies.columns if c.startswith("district")]

# %% dummies as numbers
dummies[[c for c in dummies.columns if c.startswith("district")]].astype("int8").sum().compute()

# %% ordered categories
(df.quality.cat.codes * 10).mean().compute()

# %% compare ordered categories
(df.quality >= "mid").sum().compute()

# %% age at sale
df["age"] = df.sold.dt.year - df.year
df.age.min().compute()

# %% cyclic month
month = 2 * np.pi * df.sold.dt.month / 12
np.sin(month).sum().compute()

# %% bins of years
df["decade"] = df.year // 10 * 10
df.groupby("decade").price.mean().compute()

# %% target encoding
encoding = df.groupby("district").price.mean().rename("encoded").reset_index()
df.merge(encoding, on="district").encoded.mean().compute()

# %% frequency encoding
counts = df.district.value_counts().compute()
df.district.map(counts, meta=("count", "int64")).sum().compute()

# %% interactions
df.assign(per_room=df.area / df.rooms, big=(df.area > 100) & df.garden).per_room.describe().compute()

# %% split by hash of the index
fold = df.index.to_series() % 5
train = df[fold != 0]
test = df[fold == 0]
len(train), len(test)

# %% random split
a, b = df.random_split([0.8, 0.2], random_state=0)
len(a) + len(b)

# %% feature matrix
X = df[["rooms", "area", "age"]].to_dask_array(lengths=True)
y = df.price.to_dask_array(lengths=True)
X.shape, y.dtype

# %% normal equations
A = da.concatenate([da.ones((n, 1), chunks=(X.chunks[0], 1)), X], axis=1)
beta = da.linalg.solve((A.T @ A).rechunk(4), (A.T @ y).rechunk(4))
beta.compute().round(3)

# %% least squares
coefficients, residuals, rank, s = da.linalg.lstsq(A.rechunk({1: -1}), y)
coefficients.compute()

# %% gradient descent
theta = np.zeros(3)
S = (X - X.mean(axis=0)) / X.std(axis=0)
t = y - y.mean()
for _ in range(5):
    grad = (S.T @ (S @ theta - t) / n).compute()
    theta = theta - 0.5 * grad
theta

# %% scikit-learn on a computed matrix
model = LinearRegression().fit(X.compute(), y.compute())
model.coef_.round(2)

# %% scikit-learn given Dask collections
LinearRegression().fit(X, y).score(X, y)

# %% scaler given a Dask dataframe
StandardScaler().fit(df[["rooms", "area"]].compute()).mean_

# %% predictions on blocks
X.map_blocks(model.predict, drop_axis=1, dtype=float).mean().compute()

# %% residuals
error = y - X.map_blocks(model.predict, drop_axis=1, dtype=float)
da.sqrt((error**2).mean()).compute(), da.fabs(error).max().compute()

# %% confusion matrix
truth = (y > 1e5).astype(int)
guess = (X[:, 1] > 90).astype(int)
da.bincount(truth * 2 + guess, minlength=4).compute()

# %% batches
for start in range(0, 600, 200):
    batch = X[start : start + 200].compute()
batch.shape

# %% sliding windows
series = da.from_array(rng.normal(size=500).cumsum(), chunks=100)
windows = da.lib.stride_tricks.sliding_window_view(series, 10)
windows.mean(axis=1).compute()

# %% one-hot of labels
labels = da.from_array(rng.integers(0, 4, 200), chunks=50)
(labels[:, None] == np.arange(4)).astype("float32").sum(axis=0).compute()

# %% correlation matrix
da.corrcoef(X.T).compute()

# %% mutual distances
d = ((X[:200, None, :] - X[None, :50, :]) ** 2).sum(axis=-1)
da.sqrt(d).min(axis=1).compute()

# %% nearest neighbours
d.argmin(axis=1).compute()

# %% shuffle rows
order = rng.permutation(n)
X[order][:5].compute()

# %% class weights
values, freq = da.unique(truth, return_counts=True)
(n / (2 * freq)).compute()

# %% save as Parquet
df[["rooms", "area", "price"]].to_parquet("features")
dd.read_parquet("features").price.max().compute()

# %% save arrays
da.to_npy_stack("stack", X.rechunk((600, 3)), axis=0)
da.from_npy_stack("stack").mean().compute()
