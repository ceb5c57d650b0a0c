"""String columns of text files that have no values in some blocks or files.

cuDF infers the dtypes of each part separately. A string column without values in one part is therefore a numeric column
in this part. Dask gives all parts the dtypes of the first one.
"""

from __future__ import annotations

from typing import Any

from dask._collections import new_collection
from dask.dataframe.dask_expr._expr import Elemwise

_TEXTS = ("object", "str", "string")


class WithTexts(Elemwise):
    """Partitions whose columns without values become string columns, if they have one of the given names."""

    _parameters = ["frame", "names"]  # noqa: RUF012 - as in Dask
    _projection_passthrough = True
    _preserves_partitioning_information = True

    @staticmethod
    def operation(frame: Any, names: tuple[Any, ...]) -> Any:
        """The result for one partition."""
        if frame.ndim == 1:
            return frame.astype("str") if frame.name in names and _is_empty(frame) else frame
        empty = [name for name in names if name in frame.columns and _is_empty(frame[name])]
        return frame.astype(dict.fromkeys(empty, "str")) if empty else frame


def _is_empty(column: Any) -> bool:
    """Whether a column is not one of texts, and has no value."""
    return str(column.dtype) not in _TEXTS and not column.notna().any()


def with_texts(frame: Any) -> Any:
    """A dataframe of text files in which columns of texts are such columns in each partition."""
    names = tuple(name for name, dtype in frame.dtypes.items() if str(dtype) in _TEXTS)
    return new_collection(WithTexts(frame.expr, names)) if names and frame.npartitions > 1 else frame
