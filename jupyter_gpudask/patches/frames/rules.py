"""What rules for dataframes are made of: the dtypes of columns, and expressions of Dask with other functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pandas as pd
from dask.dataframe.dask_expr._expr import Elemwise, determine_column_projection


def dtypes_of(data: Any) -> dict[Any, Any]:
    """The dtypes of the columns of a dataframe, by name; that of a Series or index by `None`."""
    return dict(data.dtypes.items()) if data.ndim > 1 else {None: getattr(data, "dtype", None)}


def of_columns(data: Any, dtypes: dict[Any, Any]) -> Any:
    """The argument of ``data.astype`` for `dtypes`, of which there is one if `data` is a Series."""
    return dtypes if data.ndim > 1 else next(iter(dtypes.values()))


def is_text(wanted: Any) -> bool:
    """Whether this is, or names, a dtype of texts, of pandas or of Arrow."""
    try:
        dtype = pd.api.types.pandas_dtype(wanted)
    except TypeError:
        return False
    return isinstance(dtype, pd.StringDtype) or (isinstance(dtype, pd.ArrowDtype) and dtype.type is str)


def meta_of(expression: Any) -> Any:
    """The metadata of an expression; `None` if it has none, but an error, which the caller of Dask gets from it."""
    try:
        return expression._meta  # noqa: SLF001
    except Exception:  # noqa: BLE001 - whatever it is
        return None


def with_operation(kind: Any, operation: Callable[..., Any], module: str) -> Any:
    """The class of Dask with another function of partitions; a global of `module` with this name can be pickled."""
    made = type(f"{kind.__name__}AsPandas", (kind,), {"operation": staticmethod(operation), "__module__": module})
    made.__doc__ = operation.__doc__
    return made


def with_fewer_columns(expression: Any, parent: Any, dependents: Any, needed: Any = ()) -> Any:
    """A projection of an expression whose dataframe has only its columns, and those `needed`; `None` if it has no more.

    Dask makes a Series of the dataframe if it is one column, which changes what some arguments mean.
    """
    wanted = determine_column_projection(expression, parent, dependents, additional_columns=list(needed))
    wanted = wanted if isinstance(wanted, list) else [wanted]
    columns = [name for name in expression.frame.columns if name in wanted]
    if columns == expression.frame.columns or not columns:
        return None
    return type(parent)(type(expression)(expression.frame[columns], *expression.operands[1:]), *parent.operands[1:])


class SameColumns(Elemwise):
    """An expression that has the columns and the rows of its dataframe: Dask selects columns below it."""

    _parameters = ["frame"]  # noqa: RUF012 - as in Dask
    _projection_passthrough = True
    _preserves_partitioning_information = True
