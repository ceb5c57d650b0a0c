"""Ways to create a dataframe, for tests: `make_frames` returns a function for each."""

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


def make_frames(folder):
    FRAME.to_csv(folder / "data.tsv", sep="\t", index=False)
    FRAME.to_json(folder / "data.json", orient="records", lines=True)
    FRAME.to_parquet(folder / "data.parquet")
    FRAME.to_orc(folder / "data.orc", index=False)
    (folder / "data.fwf").write_text(FRAME.to_string(index=False))
    database = f"sqlite:///{folder / 'data.db'}"
    FRAME.to_sql("data", database, index_label="row", if_exists="replace")
    rows = sqlalchemy.select(*(sqlalchemy.column(name) for name in ("row", "a", "b", "c"))).select_from(
        sqlalchemy.table("data")
    )
    return {
        "from_pandas": lambda: dd.from_pandas(FRAME, npartitions=2),
        "from_pandas bound before": lambda: from_pandas(FRAME, npartitions=2),
        "concat": lambda: dd.concat([FRAME, FRAME]),
        "from_delayed": lambda: dd.from_delayed([LATER], meta=FRAME.iloc[:0]),
        "from_delayed without meta": lambda: dd.from_delayed([LATER]),
        "from_dict": lambda: dd.from_dict({"a": [1, 2, 3, 4]}, npartitions=2),
        "from_array": lambda: dd.from_array(np.arange(12.0).reshape(3, 4), columns=list("abcd")),
        "from_map": lambda: dd.from_map(lambda number: FRAME.iloc[number : number + 2], [0, 2], meta=FRAME.iloc[:0]),
        "bag": lambda: db.from_sequence(FRAME.to_dict("records"), npartitions=2).to_dataframe(),
        "read_sql of nothing": lambda: dd.read_sql_query(rows.where(sqlalchemy.column("a") > 9), database, "row"),
        "timeseries": lambda: dask.datasets.timeseries("2000-01-01", "2000-01-03", freq="6h", seed=1),
        "timeseries of the demo": lambda: dd.demo.make_timeseries(
            "2000-01-01", "2000-01-03", {"x": float}, "6h", "1D", seed=1
        ),
        "with_spec": lambda: dd.demo.with_spec(dd.demo.DatasetSpec(npartitions=2, nrecords=10), seed=1),
        "read_table": lambda: dd.read_table(str(folder / "data.tsv")),
        "read_fwf": lambda: dd.read_fwf(str(folder / "data.fwf")),
        "read_csv": lambda: dd.read_csv(str(folder / "data.tsv"), sep="\t"),
        "read_json": lambda: dd.read_json(str(folder / "data.json"), lines=True),
        "read_orc": lambda: dd.read_orc(str(folder / "data.orc")),
        "read_parquet": lambda: dd.read_parquet(str(folder / "data.parquet")),
        "read_sql": lambda: dd.read_sql("data", database, "row", npartitions=2),
        "read_sql_query": lambda: dd.read_sql_query(rows, database, "row", npartitions=2),
        "read_sql_table": lambda: dd.read_sql_table("data", database, "row", npartitions=2),
    }


NAMES = [
    "bag",
    "concat",
    "from_array",
    "from_delayed",
    "from_delayed without meta",
    "from_dict",
    "from_map",
    "from_pandas",
    "from_pandas bound before",
    "read_csv",
    "read_fwf",
    "read_json",
    "read_orc",
    "read_parquet",
    "read_sql",
    "read_sql of nothing",
    "read_sql_query",
    "read_sql_table",
    "read_table",
    "timeseries",
    "timeseries of the demo",
    "with_spec",
]
