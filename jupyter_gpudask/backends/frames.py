"""Mends of Dask's dataframes under the cuDF backend."""

from __future__ import annotations

from typing import Any

from dask.dataframe.dask_expr.io import parquet
from dask.utils import typename


def install_frame_backend() -> None:
    """Have ``to_parquet`` of a pandas frame write as pandas does, in every cell; a second time does nothing."""
    if hasattr(parquet._set_parquet_engine, "mended"):  # noqa: SLF001
        return
    choose: Any = parquet._set_parquet_engine  # noqa: SLF001

    def choose_by_the_frame(engine: Any = None, meta: Any = None) -> Any:
        if engine is None and meta is not None and not typename(type(meta)).startswith("cudf"):
            return "pyarrow"
        return choose(engine=engine, meta=meta)

    choose_by_the_frame.mended = True  # type: ignore[attr-defined]
    parquet._set_parquet_engine = choose_by_the_frame  # noqa: SLF001
