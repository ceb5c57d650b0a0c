"""Copies of a notebook's variables, in which a cell can run without changing them."""

from __future__ import annotations

import ast
import copy
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


def copied(namespace: Mapping[str, Any], code: str) -> dict[str, Any]:
    """The variables, of which those that the code reads, itself or by a function of the notebook, are copies.

    Arrays, frames, Dask collections, and lists, dictionaries and sets of them are copied. Functions of the notebook see
    the copies. What else there is, such as clients, files and objects of classes, is there once.

    Parameters
    ----------
    namespace
        The variables.
    code
        Python code that will run with them.
    """
    read = _names_in(code)
    queue = list(read)
    while queue:
        function = namespace.get(queue.pop())
        if function is not None and _is_of(namespace, function):
            new = set(_names_of(function.__code__)) - read
            read |= new
            queue += new
    copies = dict(namespace)
    for name in read & namespace.keys():
        copies[name] = (
            _rebound(namespace[name], copies) if _is_of(namespace, namespace[name]) else _copy(namespace[name])
        )
    return copies


def _names_in(code: str) -> set[str]:
    return {node.id for node in ast.walk(ast.parse(code)) if isinstance(node, ast.Name)}


def _names_of(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names_of(constant)


def _is_of(namespace: Mapping[str, Any], value: Any) -> bool:
    return isinstance(value, FunctionType) and value.__globals__ is namespace


def _rebound(function: FunctionType, namespace: dict[str, Any]) -> FunctionType:
    """The same function with other global variables."""
    again = FunctionType(function.__code__, namespace, function.__name__, function.__defaults__, function.__closure__)
    again.__kwdefaults__ = function.__kwdefaults__
    again.__dict__.update(function.__dict__)
    return again


def _copy(value: Any) -> Any:
    import numpy as np
    import pandas as pd
    from dask.base import is_dask_collection

    if type(value) in (list, set):
        return type(value)(map(_copy, value))
    if type(value) is dict:
        return {key: _copy(part) for key, part in value.items()}
    # A copy of a client, a file or a lock would close or take the one that it was made from.
    is_data = isinstance(value, np.ndarray | pd.DataFrame | pd.Series) or is_dask_collection(value)
    return copy.copy(value) if is_data else value
