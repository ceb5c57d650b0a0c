"""Where the functions of `dask.array` for arrays with a graph are.

With Dask's setting ``array.query-planning``, the names in `dask.array` are those of array expressions, or of functions
that raise `NotImplementedError`. The functions for arrays with a graph are then still in the modules that define them,
and Dask calls some of them: ``da.random.permutation(10)`` returns such an array.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

import dask.array

_MODULES = ("core", "creation", "routines", "reductions", "percentile", "rechunk", "gufunc", "ufunc")


def has_array_expressions() -> bool:
    """Whether `dask.array` was imported with ``array.query-planning``; later changes of the setting have no effect."""
    return bool(dask.array.ARRAY_EXPR_ENABLED)


def module_with(name: str) -> Any:
    """The module that has the function or class `name` of `dask.array` for arrays with a graph."""
    if not has_array_expressions():
        return dask.array
    modules = (import_module(f"dask.array.{module}") for module in _MODULES)
    return next((module for module in modules if hasattr(module, name)), dask.array)
