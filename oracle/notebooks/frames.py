# pandas-style analyses with dask.dataframe: joins, reshaping, windows, statistics

# %% imports and data
import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd

rng = np.random.default_rng(12)
n = 2000
sales = pd.DataFrame(
    {
        "order": np.arange(n),
        "store": rng.choice(list("ABCDE"), n),
        "item": rng.choice(["pen", "book", "lamp", "desk"], n),
        "quantity": rng.integers(1, 20, n),
        "price": rng.uniform(1, 200, n).round(2),
        "day": pd.Timestamp("2023-01-01") + pd.to_timedelta(np.sort(rng.integers(0, 365, n)), unit="D"),
        "returned": rng.random(n) < 0.05,
    }
)
stores = pd.DataFrame(
    {
        "store": list("ABCDF"),
        "city": ["Rome", "Oslo", "Lima", "Rome", "Kyiv"],
        "area": [120.0, 80.5, np.nan, 60.0, 45.0],
    }
)
df = dd.from_pandas(sales, npartitions=6)
info = dd.from_pandas(stores, npartitions=2)
df

# %% revenue
df["revenue"] = df.quantity * df.price
df.revenue.sum().compute()

# %% describe
df[["quantity", "price"]].describe().compute()

# %% info by dtype
df.select_dtypes("number").mean().compute()

# %% two keys
df.groupby(["store", "item"]).revenue.sum().compute().sort_index()

# %% unstack a result
df.groupby(["store", "item"]).quantity.sum().compute().unstack()

# %% many aggregations
df.groupby("store").agg(
    {"revenue": ["sum", "mean", "std"], "quantity": ["min", "max"], "item": "count"}
).compute().sort_index()

# %% custom aggregation
peak = dd.Aggregation("peak", lambda s: s.max(), lambda s: s.max())
df.groupby("item").agg({"price": peak}).compute().sort_index()

# %% range by aggregation
extent = dd.Aggregation(
    "extent", lambda s: (s.max(), s.min()), lambda hi, lo: (hi.max(), lo.min()), lambda hi, lo: hi - lo
)
df.groupby("item").price.agg(extent).compute().sort_index()

# %% inner join
df.merge(info, on="store").groupby("city").revenue.sum().compute()

# %% left join and missing values
left = df.merge(info, on="store", how="left")
left.city.isna().sum().compute()

# %% outer join with an indicator
df.merge(info, on="store", how="outer", indicator=True)._merge.value_counts().compute()

# %% join on the index
by_store = df.groupby("store").revenue.sum().to_frame()
by_store.join(info.set_index("store")).compute().sort_index()

# %% self join
daily = df.groupby("day").revenue.sum().reset_index()
daily.merge(
    daily.assign(day=daily.day + pd.Timedelta("7D")), on="day", suffixes=("", "_before")
).revenue_before.count().compute()

# %% as-of join
quotes = dd.from_pandas(
    pd.DataFrame({"day": pd.date_range("2023-01-01", periods=12, freq="MS"), "rate": np.linspace(1, 1.2, 12)}),
    npartitions=2,
)
dd.merge_asof(df[["day", "price"]], quotes, on="day").rate.mean().compute()

# %% concatenate
dd.concat([df[["order", "price"]], df[["order", "price"]].assign(order=df.order + n)]).order.max().compute()

# %% melt
df[["order", "quantity", "price"]].melt(id_vars="order").groupby("variable").value.sum().compute()

# %% pivot table of sums
known = df.categorize(columns=["item"])
known.pivot_table(index="store", columns="item", values="quantity", aggfunc="sum").compute()

# %% crosstab of a result
pd.crosstab(df.store.compute(), df.item.compute())

# %% rolling mean of days
daily_ = df.groupby("day").revenue.sum().compute()
dd.from_pandas(daily_, npartitions=3).rolling(7).mean().compute()

# %% rolling with centre
dd.from_pandas(daily_, npartitions=3).rolling(5, center=True, min_periods=1).max().compute()

# %% rolling apply
dd.from_pandas(daily_, npartitions=2).rolling(3).apply(lambda x: x[-1] - x[0], raw=True).compute()

# %% expanding by cumulative functions
cum = dd.from_pandas(daily_, npartitions=3)
(cum.cumsum() / cum.sum()).compute()

# %% percentage change
(cum / cum.shift(1) - 1).compute()

# %% resample a month
cum.resample("MS").sum().compute()

# %% resample weeks
cum.resample("W").mean().compute()

