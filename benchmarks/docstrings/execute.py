"""Runs the examples of one docstring, as cells of a notebook that follow each other."""

from __future__ import annotations

import ast
import contextlib
import doctest
import io
import pickle
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from dask.callbacks import Callback

from .values import Value, recorded

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

_AS_WRITTEN = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS


@dataclass
class Outcome:
    """What came of one example."""

    source: str
    error: str | None = None
    """Type and first line, and where it was raised; `None` if none was."""
    values: dict[str, Value] = field(default_factory=dict)
    """By the name that was bound; what an expression gave, by the empty name."""
    failed: dict[str, str] = field(default_factory=dict)
    """The error of each value that could not be computed."""
    graphs: int = 0
    """How many times Dask computed."""
    as_written: bool = False
    """Whether it printed what the docstring says."""


class _Graphs(Callback):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def _start(self, _graph: Any) -> None:
        self.count += 1


def run_examples(
    sources: Sequence[str], wants: Sequence[str], scope: dict[str, Any], *, only: Collection[int] | None = None
) -> dict[int, Outcome]:
    """Run them one after the other, past those that fail, and compute every collection that one leaves.

    Parameters
    ----------
    sources, wants
        The examples, and what each is said to print.
    scope
        The names that they begin with.
    only
        The numbers of those to run; all if `None`.
    """
    return {
        number: _run(source, want, scope)
        for number, (source, want) in enumerate(zip(sources, wants, strict=True))
        if only is None or number in only
    }


def _run(source: str, want: str, scope: dict[str, Any]) -> Outcome:
    outcome = Outcome(source.strip())
    printed = io.StringIO()
    with _Graphs() as graphs, contextlib.redirect_stdout(printed):
        try:
            tree = ast.parse(source)
            last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
            exec(compile(tree, "<example>", "exec"), scope)  # noqa: S102 - the examples are the installed library's
            things = {name: scope[name] for name in bound_names(tree) if name in scope}
            if last is not None:
                things[""] = eval(compile(ast.Expression(last.value), "<example>", "eval"), scope)  # noqa: S307
                if things[""] is not None:
                    print(repr(things[""]))
        except Exception as error:  # noqa: BLE001 - whatever an example raises is its outcome
            outcome.error = described(error)
            return outcome
        for name, thing in things.items():
            _record(outcome, name, thing)
    outcome.graphs = graphs.count
    outcome.as_written = doctest.OutputChecker().check_output(want, printed.getvalue(), _AS_WRITTEN)
    return outcome


def _record(outcome: Outcome, name: str, thing: Any) -> None:
    try:
        value = recorded(thing)
        pickle.dumps(value)
    except Exception as error:  # noqa: BLE001 - and so is what computing it raises
        outcome.failed[name] = described(error)
    else:
        if value is not None:
            outcome.values[name] = value


def bound_names(tree: ast.Module) -> list[str]:
    """Names that are assigned, or of which a part is."""
    names: dict[str, None] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Name | ast.Attribute | ast.Subscript) and isinstance(node.ctx, ast.Store):
            base: ast.expr = node
            while isinstance(base, ast.Attribute | ast.Subscript):
                base = base.value
            if isinstance(base, ast.Name):
                names[base.id] = None
    return list(names)


def described(error: BaseException) -> str:
    """Type and first line of an error, and which package raised it; without addresses and folders."""
    text = (str(error).strip() or "no message").splitlines()[0]
    text = re.sub(r"0x[0-9a-f]+", "0x…", re.sub(r"(/[\w.+-]+)+/", ".../", text))
    packages = []
    frame = error.__traceback__
    while frame is not None:
        packages.append(frame.tb_frame.f_globals.get("__name__", "").partition(".")[0])
        frame = frame.tb_next
    known = [name for name in packages if name in ("dask", "cupy", "cudf", "dask_cudf", "numpy", "pandas", "numba")]
    place = f" (in {known[-1]})" if known else ""
    return f"{type(error).__name__}: {text[:200]}{place}"
