"""Functions of SciPy and flox, and of the user that call SciPy's, which use those of CuPy for data on the GPU."""

from __future__ import annotations

import builtins
import dis
import functools
import inspect
import sys
from collections.abc import Callable
from importlib import import_module
from types import CellType, CodeType, FunctionType, ModuleType
from typing import Any

import numpy as np
from dask.base import normalize_token
from dask.utils import funcname

from . import groups
from .functions import codes_in, is_of_package, is_set, named_by, names_in
from .values import has_gpu_data

_Compose: Any = import_module("toolz.functoolz").Compose

PACKAGES = ("scipy.ndimage", "scipy.signal", "scipy.fft", "scipy.special")
"""Packages whose functions have twins in the package of the same name in ``cupyx``."""


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
    """A function of SciPy or flox, or of the user that calls SciPy's, that uses its twin for data on the GPU.

    Any other function is returned as it is.
    """
    if isinstance(function, functools.partial):
        inner = with_twin(function.func)
        return function if inner is function.func else functools.partial(inner, *function.args, **function.keywords)
    if isinstance(function, _Compose):
        parts = function.first, *function.funcs
        changed = tuple(map(with_twin, parts))
        return function if changed == parts else type(function)(changed[::-1])
    twin = groups.twin_of(function) or _twin_of(function)
    if twin is None and isinstance(function, FunctionType) and not is_of_package(function) and _calls_scipy(function):
        return UserTwins(function)
    return function if twin is None else Twins(function, twin)


_SCIPY = {"scipy", *PACKAGES}
_OF_NAMESPACE = {"eval", "exec", "globals", "vars"}


def _calls_scipy(function: Any) -> bool:
    """Whether a function of the user, or one that it calls, names SciPy, and none changes or lists outer variables."""
    found = False
    for value, names in named_by(function):
        is_of_user = isinstance(value, FunctionType) and not is_of_package(value)
        if is_of_user and (names & _OF_NAMESPACE or any(map(_changes_variables, codes_in(value.__code__)))):
            return False
        name = value.__name__ if isinstance(value, ModuleType) else getattr(value, "__module__", None)
        found = found or "scipy" in names or str(name).startswith("scipy")
    return found


def _changes_variables(code: CodeType) -> bool:
    """Whether it sets or deletes variables that are not its own."""
    return any(
        name in ("STORE_GLOBAL", "DELETE_GLOBAL")
        or (name in ("STORE_DEREF", "DELETE_DEREF") and instruction.argval in code.co_freevars)
        for instruction in dis.get_instructions(code)
        for name in [instruction.opname]
    )


class UserTwins:
    """A function of the user; with arrays of CuPy, it and the functions that it calls use the twins of SciPy's.

    Variables are looked up when it is called.
    """

    def __init__(self, function: FunctionType) -> None:
        self.function = function
        self.__wrapped__ = function
        self.__name__ = funcname(function)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The result."""
        given = args, kwargs
        exchanges = has_gpu_data(given, "cupy") and not has_gpu_data(given, "cudf")
        return (_Exchange().value(self.function) if exchanges else self.function)(*args, **kwargs)

    def __dask_tokenize__(self) -> Any:
        return "twins", normalize_token(self.function)

    def __reduce__(self) -> tuple[Any, ...]:
        return UserTwins, (self.function,)


class _Exchange:
    """Exchanges values of variables for those that use CuPy."""

    def __init__(self) -> None:
        self._made: dict[int, FunctionType] = {}

    def value(self, value: Any) -> Any:
        """A module or a function of SciPy, or a function of the user, exchanged; anything else as it is."""
        if isinstance(value, ModuleType):
            return _Module(value, self) if value.__name__ in _SCIPY else value
        if isinstance(value, FunctionType) and not is_of_package(value):
            return self._made.get(id(value)) or self._function(value)
        return with_twin(value) if str(getattr(value, "__module__", None)).startswith("scipy.") else value

    def _function(self, function: FunctionType) -> FunctionType:
        code, variables = function.__code__, function.__globals__
        given: dict[str, Any] = {"__builtins__": {**vars(builtins), "__import__": self._import}}
        cells = [CellType() if is_set(cell) else cell for cell in function.__closure__ or ()]
        made = FunctionType(code, given, function.__name__, function.__defaults__, tuple(cells) or None)
        made.__kwdefaults__ = function.__kwdefaults__
        made.__dict__.update(function.__dict__)
        self._made[id(function)] = made  # it may refer to itself
        for new, cell in zip(cells, function.__closure__ or (), strict=True):
            if new is not cell:
                new.cell_contents = self.value(cell.cell_contents)
        names = {"__name__", "__package__", *names_in(code)}
        given.update((name, self.value(variables[name])) for name in names & variables.keys())
        return made

    def _import(self, *args: Any, **kwargs: Any) -> Any:
        return self.value(builtins.__import__(*args, **kwargs))


class _Module:
    """A module of SciPy whose functions use their twins."""

    def __init__(self, module: ModuleType, exchange: _Exchange) -> None:
        self._module, self._exchange = module, exchange

    def __getattr__(self, name: str) -> Any:
        return self._exchange.value(getattr(self._module, name))


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


@functools.lru_cache(maxsize=1024)
def _parameters(function: Any) -> list[tuple[str, Any]]:
    """The names and defaults of its parameters; of an element-wise function (a ufunc), its number of arguments."""
    if hasattr(function, "nin"):
        return [("nin", function.nin), ("nout", function.nout)]
    return [(name, parameter.default) for name, parameter in inspect.signature(function).parameters.items()]
