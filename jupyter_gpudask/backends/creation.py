"""Creation functions that Dask does not dispatch: called in a cell for GPUs, they give collections on GPUs too.

Dask reads its backend settings in a few creation functions only. The others are intercepted here, whatever name they
are called by: ``da.linspace``, or ``linspace`` that was imported before the cell. Calls from Dask's own code stay as
they are.
"""

from __future__ import annotations

import inspect
import sys
from types import FunctionType
from typing import TYPE_CHECKING, Any

import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
from dask.array.backends import array_creation_dispatch
from dask.base import is_dask_collection
from dask.dataframe.backends import dataframe_creation_dispatch

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

_NUMBERS = "biufc"
_HOOK = "_jupyter_gpudask_{name}"


def install_creation_functions() -> None:
    """Intercept the functions; a second time does nothing."""
    for name in ARRAY_FUNCTIONS:
        _intercept(getattr(da, name), _array_to_gpu)
    for name in FRAME_FUNCTIONS:
        _intercept(getattr(dd, name), _frame_to_gpu)


def _intercept(function: FunctionType, finish: Callable[[Any], Any]) -> None:
    """Have every call of `function` from outside Dask pass its result through `finish`.

    The function object stays the same, for it may be bound to other names already; its code is exchanged for a call of
    a hook in its module.
    """
    hook = _HOOK.format(name=function.__name__)
    if hook in function.__globals__:
        return
    original = FunctionType(
        function.__code__, function.__globals__, function.__name__, function.__defaults__, function.__closure__
    )
    original.__kwdefaults__ = function.__kwdefaults__
    signature = inspect.signature(function)

    def call(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        __tracebackhide__ = True
        result = original(*args, **kwargs)
        caller = sys._getframe(2).f_globals.get("__name__", "")  # noqa: SLF001 - the caller decides
        if caller.partition(".")[0] in ("dask", "dask_cudf") or _has_collection_of_host([*args, *kwargs.values()]):
            return result
        return finish(result)

    function.__globals__[hook] = call
    function.__code__ = _forwarding_code(hook, function.__code__.co_freevars)
    function.__defaults__ = function.__kwdefaults__ = None
    function.__signature__ = signature  # type: ignore[attr-defined]


def _forwarding_code(hook: str, free_variables: tuple[str, ...]) -> Any:
    """Code that calls `hook`, for a function whose closure has these variables."""
    names = ", ".join(free_variables)
    source = [
        "def outer():",
        f"    {' = '.join(free_variables)} = None" if names else "    pass",
        "    def forward(*args, **kwargs):",
        "        __tracebackhide__ = True",
        f"        {names}" if names else "        pass",
        f"        return {hook}(args, kwargs)",
        "    return forward",
    ]
    scope: dict[str, Any] = {}
    exec("\n".join(source), scope)  # noqa: S102 - a closure of the same variables cannot be made otherwise
    return scope["outer"]().__code__


def _has_collection_of_host(value: Any) -> bool:
    return any(map(_has_collection_of_host, value)) if isinstance(value, list | tuple) else _is_on_host(value)


def _is_on_host(value: Any) -> bool:
    """Whether a collection from outside the cell stays on the CPU, and what is made of it too."""
    return is_dask_collection(value) and isinstance(
        getattr(value, "_meta", None), np.ndarray | pd.DataFrame | pd.Series | pd.Index
    )


def _array_to_gpu(result: Any) -> Any:
    if array_creation_dispatch.backend != "cupy":
        return result
    if isinstance(result, list | tuple):
        return type(result)(_array_to_gpu(part) for part in result)
    is_numbers = isinstance(result, da.Array) and isinstance(result._meta, np.ndarray)  # noqa: SLF001
    # CuPy has numbers alone; texts, dates and objects stay where they are.
    return result.to_backend("cupy") if is_numbers and result.dtype.kind in _NUMBERS else result


def _frame_to_gpu(result: Any) -> Any:
    if dataframe_creation_dispatch.backend != "cudf" or not _is_on_host(result):
        return result
    return result.to_backend("cudf")
