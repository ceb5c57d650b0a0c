# Taxi trips with dask.dataframe, after the tutorials
# needs: pyarrow

# %% imports and data
import dask
import dask.dataframe as dd
import numpy as np
import pandas as pd

rng = np.random.default_rng(10)
n = 6000
pickup = pd.Timestamp("2015-01-01") + pd.to_timedelta(rng.integers(0, 31 * 24 * 3600, n), unit="s")
trips = pd.DataFrame(
    {
        "VendorID": rng.integers(1, 3, n),
        "tpep_pickup_datetime": pickup,
        "tpep_dropoff_datetime": pickup + pd.to_timedelta(rng.integers(60, 7200, n), unit="s"),
        "passenger_count": rng.integers(0, 7, n),
        "trip_distance": rng.gamma(2, 2, n).round(2),
        "payment_type": rng.choice(["Credit", "Cash", "No charge", "Dispute"], n, p=[0.6, 0.35, 0.03, 0.02]),
        "fare_amount": rng.gamma(3, 5, n).round(2),
        "tip_amount": np.where(rng.random(n) < 0.6, rng.gamma(2, 1, n).round(2), 0),
        "PULocationID": rng.integers(1, 30, n),
    }
)
trips.iloc[:3000].to_parquet("trips-0.parquet")
trips.iloc[3000:].to_parquet("trips-1.parquet")
trips.to_csv("trips.csv", index=False)
len(trips)

# %% read Parquet
df = dd.read_parquet("trips-*.parquet")
df = df.repartition(npartitions=4)
df.head()

# %% number of rows
len(df), df.shape[1]

# %% types
df.dtypes

# %% passengers on average
df.passenger_count.mean().compute()

# %% trips by passengers
df.groupby("passenger_count").trip_distance.mean().compute()

# %% tip fraction
df2 = df[df.fare_amount > 0]
df2 = df2.assign(tip_fraction=df2.tip_amount / df2.fare_amount)
df2.tip_fraction.describe().compute()

# %% tips by hour
hour = df2.groupby(df2.tpep_pickup_datetime.dt.hour).tip_fraction.mean()
hour.compute()

# %% tips by day of week
df2.groupby(df2.tpep_pickup_datetime.dt.day_name()).tip_fraction.mean().compute().sort_index()

# %% duration
df["duration"] = (df.tpep_dropoff_datetime - df.tpep_pickup_datetime).dt.total_seconds()
df.duration.max().compute()

# %% speed
speed = df.trip_distance / (df.duration / 3600)
speed[speed < 100].mean().compute()

# %% payment types
df.payment_type.value_counts().compute()

# %% share of payment types
df.payment_type.value_counts(normalize=True).compute().round(3)

# %% sum and mean by payment
df.groupby("payment_type").agg({"fare_amount": ["sum", "mean"], "tip_amount": "max"}).compute().sort_index()

# %% named aggregation
df.groupby("VendorID").agg(
    total=("fare_amount", "sum"), longest=("trip_distance", "max"), trips=("tip_amount", "count")
).compute()

# %% longest trips
df.nlargest(5, "trip_distance")[["trip_distance", "fare_amount"]].compute()

# %% no tips by cash
((df.payment_type == "Cash") & (df.tip_amount > 0)).sum().compute()

# %% filter with a list
df[df.payment_type.isin(["Cash", "Credit"])].groupby("payment_type").size().compute()

# %% query
df.query("passenger_count > 2 and fare_amount < 20").fare_amount.count().compute()

# %% set the index to the time tags=["ties"]
ts = df.set_index("tpep_pickup_datetime")
ts.divisions[0], ts.npartitions

# %% select a day
ts.loc["2015-01-05"].fare_amount.sum().compute()

# %% resample to hours
hourly = ts.fare_amount.resample("1h").sum()
hourly.compute()

# %% resample to days with two functions
ts.resample("1D").agg({"fare_amount": "mean", "trip_distance": "max"}).compute()

# %% resample to weeks
ts.passenger_count.resample("7D").count().compute()

