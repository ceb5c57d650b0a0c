"""Creation functions that Dask does not dispatch: called in a cell for GPUs, they give collections on GPUs too.

Dask reads its backend settings in a few creation functions only. The others are intercepted here, whatever name they
are called by: ``da.linspace``, or ``linspace`` that was imported before the cell. Calls from Dask's own code are those
of `company`.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import dask.array as da
import dask.dataframe as dd
import dask.datasets
from dask.array.backends import array_creation_dispatch
from dask.bag import Bag
from dask.base import is_dask_collection
from dask.dataframe.backends import dataframe_creation_dispatch
from dask.dataframe.io import demo

from ..inspection.placement import can_move, place_of, to_gpu
from .interception import calling_frame, intercept

if TYPE_CHECKING:
    from collections.abc import Callable

ARRAY_FUNCTIONS = (
    "array",
    "asanyarray",
    "asarray",
    "block",
    "concatenate",
    "diag",
    "diagonal",
    "dstack",
    "empty_like",
    "eye",
    "from_array",
    "from_delayed",
    "from_npy_stack",
    "from_zarr",
    "fromfunction",
    "full_like",
    "hstack",
    "indices",
    "linspace",
    "meshgrid",
    "ones_like",
    "pad",
    "stack",
    "tile",
    "tri",
    "tril_indices",
    "triu_indices",
    "vstack",
    "zeros_like",
)
"""Of `dask.array`: what they make of numbers and NumPy's arrays is made on the worker's host and moved to its GPU."""

FRAME_FUNCTIONS = (
    "concat",
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

ELSEWHERE = (dask.datasets.timeseries, demo.make_timeseries, demo.with_spec, Bag.to_dataframe)
"""Of other modules: frames, likewise."""

_NUMBERS = (bool, int, float, complex, str)


def install_creation_functions() -> None:
    """Intercept the functions; a second time does nothing."""
    for name in ARRAY_FUNCTIONS:
        intercept(getattr(da, name), _finishing(_array_to_gpu, array_creation_dispatch, "cupy"))
    for name in FRAME_FUNCTIONS:
        intercept(getattr(dd, name), _finishing(_frame_to_gpu, dataframe_creation_dispatch, "cudf"))
    for function in ELSEWHERE:
        intercept(function, _finishing(_frame_to_gpu, dataframe_creation_dispatch, "cudf"))


@cache
def _finishing(finish: Callable[[Any], Any], dispatch: Any, backend: str) -> Callable[..., Any]:
    """Pass what a function gives under `backend` through `finish`, where it is not Dask's own code that calls it."""

    def around(original: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        __tracebackhide__ = True
        result = original(*args, **kwargs)
        if dispatch.backend != backend:
            return result
        caller = calling_frame().f_globals.get("__name__", "")
        if caller.partition(".")[0] in ("dask", "dask_cudf") or _has_collection_of_host([*args, *kwargs.values()]):
            return result
        return finish(result)

    return around


def _has_collection_of_host(value: Any) -> bool:
    if isinstance(value, list | tuple):
        return any(_has_collection_of_host(part) for part in value if type(part) not in _NUMBERS)
    return _is_on_host(value)


def _is_on_host(value: Any) -> bool:
    """Whether a collection from outside the cell stays on the CPU, and what is made of it too."""
    return is_dask_collection(value) and place_of(value) == "host"


def _array_to_gpu(result: Any) -> Any:
    if isinstance(result, list | tuple):
        return type(result)(_array_to_gpu(part) for part in result)
    return to_gpu(result) if _is_on_host(result) and can_move(result) else result


def _frame_to_gpu(result: Any) -> Any:
    return to_gpu(result) if _is_on_host(result) else result
