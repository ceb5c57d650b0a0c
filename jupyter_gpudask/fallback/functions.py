"""Functions for a GPU library: find them without calling them, and exchange those of SciPy for those of CuPy."""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable, Iterator
from importlib import import_module
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np
from dask.base import normalize_token
from dask.utils import funcname

from . import groups
from .values import has_gpu_data, is_aggregation, is_of_installed_package

_LIBRARIES = {
    *("cucim", "cudf", "cugraph", "cuml", "cupy", "cupyx", "cuvs", "dask_cudf", "jax", "numba_cuda", "pycuda"),
    *("pylibcudf", "pylibraft", "rmm", "tensorflow", "torch"),
}
_NUMBA = ("numba.cuda", "numba_cuda")
MOST_VALUES = 500
"""What is looked at of one function, at most."""

_THIS_PACKAGE = f"{__name__.partition('.')[0]}."

_Compose: Any = import_module("toolz.functoolz").Compose

PACKAGES = ("scipy.ndimage", "scipy.signal", "scipy.fft", "scipy.special")
"""Packages whose functions have twins in the package of the same name in ``cupyx``."""


def names_gpu_library(*values: Any) -> bool:
    """Whether functions name a module or an object of a GPU library, themselves or in the functions that they call.

    `values`: functions, and what they are called with.
    """
    return any(is_of_gpu_library(value) or names & _LIBRARIES for value, names in named_by(*values))


def named_by(*values: Any) -> Iterator[tuple[Any, set[str]]]:
    """Functions, what they refer to, and so on: each with the first parts of the names in its code.

    Variables are looked up as they are now; functions of Python and of installed packages are not followed.
    """
    seen: dict[int, Any] = {}  # keeps what it has seen, so that no id is used twice
    waiting = list(values)
    while waiting and len(seen) < MOST_VALUES:
        value = waiting.pop()
        if id(value) in seen:
            continue
        seen[id(value)] = value
        names: set[str] = set()
        if isinstance(value, FunctionType) and not _is_of_package(value):
            names = set(_names(value.__code__))
            waiting += [value.__globals__[name] for name in names if name in value.__globals__]
            names = {name.partition(".")[0] for name in names}
        waiting += _parts(value)
        yield value, names


def is_of_gpu_library(value: Any) -> bool:
    """Whether this is a GPU library, or a function, a class or an object of one."""
    module = value.__name__ if isinstance(value, ModuleType) else getattr(value, "__module__", None)
    if not isinstance(module, str):
        module = type(value).__module__
    return module.partition(".")[0] in _LIBRARIES or module.startswith(_NUMBA)


def _names(code: CodeType) -> Iterator[str]:
    """Global names, attributes and imported modules of a function and of those that are defined in it."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)


def _parts(value: Any) -> Iterator[Any]:
    """What a function or a container holds; of an object of the user's class, its attributes and its ``__call__``."""
    if isinstance(value, FunctionType):
        yield from (cell.cell_contents for cell in value.__closure__ or () if _is_set(cell))
        yield from (*(value.__defaults__ or ()), *(value.__kwdefaults__ or {}).values())
        yield from filter(None, [getattr(value, "__wrapped__", None)])
    elif isinstance(value, MethodType):
        yield from (value.__func__, value.__self__)
    elif isinstance(value, functools.partial):
        yield from (value.func, *value.args, *value.keywords.values())
    elif isinstance(value, dict):
        yield from value.values()
    elif isinstance(value, list | tuple | set | frozenset):
        yield from value
    elif is_aggregation(type(value)):
        yield from vars(value).values()
    elif isinstance(getattr(type(value), "__call__", None), FunctionType):  # noqa: B004 - its code is wanted
        yield type(value).__call__
        yield from getattr(value, "__dict__", {}).values()
    elif callable(value):  # as what `functools.cache` returns
        yield from filter(None, [getattr(value, "__wrapped__", None)])


def _is_of_package(function: FunctionType) -> bool:
    """Whether it is of an installed package or of this one."""
    module = str(function.__globals__.get("__name__", ""))
    return module.startswith(_THIS_PACKAGE) or is_of_installed_package(function)


def _is_set(cell: Any) -> bool:
    """Whether a variable of an outer function has a value yet."""
    try:
        _ = cell.cell_contents
    except ValueError:
        return False
    return True


class Twins:
    """A function of SciPy or flox, for data on the host, and its counterpart with CuPy, for data on the GPU."""

    def __init__(self, function: Callable[..., Any], twin: Callable[..., Any]) -> None:
        self.function = function
        self.twin = twin
        self.__wrapped__ = function
        self.__name__ = funcname(function)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The result of the one that can use the arguments."""
        if not has_gpu_data((args, kwargs)):
            return self.function(*args, **kwargs)
        names = [name for name, _ in _parameters(self.function)[: len(args)]]
        first = [_move_argument(name, value) for name, value in zip(names, args, strict=False)]
        kwargs = {name: _move_argument(name, value) for name, value in kwargs.items()}
        return self.twin(*first, *args[len(first) :], **kwargs)

    def __dask_tokenize__(self) -> Any:
        return "twins", normalize_token(self.function)

    def __reduce__(self) -> tuple[Any, ...]:
        return with_twin, (self.function,)


_ARRAYS = {"weights"}
"""Parameters for which SciPy takes lists and arrays of NumPy, and CuPy only its own arrays."""


def _move_argument(name: str, value: Any) -> Any:
    return import_module("cupy").asarray(value) if name in _ARRAYS and isinstance(value, list | np.ndarray) else value


def with_twin(function: Any) -> Any:
    """A function of SciPy or flox that uses its twin for data on the GPU; any other function as it is."""
    if isinstance(function, functools.partial):
        inner = with_twin(function.func)
        return function if inner is function.func else functools.partial(inner, *function.args, **function.keywords)
    if isinstance(function, _Compose):
        parts = function.first, *function.funcs
        changed = tuple(map(with_twin, parts))
        return function if changed == parts else type(function)(changed[::-1])
    twin = groups.twin_of(function) or _twin_of(function)
    return function if twin is None else Twins(function, twin)


def _twin_of(function: Any) -> Callable[..., Any] | None:
    """The function of the same name in the package ``cupyx.scipy`` if its parameters have the same names and defaults.

    The default of a parameter decides on the result, such as the order of a spline. CuPy's may have more parameters,
    but not one by which its coordinates are of less precision than SciPy's.
    """
    name = getattr(function, "__name__", "")
    package = next((each for each in PACKAGES if getattr(sys.modules.get(each), name, None) is function), None)
    if not name or package is None:
        return None
    try:
        twin: Callable[..., Any] | None = getattr(import_module(f"cupyx.{package}"), name, None)
        own, of_twin = _parameters(function), _parameters(twin) if twin is not None else []
        others = dict(of_twin[len(own) :])
        can_leave_out = inspect.Parameter.empty not in others.values() and "float64_coords" not in others
        return twin if of_twin[: len(own)] == own and can_leave_out else None
    except (ImportError, ValueError, TypeError):  # no CuPy, or a compiled function without a signature
        return None


def _parameters(function: Any) -> list[tuple[str, Any]]:
    """The names and defaults of its parameters; of an element-wise function (a ufunc), its number of arguments."""
    if hasattr(function, "nin"):
        return [("nin", function.nin), ("nout", function.nout)]
    return [(name, parameter.default) for name, parameter in inspect.signature(function).parameters.items()]
