"""Ways to create a dataframe, for tests: `make_frames` returns a function for each."""

from functools import partial

import dask
import dask.bag as db
import dask.dataframe as dd
import dask.datasets
import numpy as np
import pandas as pd
import sqlalchemy
from dask.dataframe import from_pandas


def make_frame():
    return FRAME


LATER = dask.delayed(make_frame)()
FRAME = pd.DataFrame({"a": [1, 2, 3, 4], "b": [1.5, 2.5, None, 4.5], "c": list("wxyz")})


ROWS = sqlalchemy.select(*(sqlalchemy.column(name) for name in ("row", "a", "b", "c"))).select_from(
    sqlalchemy.table("data")
)
WAYS = {
    "from_pandas": lambda _: dd.from_pandas(FRAME, npartitions=2),
    "from_pandas bound before": lambda _: from_pandas(FRAME, npartitions=2),
    "concat": lambda _: dd.concat([FRAME, FRAME]),
    "from_delayed": lambda _: dd.from_delayed([LATER], meta=FRAME.iloc[:0]),
    "from_delayed without meta": lambda _: dd.from_delayed([LATER]),
    "from_dict": lambda _: dd.from_dict({"a": [1, 2, 3, 4]}, npartitions=2),
    "from_array": lambda _: dd.from_array(np.arange(12.0).reshape(3, 4), columns=list("abcd")),
    "from_map": lambda _: dd.from_map(lambda number: FRAME.iloc[number : number + 2], [0, 2], meta=FRAME.iloc[:0]),
    "bag": lambda _: db.from_sequence(FRAME.to_dict("records"), npartitions=2).to_dataframe(),
    "read_sql of nothing": lambda f: dd.read_sql_query(
        ROWS.where(sqlalchemy.column("a") > 9), f"sqlite:///{f}.db", "row"
    ),
    "timeseries": lambda _: dask.datasets.timeseries("2000-01-01", "2000-01-03", freq="6h", seed=1),
    "timeseries of the demo": lambda _: dd.demo.make_timeseries(
        "2000-01-01", "2000-01-03", {"x": float}, "6h", "1D", seed=1
    ),
    "with_spec": lambda _: dd.demo.with_spec(dd.demo.DatasetSpec(npartitions=2, nrecords=10), seed=1),
    "read_table": lambda f: dd.read_table(f"{f}.tsv"),
    "read_fwf": lambda f: dd.read_fwf(f"{f}.fwf"),
    "read_csv": lambda f: dd.read_csv(f"{f}.tsv", sep="\t"),
    "read_json": lambda f: dd.read_json(f"{f}.json", lines=True),
    "read_orc": lambda f: dd.read_orc(f"{f}.orc"),
    "read_parquet": lambda f: dd.read_parquet(f"{f}.parquet"),
    "read_sql": lambda f: dd.read_sql("data", f"sqlite:///{f}.db", "row", npartitions=2),
    "read_sql_query": lambda f: dd.read_sql_query(ROWS, f"sqlite:///{f}.db", "row", npartitions=2),
    "read_sql_table": lambda f: dd.read_sql_table("data", f"sqlite:///{f}.db", "row", npartitions=2),
}


def make_frames(folder):
    FRAME.to_csv(folder / "data.tsv", sep="\t", index=False)
    FRAME.to_json(folder / "data.json", orient="records", lines=True)
    FRAME.to_parquet(folder / "data.parquet")
    FRAME.to_orc(folder / "data.orc", index=False)
    (folder / "data.fwf").write_text(FRAME.to_string(index=False))
    FRAME.to_sql("data", f"sqlite:///{folder / 'data.db'}", index_label="row", if_exists="replace")
    return {name: partial(make, folder / "data") for name, make in WAYS.items()}
