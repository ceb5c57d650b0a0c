"""Cells that cannot run twice, on two clusters."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING, Any

from ...errors import ComparisonError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ...protocol import Ready

_COMMAND = "%gpudask"
_MAGICS_WITH_CODE = {"time", "timeit", "prun", "capture"}
_COMMAND_IN_CODE = re.compile(rf"(?:^|=)[ \t]*{_COMMAND}(?![\w?])(.*)", re.MULTILINE)


def refuse(ready: Ready, body: str, file: str, namespace: Mapping[str, Any]) -> None:
    """Raise an error for a cell that ``--compare`` cannot run.

    Parameters
    ----------
    ready
        The kernel's cluster.
    body
        The code of the cell, in which IPython has made each magic a call of ``run_line_magic`` or ``run_cell_magic``.
    file
        The file name of the cell for tracebacks.
    namespace
        The variables of the notebook.

    Raises
    ------
    ComparisonError
        The cluster has no GPUs, the cell has ``%gpudask`` commands, or it uses results that are on the GPU workers.
    SyntaxError
        The code is not Python.
    """
    if ready.engine != "cuda":
        raise ComparisonError("compare-without-gpus")
    tree = ast.parse(body, file)
    for node in ast.walk(tree):
        arguments = _arguments_of_command(node)
        if arguments is not None:
            command = " ".join([_COMMAND, *arguments.split()[:1]])
            raise ComparisonError("compare-with-command", command=command)
    _refuse_results_on_workers(tree, namespace)


def _arguments_of_command(node: ast.AST) -> str | None:
    """The arguments of ``%gpudask`` if the node is a call of this magic, or of one such as ``%time`` with it."""
    match node:
        case ast.Call(ast.Attribute(attr="run_line_magic"), [ast.Constant("gpudask"), *arguments]):
            return _text(arguments)
        case ast.Call(ast.Attribute(attr="run_line_magic" | "run_cell_magic"), [ast.Constant(magic), *arguments]):
            found = _COMMAND_IN_CODE.search(_text(arguments)) if magic in _MAGICS_WITH_CODE else None
            return found[1] if found else None
        case _:
            return None


def _text(arguments: list[ast.expr]) -> str:
    return "\n".join(str(each.value) for each in arguments if isinstance(each, ast.Constant))


def _refuse_results_on_workers(tree: ast.Module, namespace: Mapping[str, Any]) -> None:
    """Raise for variables whose data is on the GPU workers, where the CPU cluster cannot read it."""
    from distributed import Future
    from distributed.client import futures_of

    for name in sorted({node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}):
        value = namespace.get(name)
        # The class alone: attribute access on a user's object may raise any exception.
        if issubclass(type(value), Future) or (hasattr(type(value), "__dask_graph__") and futures_of(value)):
            raise ComparisonError("compare-of-results", name=name)
