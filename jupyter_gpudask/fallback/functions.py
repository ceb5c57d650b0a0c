"""Functions for a GPU library: find them without calling them, and exchange those of SciPy for those of CuPy."""

from __future__ import annotations

import builtins
import dis
import functools
import inspect
import sys
from collections.abc import Callable, Iterator
from importlib import import_module
from types import CellType, CodeType, FunctionType, MethodType, ModuleType
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
    for each in _codes(code):
        yield from each.co_names


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
    if twin is None and isinstance(function, FunctionType) and not _is_of_package(function) and _calls_scipy(function):
        return UserTwins(function)
    return function if twin is None else Twins(function, twin)


_SCIPY = {"scipy", *PACKAGES}
_OF_NAMESPACE = {"eval", "exec", "globals", "vars"}


def _calls_scipy(function: Any) -> bool:
    """Whether a function of the user, or one that it calls, names SciPy, and none changes or lists outer variables."""
    found = False
    for value, names in named_by(function):
        is_of_user = isinstance(value, FunctionType) and not _is_of_package(value)
        if is_of_user and (names & _OF_NAMESPACE or any(map(_changes_variables, _codes(value.__code__)))):
            return False
        name = value.__name__ if isinstance(value, ModuleType) else getattr(value, "__module__", None)
        found = found or "scipy" in names or str(name).startswith("scipy")
    return found


def _codes(code: CodeType) -> Iterator[CodeType]:
    """That of a function and those of the functions that are defined in it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)


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
        if isinstance(value, FunctionType) and not _is_of_package(value):
            return self._made.get(id(value)) or self._function(value)
        return with_twin(value) if str(getattr(value, "__module__", None)).startswith("scipy.") else value

    def _function(self, function: FunctionType) -> FunctionType:
        code, variables = function.__code__, function.__globals__
        given: dict[str, Any] = {"__builtins__": {**vars(builtins), "__import__": self._import}}
        cells = [CellType() if _is_set(cell) else cell for cell in function.__closure__ or ()]
        made = FunctionType(code, given, function.__name__, function.__defaults__, tuple(cells) or None)
        made.__kwdefaults__ = function.__kwdefaults__
        made.__dict__.update(function.__dict__)
        self._made[id(function)] = made  # it may refer to itself
        for new, cell in zip(cells, function.__closure__ or (), strict=True):
            if new is not cell:
                new.cell_contents = self.value(cell.cell_contents)
        names = {"__name__", "__package__", *_names(code)}
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
