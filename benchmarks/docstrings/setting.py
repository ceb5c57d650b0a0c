"""What docstrings take for granted: names that examples use without making them, and files that they read."""

from __future__ import annotations

import contextlib
import importlib
import pkgutil
from typing import TYPE_CHECKING, Any

import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd

if TYPE_CHECKING:
    from pathlib import Path

_ROWS = 21

_COLLECTIONS = """
x = da.from_array(np.random.default_rng(0).normal(size=(200, 30)), chunks=(50, 30))
df = ddf = dd.from_pandas(frame, npartitions=4)
series, a, b = df.x, df.partitions[:2], df.partitions[2:]
"""


def scope_of(name: str, *, with_collections: bool) -> dict[str, Any]:
    """The names that the examples of the docstring `name` begin with.

    Parameters
    ----------
    name
        Such as ``da.linalg.qr``; the function goes by its own last name, too.
    with_collections
        Whether the examples may use an array ``x`` and a frame ``df`` that they do not make.
    """
    # A user's module, to code that looks at who calls it.
    scope: dict[str, Any] = {"__name__": "__main__", "dask": dask, "np": np, "pd": pd, "da": da, "dd": dd}
    for long, short in (("dask.array", "da"), ("dask.dataframe", "dd")):
        if name.partition(".")[0] == short:
            name = long + name.removeprefix(short)
    if not name.startswith("dask."):
        scope["cudf"], scope["dask_cudf"] = (importlib.import_module(library) for library in ("cudf", "dask_cudf"))
    with contextlib.suppress(AttributeError):  # the classes of accessors go by other names
        scope.setdefault(name.rpartition(".")[2], pkgutil.resolve_name(name))
    if with_collections:
        exec(_COLLECTIONS, scope | {"frame": _frame()}, scope)  # noqa: S102 - made as a user makes them
    return scope


def write_files(folder: Path) -> None:
    """Write the files that examples read."""
    frame = _frame().rename(columns={"x": "a", "y": "b"})
    for name in ("myfiles.0.csv", "myfiles.1.csv", "largefile.csv", "sample.csv", "0.csv", "1.csv", "2.csv"):
        frame.to_csv(folder / name, index=False)
    for name in ("myfile.json", "myfile.1.json", "myfile.2.json"):
        frame.to_json(folder / name, orient="records", lines=True)


def _frame() -> pd.DataFrame:
    numbers = np.arange(_ROWS)
    return pd.DataFrame(
        {"x": numbers * 8 % _ROWS, "y": numbers / 4, "name": [f"name {number % 5}" for number in numbers]}
    )