# %% resample quarters
cum.resample("QS").count().compute()

# %% difference from the mean of a group
means = df.groupby("item").price.transform("mean", meta=("price", "float64"))
means.compute().describe()

# %% rank by partition
df.map_partitions(lambda part: part.price.rank(), meta=("rank", "float64")).max().compute()

# %% sort
df.sort_values("price", ascending=False).head(5)[["price"]]

# %% sort by two
df.sort_values(["store", "price"]).store.compute().tolist()[:3]

# %% largest in each group
df.groupby("store").price.max().compute(), df.groupby("store").price.idxmax().compute().sort_index()

# %% first order of each store
df.groupby("store").first().compute().sort_index()[["order", "item"]]

# %% cumulative by group
df.groupby("store").quantity.cumsum().compute()

# %% cut
df.quantity.map_partitions(pd.cut, [0, 5, 10, 20]).value_counts().compute()

# %% quantile cut of a result
pd.qcut(df.price.compute(), 4, labels=False).value_counts().sort_index()

# %% clip and round
df.price.clip(10, 100).round(0).sum().compute()

# %% conditions with np.where
flagged = df.assign(size=da.where((df.quantity > 10).to_dask_array(lengths=True), 1, 0))
flagged["size"].sum().compute()

# %% case by mask
level = df.price.mask(df.price < 50, 0).mask(df.price >= 150, 2)
level.mean().compute()

# %% isin and between
df[df.store.isin(["A", "B"]) & df.price.between(20, 60)].shape[0].compute()

# %% loc with columns
df.loc[df.returned, ["store", "price"]].compute()

# %% sample by hash
df[df.order % 10 == 0].price.mean().compute()

# %% drop duplicates by subset
df.drop_duplicates(subset=["store", "item"]).shape[0].compute()

# %% value counts of bins
df.price.floordiv(50).astype(int).value_counts().compute().sort_index()

# %% mode
df.item.mode().compute()

# %% covariance
df[["quantity", "price", "revenue"]].cov().compute()

# %% variance, skewness, kurtosis
df.price.var().compute(), df.price.skew().compute(), df.price.kurtosis().compute()

# %% memory and number of partitions
df.npartitions, df.repartition(npartitions=2).npartitions

# %% partitions
df.partitions[1].order.min().compute()

# %% to arrays
x = df[["quantity", "price"]].to_dask_array(lengths=True)
x.mean(axis=0).compute()

# %% values
df.price.values.compute()[:5]

# %% from arrays
made = dd.from_dask_array(da.from_array(rng.normal(size=(100, 2)), chunks=(25, 2)), columns=["u", "v"])
made.assign(w=made.u * made.v).sum().compute()


# %% from delayed
@dask.delayed
def load(i):
    return pd.DataFrame({"i": [i] * 3, "x": np.arange(3.0) * i})


loaded = dd.from_delayed([load(i) for i in range(4)])
loaded.groupby("i").x.sum().compute()

# %% from map
dd.from_map(lambda i: pd.DataFrame({"i": [i], "sq": [i * i]}), range(5)).sq.sum().compute()

# %% reduction
df.quantity.reduction(lambda s: s.sum(), aggregate=lambda s: s.max()).compute()

# %% map_overlap
df[["price"]].map_overlap(lambda part: part.rolling(3).mean(), 2, 0).compute().price.count()

# %% apply along columns
df[["quantity", "price"]].apply(
    lambda row: row.quantity * row.price if row.price > 20 else 0, axis=1, meta=(None, "float64")
).sum().compute()

# %% eval
df.eval("total = quantity * price - 5").total.mean().compute()


# %% pipe
def with_tax(frame, rate):
    return frame.assign(gross=frame.price * (1 + rate))


df.pipe(with_tax, 0.19).gross.max().compute()


# %% shuffle and group-apply
def best(group):
    return group.nlargest(1, "revenue")[["order", "revenue"]]


df.groupby("store")[["order", "revenue"]].apply(
    best, meta={"order": "int64", "revenue": "float64"}
).compute().revenue.sort_values().tolist()

# %% to dictionary
df.groupby("item").price.mean().compute().round(2).to_dict()

# %% index and reset
df.set_index("order").loc[100:105].reset_index().compute()

# %% boolean columns
df.groupby("store").returned.mean().compute(), df.returned.any().compute()

# %% combine columns of text
(df.store + "-" + df.item).value_counts().nlargest(3).compute().shape
