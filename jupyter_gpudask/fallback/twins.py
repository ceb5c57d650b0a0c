"""Functions of SciPy and their counterparts in ``cupyx.scipy``, which keep the data on the GPU."""

from __future__ import annotations

import functools
import inspect
import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

from dask.base import normalize_token
from dask.utils import funcname

from .values import has_gpu_data

if TYPE_CHECKING:
    from collections.abc import Callable

PACKAGES = ("scipy.ndimage", "scipy.signal", "scipy.fft", "scipy.special")
"""Packages whose functions have twins in the package of the same name in ``cupyx``."""


class Twins:
    """A function of SciPy, for data on the host, and its counterpart in CuPy, for data on the GPU."""

    def __init__(self, function: Callable[..., Any], twin: Callable[..., Any]) -> None:
        self.function = function
        self.twin = twin
        self.__wrapped__ = function
        self.__name__ = funcname(function)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The result of the one that can use the arguments."""
        return (self.twin if has_gpu_data((args, kwargs)) else self.function)(*args, **kwargs)

    def __dask_tokenize__(self) -> Any:
        return "twins", normalize_token(self.function)

    def __reduce__(self) -> tuple[Any, ...]:
        return Twins, (self.function, self.twin)


def with_twin(function: Any) -> Any:
    """A function of SciPy that uses its twin for data on the GPU; any other function as it is."""
    if isinstance(function, functools.partial):
        inner = with_twin(function.func)
        return function if inner is function.func else functools.partial(inner, *function.args, **function.keywords)
    twin = _twin_of(function)
    return function if twin is None else Twins(function, twin)


def _twin_of(function: Any) -> Callable[..., Any] | None:
    """The function of the same name in the package ``cupyx.scipy`` if its parameters have the same names and defaults.

    The default of a parameter decides on the result, such as the order of a spline.
    """
    name = getattr(function, "__name__", "")
    package = next((each for each in PACKAGES if getattr(sys.modules.get(each), name, None) is function), None)
    if not name or package is None:
        return None
    try:
        twin: Callable[..., Any] | None = getattr(import_module(f"cupyx.{package}"), name, None)
        return twin if twin is not None and _parameters(twin) == _parameters(function) else None
    except (ImportError, ValueError, TypeError):  # no CuPy, or a compiled function without a signature
        return None


def _parameters(function: Any) -> list[tuple[str, Any]]:
    """The names and defaults of its parameters; of an element-wise function (a ufunc), its number of arguments."""
    if hasattr(function, "nin"):
        return [("nin", function.nin), ("nout", function.nout)]
    return [(name, parameter.default) for name, parameter in inspect.signature(function).parameters.items()]
