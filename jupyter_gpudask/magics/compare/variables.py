"""Copies of a notebook's variables, so that a cell can run without changing them."""

from __future__ import annotations

import ast
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


def copy_variables(namespace: Mapping[str, Any], code: str) -> dict[str, Any]:
    """Copy the variables that the code reads, directly or through functions of the notebook.

    `Copier` decides what is copied and what is shared. Functions of the notebook use the copies.

    Parameters
    ----------
    namespace
        The variables.
    code
        The Python code that will run with the copies.
    """
    from .copying import Copier  # it imports Dask

    copier = Copier(namespace.get("__name__", "__main__"))
    read = _names_in(code)
    queue = list(read)
    while queue:
        function = namespace.get(queue.pop())
        if function is not None and _is_defined_in(namespace, function):
            new = set(_names_in_bytecode(function.__code__)) - read
            read |= new
            queue += new
    copies = dict(namespace)
    for name in read & namespace.keys():
        copies[name] = (
            _with_globals(namespace[name], copies)
            if _is_defined_in(namespace, namespace[name])
            else copier.copy(namespace[name])
        )
    return copies


def _names_in(code: str) -> set[str]:
    return {node.id for node in ast.walk(ast.parse(code)) if isinstance(node, ast.Name)}


def _names_in_bytecode(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names_in_bytecode(constant)


def _is_defined_in(namespace: Mapping[str, Any], value: Any) -> bool:
    return type(value) is FunctionType and value.__globals__ is namespace


def _with_globals(function: FunctionType, namespace: dict[str, Any]) -> FunctionType:
    """A copy of the function with other global variables."""
    copied = FunctionType(function.__code__, namespace, function.__name__, function.__defaults__, function.__closure__)
    copied.__kwdefaults__ = function.__kwdefaults__
    copied.__dict__.update(function.__dict__)
    return copied
