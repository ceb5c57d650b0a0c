"""Creation functions that Dask does not dispatch: called in a cell for GPUs, they give collections on GPUs too.

Dask reads its backend settings in a few creation functions only. The others are intercepted here, whatever name they
are called by: ``da.linspace``, or ``linspace`` that was imported before the cell. Calls from Dask's own code stay as
they are.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import dask.array as da
import dask.dataframe as dd
from dask.array.backends import array_creation_dispatch
from dask.base import is_dask_collection
from dask.dataframe.backends import dataframe_creation_dispatch

from .interception import intercept
from .placement import can_move, place_of, to_gpu

if TYPE_CHECKING:
    from collections.abc import Callable

ARRAY_FUNCTIONS = (
    "array",
    "asanyarray",
    "asarray",
    "diag",
    "eye",
    "from_array",
    "from_delayed",
    "from_npy_stack",
    "from_zarr",
    "fromfunction",
    "indices",
    "linspace",
    "meshgrid",
    "tri",
)
"""Of `dask.array`: their blocks are made on the host of the worker, and moved to its GPU in the same task."""

FRAME_FUNCTIONS = (
    "from_array",
    "from_delayed",
    "from_map",
    "from_pandas",
    "read_fwf",
    "read_sql",
    "read_sql_query",
    "read_sql_table",
    "read_table",
)
"""Of `dask.dataframe`: likewise."""


def install_creation_functions() -> None:
    """Intercept the functions; a second time does nothing."""
    for name in ARRAY_FUNCTIONS:
        intercept(getattr(da, name), _finishing(_array_to_gpu))
    for name in FRAME_FUNCTIONS:
        intercept(getattr(dd, name), _finishing(_frame_to_gpu))


def _finishing(finish: Callable[[Any], Any]) -> Callable[..., Any]:
    """Pass what a function gives through `finish`, where it is not Dask's own code that calls it."""

    def around(original: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        __tracebackhide__ = True
        result = original(*args, **kwargs)
        caller = sys._getframe(3).f_globals.get("__name__", "")  # noqa: SLF001 - the caller decides
        if caller.partition(".")[0] in ("dask", "dask_cudf") or any(_is_on_host(arg) for arg in args):
            return result
        return finish(result)

    return around


def _is_on_host(value: Any) -> bool:
    """Whether a collection from outside the cell stays on the CPU, and what is made of it too."""
    return is_dask_collection(value) and place_of(value) == "host"


def _array_to_gpu(result: Any) -> Any:
    if array_creation_dispatch.backend != "cupy":
        return result
    if isinstance(result, list | tuple):
        return type(result)(_array_to_gpu(part) for part in result)
    return to_gpu(result) if _is_on_host(result) and can_move(result) else result


def _frame_to_gpu(result: Any) -> Any:
    if dataframe_creation_dispatch.backend != "cudf" or not _is_on_host(result):
        return result
    return to_gpu(result)
