"""Check whether a cell can use Dask; this takes microseconds, so ``%gpudask on`` does not slow down other cells."""

from __future__ import annotations

import ast
import sys
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_LIBRARIES = frozenset({"cudf", "cupy", "matplotlib", "numpy", "pandas"})
_REACH_ANYTHING = frozenset(
    {"__import__", "compile", "eval", "exec", "globals", "importlib", "locals", "runpy", "vars"}
)
_PLAIN = frozenset({bool, bytes, complex, float, int, range, slice, str, type(None)})
_DATA = frozenset({"cudf", "cupy", "datetime", "decimal", "matplotlib", "pandas", "pathlib", "re"})
"""Packages of classes whose objects hold data alone."""
_MOST_PARTS = 1000
_MAX_DEPTH = 3


def may_use_dask(body: list[ast.stmt], namespace: Mapping[str, Any]) -> bool:
    """Whether statements can reach Dask through what they import or name.

    Plain values, and modules and functions of the standard library and of a few others, do not lead to Dask. Every
    other function or object may use it inside.

    Parameters
    ----------
    body
        The statements of a cell.
    namespace
        The variables of the notebook, before the cell runs.
    """
    nodes = [node for statement in body for node in ast.walk(statement)]
    if any(not _is_apart(module) for module in _imported(nodes)):
        return True
    names = {node.id for node in nodes if isinstance(node, ast.Name)}
    return any(name in _REACH_ANYTHING or (name in namespace and not _is_harmless(namespace[name])) for name in names)


def _imported(nodes: list[ast.AST]) -> Iterator[str]:
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or "."


def _is_apart(module: str) -> bool:
    """Whether a module and its objects do not use Dask."""
    package = module.partition(".")[0]
    return package not in _REACH_ANYTHING and (package in _LIBRARIES or package in sys.stdlib_module_names)


def _is_harmless(value: Any, depth: int = 0) -> bool:
    """Whether a value neither is of Dask nor can call it. A container is if its parts are."""
    kind = type(value)
    if kind is dict:
        value, kind = [*value, *value.values()], list
    if kind in (list, tuple, set, frozenset):
        is_small = depth < _MAX_DEPTH and len(value) <= _MOST_PARTS
        return is_small and all(_is_harmless(part, depth + 1) for part in value)
    if kind is ModuleType:
        return _is_apart(value.__name__)
    if kind in (type, FunctionType, BuiltinFunctionType):
        return _is_apart(value.__module__ or "") and value.__name__ not in _REACH_ANYTHING
    if (kind.__module__, kind.__name__) == ("numpy", "ndarray"):
        return not value.dtype.hasobject
    return kind in _PLAIN or kind.__module__.partition(".")[0] in _DATA
