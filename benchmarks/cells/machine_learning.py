# %% setup
import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd

grid = np.linspace(0, 6, 60)
features = np.column_stack([grid, np.sin(grid), np.cos(2 * grid)])
labels = (features[:, 1] > 0).astype(int)
X = da.from_array(features, chunks=(20, 3))
y = da.from_array(labels, chunks=20)

# %% scale the features
from sklearn.preprocessing import StandardScaler

scaled = StandardScaler().fit_transform(X.compute())
mean, std = X.mean(axis=0), X.std(axis=0)
np.abs(scaled - ((X - mean) / std).compute()).max().round(9)

# %% a model is fitted on results
from sklearn.linear_model import LogisticRegression

model = LogisticRegression().fit(X.compute(), y.compute())
model.score(X.compute(), y.compute())

# %% a model predicts blocks
from sklearn.tree import DecisionTreeClassifier

model = DecisionTreeClassifier(max_depth=3, random_state=0).fit(features, labels)
predicted = X.map_blocks(model.predict, drop_axis=1, dtype=int)
predicted.compute(), float((predicted == y).mean().compute())

# %% probabilities of blocks
from sklearn.naive_bayes import GaussianNB

model = GaussianNB().fit(features, labels)
X.map_blocks(model.predict_proba, dtype=float, chunks=(20, 2)).compute().round(6)

# %% a model predicts partitions
from sklearn.linear_model import Ridge

frame = pd.DataFrame(features, columns=["a", "b", "c"])
model = Ridge().fit(frame[["a", "b"]].to_numpy(), frame.c)
df = dd.from_pandas(frame, npartitions=3)
df.map_partitions(lambda part: pd.Series(model.predict(part[["a", "b"]].to_numpy()), part.index), meta=(None, "f8")).compute()

# %% joblib with the cluster
import joblib
from sklearn.ensemble import RandomForestClassifier

with joblib.parallel_backend("dask"):
    model = RandomForestClassifier(n_estimators=4, random_state=0, n_jobs=-1).fit(features, labels)
model.predict(features[:5])

# %% a grid search with joblib
import joblib
from sklearn.linear_model import Ridge
from sklearn.model_selection import GridSearchCV

with joblib.parallel_backend("dask"):
    search = GridSearchCV(Ridge(), {"alpha": [0.1, 10.0]}, cv=2).fit(features[:, :2], features[:, 2])
search.best_params_

# %% joblib's own loop
import joblib

with joblib.parallel_backend("dask"):
    squares = joblib.Parallel()(joblib.delayed(pow)(n, 2) for n in range(5))
squares

# %% models in delayed tasks
from sklearn.linear_model import Lasso


@dask.delayed
def fit(alpha):
    return float(Lasso(alpha=alpha).fit(features[:, :2], features[:, 2]).score(features[:, :2], features[:, 2]))


np.round(dask.compute(*[fit(alpha) for alpha in (0.01, 0.1)]), 6)

# %% least squares by normal equations
design = da.concatenate([da.ones((60, 1), chunks=(20, 1)), X[:, 1:].rechunk((20, 2))], axis=1)
target = 2 + 3 * X[:, 1] - X[:, 2]
da.linalg.solve(design.T.dot(design).rechunk(3), design.T.dot(target).rechunk(3)).compute().round(6)

# %% gradient descent
weights = np.zeros(3)
for _ in range(20):
    probabilities = 1 / (1 + da.exp(-X.dot(weights)))
    weights = weights - 0.1 * (X.T.dot(probabilities - y) / len(X)).compute()
np.asarray(weights).round(6)

# %% k-means by hand
centers = features[[0, 30, 59]]
for _ in range(3):
    distances = ((X[:, None, :] - centers) ** 2).sum(axis=-1)
    nearest = distances.argmin(axis=1).compute()
    centers = np.array([features[nearest == k].mean(axis=0) for k in range(3)])
nearest, centers

# %% principal components
centered = X - X.mean(axis=0)
u, s, v = da.linalg.svd(centered.rechunk((20, 3)))
s.compute(), abs(v.compute()).round(6)

# %% nearest points with SciPy
from scipy.spatial import cKDTree

tree = cKDTree(features)
X[:20].map_blocks(lambda block: tree.query(block + 0.001)[1], drop_axis=1, dtype=int).compute()

# %% a convolution with SciPy
from scipy.signal import fftconvolve

line = da.from_array(grid, chunks=20)
line.map_overlap(lambda b: fftconvolve(b, np.ones(3) / 3, mode="same"), depth=2, boundary="none").compute()[2:-2].round(9)

# %% a quantile transform with SciPy
from scipy import stats

X.rechunk((-1, 1)).map_blocks(lambda block: stats.rankdata(block, axis=0), dtype=float).compute()

# %% interpolation with SciPy
from scipy.interpolate import interp1d

table = interp1d([0, 1, 2, 6], [0.0, 10.0, 15.0, 16.0])
X[:, 0].map_blocks(table, dtype=float).compute()

# %% special functions
from scipy import special

X.map_blocks(special.expit).compute(), X.map_blocks(special.erf).sum().compute()

# %% labels of regions
from scipy import ndimage

spots = da.from_array((np.add.outer(np.arange(8), np.arange(8)) % 4 == 0).astype(int), chunks=8)
spots.map_blocks(lambda block: ndimage.label(block)[0], dtype=int).max().compute()

# %% a confusion matrix
pairs = dd.from_dask_array(da.stack([y, (X[:, 0] < 3).astype(int)], axis=1), columns=["truth", "guess"])
pairs.groupby(["truth", "guess"]).size().compute().sort_index()

# %% one-hot columns
df = dd.from_pandas(pd.DataFrame({"color": ["red", "blue", "red", "green"], "n": [1, 2, 3, 4]}), npartitions=2)
dd.get_dummies(df.categorize(), columns=["color"]).compute()

# %% a split by number
train = X[y == 1]
test = X[y == 0]
train.compute().shape, test.compute().mean(axis=0)

# %% sparse features
import scipy.sparse

dask.compute(*[dask.delayed(lambda n: scipy.sparse.eye(n).sum())(n) for n in (2, 3)])

# %% metrics of results
from sklearn.metrics import accuracy_score, mean_squared_error

guess = (X[:, 1] > 0.1).astype(int)
accuracy_score(y.compute(), guess.compute()), mean_squared_error(X[:, 1].compute(), X[:, 2].compute())