# %% rolling mean over a day
ts.fare_amount.rolling("1D").mean().compute().tail()

# %% join with zones
zones = pd.DataFrame({"LocationID": np.arange(1, 31), "Borough": np.resize(["Manhattan", "Queens", "Bronx"], 30)})
joined = df.merge(zones, left_on="PULocationID", right_on="LocationID", how="left")
joined.groupby("Borough").fare_amount.sum().compute()

# %% join with a Dask dataframe
dzones = dd.from_pandas(zones, npartitions=2)
df.merge(dzones, left_on="PULocationID", right_on="LocationID").Borough.value_counts().compute()

# %% pivot table
joined = joined.categorize(columns=["Borough"])
joined.pivot_table(index="VendorID", columns="Borough", values="fare_amount", aggfunc="mean").compute()

# %% map a code
df.VendorID.map({1: "Creative", 2: "VeriFone"}, meta=("vendor", "object")).value_counts().compute()


# %% map_partitions
def rush_hour(part):
    hours = part.tpep_pickup_datetime.dt.hour
    return part.assign(rush=hours.between(7, 9) | hours.between(16, 18))


df.map_partitions(rush_hour).groupby("rush").fare_amount.mean().compute()

# %% apply to rows
df.head(20, npartitions=-1).apply(lambda row: row.fare_amount + row.tip_amount, axis=1)

# %% apply with meta
df.apply(lambda row: row["fare_amount"] + row["tip_amount"], axis=1, meta=("total", "float64")).sum().compute()


# %% apply a function by group
def spread(group):
    return group.fare_amount.max() - group.fare_amount.min()


df.groupby("VendorID").apply(spread, meta=("spread", "float64")).compute().sort_index()

# %% quantiles
df.fare_amount.quantile([0.25, 0.5, 0.9]).compute().index.tolist()

# %% correlations
df[["fare_amount", "trip_distance", "tip_amount"]].corr().compute()

# %% cut into classes
bins = [0, 5, 10, 20, np.inf]
df.trip_distance.map_partitions(pd.cut, bins, labels=["short", "medium", "long", "very long"]).value_counts().compute()

# %% drop and rename
small = df.drop(columns=["VendorID"]).rename(columns={"tpep_pickup_datetime": "start"})
small.columns.tolist()

# %% read CSV
csv = dd.read_csv("trips.csv", parse_dates=["tpep_pickup_datetime", "tpep_dropoff_datetime"], blocksize="100KB")
csv.tpep_pickup_datetime.min().compute(), csv.npartitions

# %% read CSV with dtypes
csv2 = dd.read_csv("trips.csv", dtype={"payment_type": "category", "passenger_count": "float32"}, blocksize=200_000)
csv2.groupby("payment_type", observed=True).passenger_count.sum().compute()

# %% write Parquet by month
out = df.assign(day=df.tpep_pickup_datetime.dt.day)
out.to_parquet("by-vendor", partition_on=["VendorID"])
dd.read_parquet("by-vendor").groupby("VendorID", observed=True).size().compute()

# %% filters of Parquet
dd.read_parquet(
    "trips-*.parquet", filters=[("passenger_count", ">", 4)], columns=["passenger_count", "fare_amount"]
).sum().compute()

# %% cumulative fares
ts.fare_amount.cumsum().compute().iloc[-1].round(2)

# %% persist and compute two
p = df.persist()
dask.compute(p.fare_amount.sum(), p.tip_amount.sum())

# %% count of distinct
df.PULocationID.nunique().compute(), df.PULocationID.drop_duplicates().compute().sort_values().tolist()

# %% iterate over partitions
[len(df.get_partition(i)) > 0 for i in range(df.npartitions)]

# %% iterate over groups of a result
result = df.groupby("payment_type").fare_amount.sum().compute()
for kind, fare in result.items():
    print(kind, fare)
kind in set(result.index)

# %% items of a row
row = df.loc[df.fare_amount > 30].head(1)
row.iloc[0].to_dict()
