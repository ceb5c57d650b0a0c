"""Operations for which cuDF 26.10 returns something else than pandas without an error; they run on the host.

Each rule returns the reason, in words for the line under the cell, or an empty string.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_OBJECTS = {
    "str": {"encode", "findall"},
    "dt": {"date", "freq", "time", "timetz", "to_pytimedelta"},
}
"""Methods and properties of accessors whose results are Python objects, which cuDF has not, or returns otherwise."""


def words_of_difference(expression: Any) -> str:
    """Why an expression of dataframes runs on the host; empty if cuDF's result is that of pandas, or an error.

    Parameters
    ----------
    expression
        An expression with an input on a GPU.
    """
    rule = _OF_EXPRESSIONS.get(type(expression).__name__.removesuffix("AsPandas"))
    return rule(expression) if rule else ""


def words_of_method(name: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> str:
    """As `words_of_difference`, for a call of a method; the first argument is its dataframe or Series."""
    rule = _OF_METHODS.get(name)
    return rule(args[0], [*args[1:], *kwargs.values()]) if rule else ""


def is_of_python_objects(expression: Any) -> bool:
    """Whether the results are Python objects, such as times of a day; they stay on the host."""
    name = type(expression).__name__.removesuffix("AsPandas")
    return name in ("FunctionMap", "PropertyMap") and expression.attr in _OBJECTS.get(expression.accessor, ())


def _accessor(expression: Any) -> str:
    if is_of_python_objects(expression):
        return f"cuDF has no Python objects, as of .{expression.accessor}.{expression.attr}"
    if expression.attr == "replace" and any(isinstance(arg, dict) for arg in _arguments(expression)):
        return "cuDF's str.replace accepts no dictionary"
    return ""


def _arguments(expression: Any) -> list[Any]:
    """The arguments of a method of an accessor; a property has none."""
    names = expression._parameters  # noqa: SLF001
    return [*expression.args, *expression.kwargs.values()] if "kwargs" in names else []


def _to_numeric(expression: Any) -> str:
    return "cuDF's to_numeric has other dtypes with downcast" if expression.downcast else ""


def _resample(expression: Any) -> str:
    functions = [one for how in expression.how_args if isinstance(how, dict) for one in how.values()]
    return "cuDF resamples with the names of functions" if any(map(callable, functions)) else ""


def _kinds(expression: Any) -> set[str]:
    """The kinds of the dtypes of a dataframe or Series, as letters of NumPy."""
    meta = expression._meta  # noqa: SLF001
    return {getattr(dtype, "kind", "O") for dtype in (meta.dtypes if meta.ndim > 1 else [meta.dtype])}


def _clip(owner: Any, arguments: list[Any]) -> str:
    has_fraction = any(isinstance(bound, float | np.floating) and bound != np.floor(bound) for bound in arguments)
    return "cuDF rounds the bounds of clip to integers" if has_fraction and _kinds(owner) & set("iu") else ""


def _describe(owner: Any, arguments: list[Any]) -> str:
    kinds = _kinds(owner)
    if kinds & set("mM"):
        return "cuDF does not describe times"
    is_of_texts = owner.ndim == 1 or not kinds & set("iufc") or any(map(_selects_columns, arguments))
    return "cuDF has no column of numbers and texts" if is_of_texts and kinds - set("iufc") else ""


def _selects_columns(argument: Any) -> bool:
    """Whether an argument of ``describe`` is its ``include`` or ``exclude``, and not the percentiles."""
    is_list = isinstance(argument, list | tuple) and not all(isinstance(each, int | float) for each in argument)
    return is_list or isinstance(argument, type) or (isinstance(argument, str) and argument == "all")


def _groupby(owner: Any, arguments: list[Any]) -> str:
    keys = [key for given in arguments for key in (given if isinstance(given, list) else [given])]
    same = owner.ndim == 1 and any(getattr(key, "ndim", 0) == 1 and key.name == owner.name for key in keys)
    return "cuDF drops a Series whose key has its name" if same else ""


def _mode(owner: Any, _arguments: list[Any]) -> str:
    return "cuDF's modes have other column names" if owner.ndim > 1 else ""


def _rename_axis(_owner: Any, arguments: list[Any]) -> str:
    return (
        "cuDF renames an axis with a name" if any(isinstance(arg, dict) or callable(arg) for arg in arguments) else ""
    )


def _replace(_owner: Any, arguments: list[Any]) -> str:
    nested = any(isinstance(value, dict) for arg in arguments if isinstance(arg, dict) for value in arg.values())
    return "cuDF replaces no values of single columns" if nested else ""


_OF_EXPRESSIONS: dict[str, Callable[[Any], str]] = {
    "FunctionMap": _accessor,
    "PropertyMap": _accessor,
    "ResampleAgg": _resample,
    "ToNumeric": _to_numeric,
}

_OF_METHODS: dict[str, Callable[[Any, list[Any]], str]] = {
    "clip": _clip,
    "describe": _describe,
    "groupby": _groupby,
    "mode": _mode,
    "rename_axis": _rename_axis,
    "replace": _replace,
}
