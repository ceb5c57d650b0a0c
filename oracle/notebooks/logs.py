# Web logs: texts, times, missing values and nullable dtypes with dask.dataframe

# %% imports and data
import dask.dataframe as dd
import numpy as np
import pandas as pd

rng = np.random.default_rng(11)
n = 3000
methods = rng.choice(["GET", "POST", "PUT"], n, p=[0.7, 0.2, 0.1])
paths = rng.choice(["/index.html", "/api/v1/users", "/api/v2/items/42", "/static/app.JS", "/über/straße"], n)
status = rng.choice([200, 200, 200, 301, 404, 500], n)
log = pd.DataFrame(
    {
        "time": pd.date_range("2024-03-01", periods=n, freq="47s"),
        "host": [f"10.0.{i % 7}.{i % 13}" for i in range(n)],
        "request": [f"{m} {p} HTTP/1.1" for m, p in zip(methods, paths)],
        "status": status,
        "bytes": np.where(status == 404, np.nan, rng.integers(100, 5000, n)),
        "agent": rng.choice(["Mozilla/5.0 (X11; Linux)", "curl/8.1", "python-requests/2.31", None], n),
    }
)
df = dd.from_pandas(log, npartitions=5)
df.tail()

# %% split the request
parts = df.request.str.split(" ", n=2, expand=True)
parts.columns = ["method", "path", "protocol"]
parts.method.value_counts().compute()

# %% first part
df["method"] = parts.method
df["path"] = df.request.str.extract(r" (\S+) ")[0]
df.groupby("method").status.mean().compute()

# %% extract with a pattern
df.request.str.extract(r"/api/v(\d)/(\w+)").compute().dropna().head()

# %% named groups
found = df.request.str.extract(r"(?P<verb>[A-Z]+) (?P<where>\S+)")
found.groupby("verb").size().compute()

# %% contains
df[df.request.str.contains("api")].shape[0].compute()

# %% contains without case
df.path.str.contains(".js", case=False, regex=False).sum().compute()

# %% contains and missing values
df.agent.str.contains("curl", na=False).mean().compute()

# %% starts with and ends with
(df.path.str.startswith("/api") & ~df.path.str.endswith("42")).sum().compute()

# %% replace a pattern
df.path.str.replace(r"\d+", "<n>", regex=True).value_counts().compute()

# %% replace with groups
df.host.str.replace(
    r"(\d+)\.(\d+)\.(\d+)\.(\d+)", r"\1.\2.\3.x", regex=True
).drop_duplicates().compute().sort_values().tolist()

# %% replace values
df.status.replace({301: 302, 500: 503}).value_counts().compute()

# %% replace texts
df.method.replace(["PUT", "POST"], "WRITE").value_counts().compute()

# %% upper, lower and title
sorted(df.path.str.upper().unique().compute())

# %% length
df.path.str.len().max().compute(), df.path.str.len().mean().compute()

# %% strip and slice
df.path.str.strip("/").str.slice(0, 3).value_counts().compute()

# %% numbers in texts
last = df.host.str.rsplit(".", n=1, expand=False).str[-1].astype(int)
last.sum().compute()

# %% zfill and cat
key = df.method.str.cat(df.status.astype(str).str.zfill(5), sep="-")
key.value_counts().compute()

# %% find all
df.request.str.findall(r"v\d").map(len, meta=("n", "int64")).sum().compute()

# %% count characters
df.path.str.count("/").max().compute()

# %% format of times
df.time.dt.strftime("%Y-%m-%d %H").value_counts().compute().sort_index().head()

# %% floor to hours
by_hour = df.assign(hour=df.time.dt.floor("h")).groupby("hour").bytes.sum()
by_hour.compute()

# %% errors each quarter of an hour
ts = df.set_index("time", sorted=True)
ts.status.ge(400).astype(int).resample("15min").sum().compute()

