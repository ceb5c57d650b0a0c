# Preprocessing with dask-ml, after its documentation and examples
# needs: dask_ml

# %% imports and data
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
from dask_ml.impute import SimpleImputer
from dask_ml.preprocessing import (
    BlockTransformer,
    Categorizer,
    DummyEncoder,
    LabelEncoder,
    MinMaxScaler,
    OneHotEncoder,
    OrdinalEncoder,
    PolynomialFeatures,
    QuantileTransformer,
    RobustScaler,
    StandardScaler,
)
from sklearn.pipeline import make_pipeline

rng = np.random.default_rng(5)
X = da.from_array(rng.normal(loc=3, scale=2, size=(2000, 5)), chunks=(500, 5))
pdf = pd.DataFrame(
    {
        "age": rng.integers(18, 90, 1000),
        "fare": rng.gamma(2, 15, 1000).round(2),
        "sex": rng.choice(["male", "female"], 1000),
        "port": rng.choice(["S", "C", "Q"], 1000),
    }
)
pdf.loc[::17, "fare"] = np.nan
ddf = dd.from_pandas(pdf, npartitions=4)
ddf.head()

# %% standard scaler of an array
scaler = StandardScaler()
scaled = scaler.fit_transform(X)
scaled.mean(axis=0).compute(), scaled.std(axis=0).compute()

# %% fitted attributes
scaler.mean_, scaler.scale_

# %% inverse transform
scaler.inverse_transform(scaled)

# %% standard scaler of a dataframe
numbers = ddf[["age", "fare"]].fillna({"fare": 0.0})
StandardScaler().fit_transform(numbers).compute()

# %% min-max scaler
mm = MinMaxScaler(feature_range=(0, 2)).fit(X)
mm.transform(X).max(axis=0).compute()

# %% min-max scaler of a dataframe
MinMaxScaler().fit_transform(numbers).describe().compute()

# %% robust scaler
robust = RobustScaler().fit(X)
robust.transform(X)[:10]

# %% quantile transformer
qt = QuantileTransformer(n_quantiles=50, random_state=0)
qt.fit_transform(X).mean(axis=0).compute().round(2)

# %% polynomial features
poly = PolynomialFeatures(degree=2)
expanded = poly.fit_transform(X)
expanded.sum(axis=0).compute()

# %% polynomial features of a dataframe
PolynomialFeatures(2, preserve_dataframe=True).fit_transform(numbers).mean().compute()

# %% categorizer
cat = Categorizer()
categorized = cat.fit_transform(ddf)
categorized.dtypes

# %% dummies
dummies = DummyEncoder().fit_transform(categorized)
dummies.sum().compute()

# %% dummies with the first left out
encoder = DummyEncoder(drop_first=True)
encoder.fit(categorized)
encoder.transform(categorized).columns.tolist()

# %% ordinal encoder
ordinal = OrdinalEncoder().fit_transform(categorized)
ordinal.head()

# %% pipeline of categories
pipe = make_pipeline(Categorizer(), OrdinalEncoder())
pipe.fit_transform(ddf).port.value_counts().compute()

# %% label encoder of an array
y = da.from_array(rng.choice(["cat", "dog", "bird"], 2000), chunks=500)
le = LabelEncoder()
codes = le.fit_transform(y)
codes[:10].compute(), le.classes_

# %% label encoder of integers
le2 = LabelEncoder()
le2.fit_transform(da.from_array(rng.integers(10, 15, 2000), chunks=500))

# %% label encoder of a categorical series
LabelEncoder().fit_transform(categorized["sex"]).compute()[:20]

# %% one-hot encoder of an array
ohe = OneHotEncoder(sparse_output=False)
ohe.fit_transform(da.from_array(rng.integers(0, 4, (400, 1)), chunks=(100, 1))).compute()[:5]

# %% one-hot encoder of a dataframe
OneHotEncoder(sparse_output=False).fit_transform(categorized[["sex", "port"]]).sum().compute()

# %% imputer with the mean
imputer = SimpleImputer(strategy="mean")
filled = imputer.fit_transform(ddf[["age", "fare"]])
filled.fare.sum().compute()

# %% imputer with a constant
SimpleImputer(strategy="constant", fill_value=-1).fit_transform(ddf[["fare"]]).min().compute()

# %% imputer of an array
holes = da.where(X > 6, np.nan, X)
SimpleImputer().fit(holes).statistics_

# %% block transformer
log = BlockTransformer(np.log1p)
log.transform(da.fabs(X)).mean().compute()


# %% block transformer of a dataframe
def add_features(df):
    return df.assign(per_year=df.fare / df.age)


BlockTransformer(add_features).transform(ddf).per_year.mean().compute()

# %% scaling by hand
centred = (X - X.mean(axis=0)) / X.std(axis=0)
da.allclose(centred, scaled).compute()
