# %% setup
import dask
import dask.dataframe as dd
import numpy as np
import pandas as pd

frame = pd.DataFrame(
    {
        "id": range(12),
        "name": ["Alice", "Bob", "Edith", "Frank"] * 3,
        "x": np.linspace(0, 1, 12),
        "y": [1.0, None, 3.0] * 4,
        "when": pd.date_range("2024-01-01", periods=12, freq="h"),
    }
)
df = dd.from_pandas(frame, npartitions=3)

# %% first rows
df.head()

# %% filter and select
df[df.x > 0.5][["name", "x"]].compute()

# %% mean of groups
df.groupby("name").x.mean().compute()

# %% several aggregations
df.groupby("name").agg({"x": ["min", "max"], "y": "sum"}).compute()

# %% counts
df.name.value_counts().compute()

# %% new columns
df.assign(z=df.x * 2 + df.id, big=df.x > 0.5).compute()

# %% missing values
df.y.fillna(0).sum().compute(), df.dropna().id.compute().tolist(), df.y.isna().sum().compute()

# %% fill with a limit
df.y.ffill(limit=1).compute()

# %% merge
ages = dd.from_pandas(pd.DataFrame({"name": ["Alice", "Bob"], "age": [30, 40]}), npartitions=1)
df.merge(ages, on="name", how="left")[["id", "age"]].compute().sort_values("id")

# %% sort and index
df.set_index("x").loc[0.3:0.7].compute()

# %% texts
df.name.str.upper().compute(), df.name.str.len().compute(), df[df.name.str.startswith("A")].id.compute()

# %% times
df.when.dt.hour.compute(), df.set_index("when").x.resample("4h").mean().compute()

# %% calendar months
days = pd.Series(range(90), index=pd.date_range("2024-01-01", periods=90))
dd.from_pandas(days, npartitions=3).resample("MS").sum().compute()

# %% time zones
df.when.dt.tz_localize("UTC").dt.tz_convert("Europe/Berlin").compute()

# %% rolling windows
df.x.rolling(3).mean().compute()

# %% rolling medians
df.x.rolling(3).median().compute()

# %% apply to rows
df.apply(lambda row: row.x + row.id, axis=1, meta=("total", "f8")).compute()

# %% apply to a column
df.name.apply(lambda name: name[::-1], meta=("name", "object")).compute()

# %% apply with a keyword
def scaled(value, factor=1):
    return value * factor


df.x.apply(scaled, factor=3, meta=("x", "f8")).compute()

# %% a function of partitions
def demeaned(part):
    return part.assign(x=part.x - part.x.mean())


df[["id", "x"]].map_partitions(demeaned).compute()

# %% a function of partitions that uses NumPy
df[["x"]].map_partitions(lambda part: part.assign(root=np.sqrt(part.x.to_numpy()))).compute()

# %% map by a dictionary
df.name.map({"Alice": 1, "Bob": 2, "Edith": 3, "Frank": 4}, meta=("name", "i8")).compute()

# %% query
df.query("x > 0.2 and id < 8").compute()

# %% quantiles and description
df.x.quantile([0.25, 0.75]).compute()

# %% describe
df[["x", "id"]].describe().compute()

# %% categories
df.name.astype("category").cat.as_known().cat.codes.compute()

# %% drop duplicates
df.drop_duplicates(subset="name").name.compute()

# %% clip by a series
df[["x", "id"]].clip(0.2, 5).compute()

# %% correlation
df[["x", "id"]].corr().compute()

# %% an aggregation of one's own
width = dd.Aggregation("width", lambda s: (s.max(), s.min()), lambda high, low: (high.max(), low.min()), lambda h, l: h - l)
df.groupby("name").agg({"x": width}).compute()

# %% from_map
def make(number):
    return pd.DataFrame({"number": [number, number + 1]})


dd.from_map(make, [0, 10, 20]).number.sum().compute()

# %% from_delayed
dd.from_delayed([dask.delayed(frame.head)(n) for n in (2, 3)]).id.sum().compute()

# %% rows one by one
[row.id for row in df.head(3).itertuples()]

# %% Parquet there and back
import tempfile

_folder = tempfile.mkdtemp()
df.to_parquet(_folder)
dd.read_parquet(_folder).x.sum().compute()

# %% to NumPy
np.asarray(df.x), df.x.to_dask_array(lengths=True).mean().compute()

# %% a result is used in pandas
result = df.groupby("name").x.sum().compute()
pd.to_timedelta(result, unit="s"), result.to_dict()

# %% rows of the largest values
df.x.nlargest(3).compute(), df.id.nsmallest(2).compute()

# %% pivot table
wide = df.assign(part=(df.id % 2).astype("int64")).categorize(columns=["part"])
wide.pivot_table(index="name", columns="part", values="x", aggfunc="sum").compute().sort_index()

# %% melt
df[["id", "x", "y"]].melt(id_vars="id").groupby("variable").value.sum().compute().sort_index()

# %% concatenate
dd.concat([df[["id", "x"]], df[["id", "x"]].assign(id=df.id + 100)]).id.sum().compute()

# %% rename, drop and astype
df.rename(columns={"x": "value"}).drop(columns=["y", "when"]).astype({"id": "float64"}).compute()

# %% cumulative statistics
df.x.cumsum().compute(), df.id.cumprod().tail(2), df.x.cummin().compute()

# %% number of unique values
df.name.nunique().compute(), df.groupby("name").id.nunique().compute().sort_index()

# %% a transform of groups
df.groupby("name").x.transform(lambda s: s - s.mean(), meta=("x", "f8")).compute().sort_index()

# %% a function of groups
df.groupby("name").apply(lambda g: g.x.max() - g.x.min(), meta=("span", "f8")).compute().sort_index()

# %% first and last of groups
df.groupby("name").id.first().compute().sort_index(), df.groupby("name").id.last().compute().sort_index()

# %% variance and correlation of columns
df.x.var().compute(), df[["x", "id"]].cov().compute()

# %% isin and between
df[df.name.isin(["Alice", "Bob"])].id.sum().compute(), df[df.x.between(0.2, 0.6)].id.compute()

# %% texts with patterns
df.name.str.contains("li").sum().compute(), df.name.str.replace("e", "E").compute(), df.name.str[:2].compute()

# %% CSV there and back
import tempfile
from pathlib import Path

_folder = Path(tempfile.mkdtemp())
df[["id", "x", "name"]].to_csv(str(_folder / "*.csv"), index=False)
dd.read_csv(str(_folder / "*.csv")).groupby("name").x.sum().compute().sort_index()

# %% an index and its partitions
by_id = df.set_index("id", sorted=True)
by_id.divisions, by_id.loc[3:5].x.compute(), by_id.get_partition(0).x.compute()

# %% iterate over partitions
[len(part) for part in df.partitions], len(df), df.columns.tolist()