# %% resample of mean and count
ts.bytes.resample("1h").agg(["mean", "count"]).compute()

# %% ohlc-like
ts.bytes.resample("6h").max().compute(), ts.bytes.resample("6h").first().compute()

# %% last half hour
ts.loc["2024-03-02 10:00":"2024-03-02 10:30"].status.value_counts().compute()

# %% time differences
gaps = df.time.diff()
gaps.max().compute()

# %% shift by group of hosts
df[["time", "bytes"]].shift(1).bytes.sum().compute()

# %% time zones
local = df.time.dt.tz_localize("UTC").dt.tz_convert("Europe/Berlin")
local.dt.hour.value_counts().compute().sort_index()

# %% parts of times
calendar = df.assign(week=df.time.dt.isocalendar().week, dow=df.time.dt.dayofweek)
calendar.groupby(["week", "dow"]).size().compute()

# %% compare with a time
df[df.time >= "2024-03-02"].bytes.sum().compute()

# %% texts to times
texts = df.time.dt.strftime("%d/%m/%Y %H:%M:%S")
dd.to_datetime(texts, format="%d/%m/%Y %H:%M:%S").max().compute()

# %% texts to numbers
dd.to_numeric(df.status.astype(str)).sum().compute()

# %% missing values by column
df.isna().sum().compute()

# %% fill missing texts
df.agent.fillna("unknown").value_counts().compute()

# %% fill with the mean
df.bytes.fillna(df.bytes.mean()).sum().compute()

# %% drop rows with missing values
df.dropna(subset=["bytes", "agent"]).groupby("agent").bytes.mean().compute()

# %% forward fill
df.bytes.ffill().sum().compute()

# %% group missing keys
df.groupby("agent", dropna=False).size().compute()

# %% nullable integers
nullable = df.bytes.astype("Int64")
nullable.sum().compute(), nullable.dtype

# %% arithmetic of nullable integers
(nullable + 1).fillna(0).max().compute()

# %% nullable booleans
flag = (df.bytes > 2000).astype("boolean")
flag.sum().compute()

# %% nullable group-by
df.assign(bytes=nullable).groupby("method").bytes.agg(["sum", "count"]).compute()

# %% convert_dtypes of partitions
df[["bytes", "status"]].map_partitions(lambda part: part.convert_dtypes()).dtypes

# %% categories
cats = df.assign(method=df.method.astype("category"), agent=df.agent.astype("category"))
cats = cats.categorize(columns=["method", "agent"])
cats.method.cat.categories.tolist()

# %% group categories
cats.groupby("method", observed=False).bytes.mean().compute()

# %% codes
df.method.compute().astype("category").cat.codes.value_counts().sort_index()

# %% dummies
dd.get_dummies(cats[["method"]]).sum().compute()

# %% top hosts
df.host.value_counts().nlargest(3).compute()

# %% unique pairs
df[["method", "status"]].drop_duplicates().compute().sort_values(["method", "status"]).reset_index(drop=True)

# %% lists by group
df.groupby("status").method.agg(list).compute().sort_index().map(len)

# %% explode
df.assign(words=df.path.str.split("/")).explode("words").words.value_counts().compute()

# %% sessions by cumulative sum
new = df.time.diff() > pd.Timedelta("40s")
new.astype(int).cumsum().max().compute()

# %% where and mask
df.bytes.where(df.status == 200, 0).sum().compute(), df.bytes.mask(df.bytes > 3000).count().compute()

# %% to JSON and back
df[["host", "status"]].to_json("log-*.json", orient="records", lines=True)
dd.read_json("log-*.json", lines=True).status.sum().compute()

# %% texts of rows
for row in df.head(3).itertuples():
    line = f"{row.time:%H:%M} {row.host} {row.status}"
line

# %% apply a function to texts
df.agent.apply(
    lambda a: "bot" if isinstance(a, str) and "python" in a else "human", meta=("kind", "object")
).value_counts().compute()
