"""Find functions for a GPU library, and what functions refer to, without calling them."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any

from .values import is_aggregation, is_of_installed_package

_LIBRARIES = {
    *("cucim", "cudf", "cugraph", "cuml", "cupy", "cupyx", "cuvs", "dask_cudf", "jax", "numba_cuda", "pycuda"),
    *("pylibcudf", "pylibraft", "rmm", "tensorflow", "torch"),
}
_NUMBA = ("numba.cuda", "numba_cuda")
MOST_VALUES = 500
"""What is looked at of one function, at most."""

_THIS_PACKAGE = f"{__name__.partition('.')[0]}."


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
        if isinstance(value, FunctionType) and not is_of_package(value):
            names = set(names_in(value.__code__))
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


def names_in(code: CodeType) -> Iterator[str]:
    """Global names, attributes and imported modules of a function and of those that are defined in it."""
    for each in codes_in(code):
        yield from each.co_names


def codes_in(code: CodeType) -> Iterator[CodeType]:
    """That of a function and those of the functions that are defined in it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from codes_in(constant)


def _parts(value: Any) -> Iterator[Any]:
    """What a function or a container holds; of an object of the user's class, its attributes and its ``__call__``."""
    if isinstance(value, FunctionType):
        yield from (cell.cell_contents for cell in value.__closure__ or () if is_set(cell))
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


def is_of_package(function: FunctionType) -> bool:
    """Whether it is of an installed package or of this one."""
    module = str(function.__globals__.get("__name__", ""))
    return module.startswith(_THIS_PACKAGE) or is_of_installed_package(function)


def is_set(cell: Any) -> bool:
    """Whether a variable of an outer function has a value yet."""
    try:
        _ = cell.cell_contents
    except ValueError:
        return False
    return True
