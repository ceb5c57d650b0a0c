# %% setup
import dask
import dask.dataframe as dd
import numpy as np
import pandas as pd

index = pd.date_range("2024-01-01", periods=240, freq="h", name="time")
values = pd.DataFrame({"price": 100 + np.sin(np.arange(240) / 7), "volume": np.arange(240) % 13}, index=index)
ts = dd.from_pandas(values, npartitions=6)

# %% daily means
ts.price.resample("1D").mean().compute()

# %% several statistics of days
ts.resample("1D").agg({"price": ["min", "max"], "volume": "sum"}).compute()

# %% one day by its name
ts.loc["2024-01-03"].volume.sum().compute()

# %% a period of time
ts.loc["2024-01-02 06:00":"2024-01-02 12:00"].price.compute()

# %% a rolling mean
ts.price.rolling(24).mean().compute()

# %% a rolling window of time
ts.volume.rolling("6h").sum().compute()

# %% differences
ts.price.diff().compute(), ts.price.shift(1).tail(3)

# %% returns
(ts.price / ts.price.shift(1) - 1).dropna().std().compute()

# %% cumulative sums
ts.volume.cumsum().compute(), ts.volume.cummax().tail(2)

# %% by hour of the day
ts.groupby(ts.index.hour).price.mean().compute().sort_index()

# %% by day of the week
frame = ts.reset_index()
frame.assign(weekday=frame.time.dt.dayofweek).groupby("weekday").volume.sum().compute().sort_index()

# %% parts of the date
frame = ts.reset_index()
frame.time.dt.day.compute(), frame.time.dt.month.nunique().compute(), frame.time.dt.dayofweek.max().compute()

# %% gaps are filled
holes = ts.price.where(ts.volume > 3)
holes.ffill().sum().compute(), holes.bfill().mean().compute(), holes.isna().sum().compute()

# %% two series are joined
other = dd.from_pandas(pd.DataFrame({"rate": np.arange(240) / 240}, index=index), npartitions=4)
ts.join(other).rate.sum().compute()

# %% the last quote before
trades = pd.DataFrame({"time": index[[5, 50, 200]] + pd.Timedelta("10min"), "n": [1, 2, 3]})
quotes = ts.reset_index()[["time", "price"]]
dd.merge_asof(dd.from_pandas(trades, npartitions=1), quotes, on="time").compute()

# %% time from text
texts = dd.from_pandas(pd.Series(["2024-01-05", "2024-02-06"]), npartitions=1)
dd.to_datetime(texts).compute()

# %% time differences
frame = ts.reset_index()
gap = frame.time.diff().max().compute()
pd.Timedelta(gap).total_seconds()

# %% the largest moment
ts.price.idxmax().compute(), ts.volume.nlargest(3).compute()

# %% weeks as partitions
weekly = ts.repartition(freq="7D")
weekly.npartitions, weekly.volume.sum().compute()

# %% an exponential mean of partitions
ts.map_partitions(lambda part: part.price.ewm(span=5).mean(), meta=("price", "f8")).head(3)

# %% a table of months and hours
frame = ts.assign(half=(ts.index.hour >= 12).astype(int)).reset_index()
frame.groupby("half").agg({"price": "mean", "volume": ["count", "sum"]}).compute()
