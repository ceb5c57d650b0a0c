# Models, clustering and searches with dask-ml
# needs: dask_ml, sklearn

# %% imports and data
import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
from dask_ml.cluster import KMeans
from dask_ml.datasets import make_blobs, make_classification, make_regression
from dask_ml.decomposition import PCA, IncrementalPCA, TruncatedSVD
from dask_ml.linear_model import LinearRegression, LogisticRegression, PoissonRegression
from dask_ml.metrics import accuracy_score, mean_absolute_error, mean_squared_error, pairwise_distances
from dask_ml.model_selection import GridSearchCV, KFold, RandomizedSearchCV, ShuffleSplit, train_test_split
from dask_ml.naive_bayes import GaussianNB
from dask_ml.wrappers import Incremental, ParallelPostFit
from sklearn.datasets import make_classification as sk_classification
from sklearn.ensemble import GradientBoostingClassifier
from sklearn.linear_model import LogisticRegression as SkLogisticRegression
from sklearn.linear_model import SGDClassifier
from sklearn.svm import SVC

Xn, yn = sk_classification(n_samples=1000, n_features=6, n_informative=4, random_state=0)
X = da.from_array(Xn, chunks=(250, 6))
y = da.from_array(yn, chunks=250)
X.shape

# %% train and test split
X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.25, random_state=0, shuffle=True)
X_train.shape, y_test.shape

# %% split of a dataframe
frame = dd.from_pandas(pd.DataFrame(Xn, columns=list("abcdef")).assign(y=yn), npartitions=4)
train, test = train_test_split(frame, test_size=0.2, random_state=1, shuffle=True)
abs(len(train) + len(test))

# %% logistic regression
lr = LogisticRegression(max_iter=50, solver="newton")
lr.fit(X, y)
lr.coef_.round(3)

# %% predict
predictions = lr.predict(X)
accuracy_score(y, predictions)

# %% probabilities
lr.predict_proba(X)[:5].compute().round(3)

# %% score
float(lr.score(X, y))

# %% linear regression
Xr = da.from_array(np.random.default_rng(6).normal(size=(800, 3)), chunks=(200, 3))
target = Xr @ np.array([1.0, -2.0, 0.5]) + 3
reg = LinearRegression(solver="newton", max_iter=100).fit(Xr, target)
reg.coef_.round(2), round(float(reg.intercept_), 2)

# %% linear regression with Newton's method
LogisticRegression(solver="newton", max_iter=20).fit(X, y).predict(X).sum().compute()

# %% Poisson regression
counts = da.from_array(np.random.default_rng(7).poisson(3, 800), chunks=200)
PoissonRegression(max_iter=30, solver="newton").fit(Xr, counts).coef_.round(2)

# %% k-means tags=["random"]
km = KMeans(n_clusters=3, random_state=0, init_max_iter=2, oversampling_factor=10)
km.fit(X)
km.cluster_centers_.shape, km.labels_.shape

# %% k-means with given centres
km2 = KMeans(n_clusters=2, init=Xn[:2].copy(), max_iter=20).fit(X)
km2.cluster_centers_, km2.inertia_

# %% labels of k-means
da.bincount(km2.labels_, minlength=2).compute()

# %% k-means predictions
km2.predict(X[:300]).compute()

# %% PCA
pca = PCA(n_components=2, svd_solver="full").fit(X)
pca.explained_variance_ratio_, np.abs(pca.components_)

# %% PCA transform
da.fabs(pca.transform(X)).mean(axis=0).compute()

# %% truncated SVD
svd = TruncatedSVD(n_components=3, algorithm="tsqr").fit(X)
svd.singular_values_

# %% incremental PCA
ipca = IncrementalPCA(n_components=2).fit(X)
ipca.singular_values_

# %% naive Bayes
nb = GaussianNB().fit(X, y)
nb.predict(X).compute()[:20]

# %% parallel post fit
clf = ParallelPostFit(SVC(gamma="scale"), scoring="accuracy")
clf.fit(Xn[:300], yn[:300])
clf.predict(X).sum().compute()

# %% score of parallel post fit
round(clf.score(X, y), 3)

# %% post fit with gradient boosting
gb = ParallelPostFit(estimator=GradientBoostingClassifier(n_estimators=10, random_state=0)).fit(Xn, yn)
gb.predict_proba(X).compute()[:3].round(3)

# %% predictions on a dataframe
on_frame = ParallelPostFit(SkLogisticRegression(max_iter=200)).fit(train.drop(columns="y").compute(), train.y.compute())
len(on_frame.predict(frame.drop(columns="y")).compute())

# %% predictions by map_partitions
model = SkLogisticRegression(max_iter=200).fit(pd.DataFrame(Xn, columns=list("abcdef")), yn)
frame.drop(columns="y").map_partitions(
    lambda part: pd.Series(model.predict(part), index=part.index), meta=("p", "int64")
).sum().compute()

# %% incremental
inc = Incremental(SGDClassifier(random_state=0, shuffle=False), scoring="accuracy", shuffle_blocks=False)
inc.fit(X, y, classes=[0, 1])
inc.score(X, y) > 0.5

# %% partial fit over epochs
inc2 = Incremental(SGDClassifier(random_state=0, shuffle=False), shuffle_blocks=False)
for _ in range(3):
    inc2.partial_fit(X, y, classes=[0, 1])
inc2.predict(X).shape

# %% grid search
gs = GridSearchCV(SkLogisticRegression(max_iter=200), {"C": [0.1, 1.0, 10.0]}, cv=3)
gs.fit(Xn, yn)
gs.best_params_, round(gs.best_score_, 4)

# %% randomized search
rs = RandomizedSearchCV(SVC(), {"C": [0.1, 1, 10], "gamma": ["scale", "auto"]}, n_iter=3, cv=2, random_state=0)
rs.fit(X, y)
rs.best_params_

# %% k-fold
[(len(a), len(b)) for a, b in KFold(n_splits=4, shuffle=False).split(X)]

# %% shuffle split
for train_index, test_index in ShuffleSplit(n_splits=1, test_size=0.2, random_state=0).split(X):
    part = X[train_index].mean().compute()
len(train_index)

# %% metrics of regression
noisy = target + 0.1
mean_squared_error(target, noisy), mean_absolute_error(target, noisy)

# %% pairwise distances
pairwise_distances(X, Xn[:3]).min(axis=0).compute()

# %% blobs tags=["random"]
Xb, yb = make_blobs(n_samples=400, chunks=100, centers=3, random_state=0)
Xb.shape, yb.compute().max()

# %% made classification tags=["random"]
Xc, yc = make_classification(n_samples=400, n_features=5, chunks=100, random_state=0)
Xc.dtype, yc.shape

# %% joblib with Dask
import joblib

with joblib.parallel_backend("threading"):
    fitted = SkLogisticRegression(max_iter=100).fit(X.compute(), y.compute())
fitted.coef_.round(3)

# %% scikit-learn given a Dask array
SkLogisticRegression(max_iter=100).fit(X, y).score(X, y)
