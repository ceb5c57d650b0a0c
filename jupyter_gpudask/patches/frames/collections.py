"""The collections of dataframes and series on GPUs: those of dask_cudf, whose methods are called by `methods`.

Dask chooses the class of a collection by the type of its metadata; it is told of these classes in place of those of
dask_cudf. Imported only where there is cuDF.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import cudf
import dask_cudf
from dask.dataframe import get_collection_type
from dask.dataframe.dispatch import get_parallel_type

from ..interception import calling
from ..user_functions import apply_with_cudf_meta
from .methods import call_method

if TYPE_CHECKING:
    from collections.abc import Callable

_METHODS = (
    "abs",
    "align",
    "clip",
    "combine",
    "corr",
    "cov",
    "describe",
    "dot",
    "groupby",
    "isin",
    "kurtosis",
    "mask",
    "median",
    "mode",
    "quantile",
    "rename_axis",
    "replace",
    "sem",
    "skew",
    "std",
    "var",
    "where",
)
"""Methods that dask_cudf or cuDF may refuse before there is an expression, or that return something else; see
`differences`."""


class DataFrame(dask_cudf.DataFrame):  # type: ignore[misc]
    """As that of dask_cudf."""


class Series(dask_cudf.Series):  # type: ignore[misc]
    """As that of dask_cudf."""


_CALLED: dict[type, dict[str, Callable[..., Any]]] = {
    DataFrame: dict.fromkeys((*_METHODS, "set_index", "sort_values"), call_method) | {"apply": apply_with_cudf_meta},
    Series: dict.fromkeys(_METHODS, call_method) | dict.fromkeys(("apply", "map"), apply_with_cudf_meta),
}


for _class, _methods in _CALLED.items():
    for _name, _wrapper in _methods.items():
        if hasattr(_class, _name):
            setattr(_class, _name, calling(_wrapper, getattr(_class, _name)))

_CLASSES = ((cudf.DataFrame, DataFrame, dask_cudf.DataFrame), (cudf.Series, Series, dask_cudf.Series))


def register() -> None:
    """Let Dask make collections of these classes for metadata of cuDF."""
    for meta, ours, _ in _CLASSES:
        _register(meta, ours)


def unregister() -> None:
    """Let it make those of dask_cudf again."""
    for meta, _, theirs in _CLASSES:
        _register(meta, theirs)


def _register(meta: type, collection: type) -> None:
    get_collection_type.register(meta, lambda _: collection)
    get_parallel_type.register(meta, lambda _: collection)
