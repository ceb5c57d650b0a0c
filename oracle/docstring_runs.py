"""Runs the examples of one docstring, as cells of a notebook that follow each other, and compares what they leave.

Two runs of an example agree by `STRICT_RULES`.

- Arrays: the same shape and dtype. Numbers: the same, floating ones within 1e-6 of their size and 1e-9 (of single
  precision: 1e-3 and 1e-5).
- Dataframes: the same columns and index, and dtypes of the same kind and, for numbers, the same width. Strings are one
  kind, whatever holds them, and so are times of every unit; a column with missing values may have floats or objects,
  and missing values equal each other.
- The order of rows counts, unless the example calls something that leaves it open (`OPEN_ORDER`).
- Of random numbers or uninitialised memory: dtypes and numbers of dimensions.
"""

from __future__ import annotations

import ast
import contextlib
import doctest
import io
import pickle
import re
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from dask.base import is_dask_collection
from dask.callbacks import Callback
from strict_rules import STRICT_RULES

from jupyter_gpudask.magics.compare_values import compare

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

LARGEST = 50_000_000
"""Bytes of an array; larger ones are described and not computed."""

PLAIN = (bool, int, float, complex, bytes, np.generic, pd.Timestamp, pd.Timedelta, pd.Interval, pd.Period)


@dataclass(frozen=True)
class Value:
    """One value."""

    data: Any
    """An array, a dataframe, a number, a text, or a list of such values."""
    on_gpu: bool
    """Whether CuPy or cuDF had a part in it."""
    of_dask: bool = False
    """Whether it was a Dask collection."""
    shape_known: bool = True
    """Whether Dask knew the shape before it computed."""


def recorded(thing: Any) -> Value | None:
    """`thing`, computed and brought to the host; `None` for what cannot be compared, such as functions."""
    if is_dask_collection(thing):
        return _computed(thing)
    if isinstance(thing, dict):
        return recorded([part for item in thing.items() for part in item])
    if isinstance(thing, list | tuple):
        parts = [recorded(part) for part in thing]
        return Value(parts, on_gpu=any(part is not None and part.on_gpu for part in parts))
    data = _on_host(thing)
    return None if data is None else Value(data, is_on_gpu(thing))


def _on_host(thing: Any) -> Any:
    if isinstance(thing, str):
        return thing.replace(str(Path.cwd()), "")  # each run has a folder of its own
    if isinstance(thing, np.dtype | pd.api.extensions.ExtensionDtype):
        return str(thing)
    if isinstance(thing, np.ndarray | pd.DataFrame | pd.Series | pd.Index):
        return thing.copy()  # a later example may change it
    if is_on_gpu(thing):
        move = getattr(thing, "get" if type(thing).__module__.startswith("cupy") else "to_pandas", None)
        return None if move is None else move()
    if thing is pd.NA or thing is pd.NaT:
        return float("nan")
    return thing if isinstance(thing, PLAIN) else None


def is_on_gpu(thing: Any) -> bool:
    """Whether `thing` is CuPy's or cuDF's."""
    return type(thing).__module__.partition(".")[0] in ("cupy", "cudf")


def _computed(collection: Any) -> Value | None:
    if hasattr(collection, "chunks") and hasattr(collection, "nbytes") and collection.nbytes > LARGEST:
        return Value([Value(str(getattr(collection, name)), on_gpu=False) for name in ("shape", "dtype")], on_gpu=False)
    value = recorded(collection.compute(scheduler="synchronous"))
    if value is None:
        return None
    shape = getattr(collection, "shape", ()) if hasattr(collection, "chunks") else ()
    on_gpu = value.on_gpu or _came_from_gpu(collection)
    return Value(value.data, on_gpu, of_dask=True, shape_known=not np.isnan(shape).any())


def _came_from_gpu(collection: Any) -> bool:
    if hasattr(collection, "expr"):
        return any(is_on_gpu(_meta_of(part)) for part in collection.expr.walk())
    return is_on_gpu(getattr(collection, "_meta", None))


def _meta_of(expression: Any) -> Any:
    try:
        return getattr(expression, "_meta", None)
    except NotImplementedError:  # of the expressions that read files
        return None


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
    """Whether it printed what the docstring says, or its value does, once it was computed."""


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

    They begin with the names in `scope`, and `wants` is what each is said to print; `only` has the numbers of those to
    run, if not all.
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
    value = outcome.values.get("")  # noqa: PD011 - not of pandas
    texts = [printed.getvalue(), f"{value.data!r}\n" if value is not None and value.of_dask else ""]
    outcome.as_written = any(doctest.OutputChecker().check_output(want, text, _AS_WRITTEN) for text in texts)
    return outcome


def _record(outcome: Outcome, name: str, thing: Any) -> None:
    try:
        value = recorded(thing)
        pickle.dumps(value)
    except Exception as error:  # noqa: BLE001 - and so is what computing it raises
        outcome.failed[name] = described(error)
    else:
        if value is not None:
            outcome.values[name] = value  # noqa: PD011 - not of pandas


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


UNDETERMINED = {
    *("random", "rng", "RandomState", "default_rng", "sample", "random_split", "timeseries", "choice", "permutation"),
    *("svd_compressed", "add_dummy_padding", "empty_like", "tempfile"),
}
"""Names in an example whose values are not determined; and `UNDETERMINED_CALLS`, where they are called."""

UNDETERMINED_CALLS = {"empty", "id"}

OPEN_ORDER = {"merge", "join", "drop_duplicates", "unique", "value_counts", "shuffle", "mode"}
"""Methods after which the order of the rows, or of equal ones, is not defined."""

AGGREGATING = {"agg", "aggregate"}


def undetermined(sources: Sequence[str]) -> list[bool]:
    """For each example of a docstring, whether its values come from random numbers or uninitialised memory."""
    return _spread(sources, lambda names, calls: bool(names & UNDETERMINED or calls & UNDETERMINED_CALLS))


def of_open_order(sources: Sequence[str]) -> list[bool]:
    """For each example of a docstring, whether the order of rows in its values is open.

    Dask leaves that of aggregated groups open, too: on the CPU it is that of the rows, on GPUs that of the keys.
    """
    return _spread(sources, lambda names, _: bool(names & OPEN_ORDER or ("groupby" in names and names & AGGREGATING)))


def _spread(sources: Sequence[str], begins: Any) -> list[bool]:
    """For each example, whether something `begins` in it, or in an earlier one whose names it uses."""
    touched: set[str] = set()
    found = []
    for source in sources:
        try:
            tree = ast.parse(source)
        except SyntaxError:
            found.append(False)
            continue
        nodes = list(ast.walk(tree))
        names = {node.id for node in nodes if isinstance(node, ast.Name)}
        names |= {node.attr for node in nodes if isinstance(node, ast.Attribute)}
        calls = {getattr(n.func, "attr", getattr(n.func, "id", "")) for n in nodes if isinstance(n, ast.Call)}
        is_touched = begins(names, calls) or bool(names & touched)
        if is_touched:
            touched |= set(bound_names(tree))
            owners = {_owner(node) for node in nodes if isinstance(node, ast.Call)}
            touched |= owners - {"np", "pd", "da", "dd", "dask", ""}
        found.append(is_touched)
    return found


def _owner(call: ast.Call) -> str:
    """The name whose method is called, which the call may change."""
    return getattr(getattr(call.func, "value", None), "id", "")


def difference(one: Value | None, other: Value | None, *, values: bool = True, order: bool = True) -> str | None:
    """What is different between the values of the two runs; `None` if they agree.

    Without `values`, only dtypes and numbers of dimensions are compared; without `order`, rows in any order.
    """
    if one is None or other is None:
        return None if one is other else "a value in one run only"
    if isinstance(one.data, list) and isinstance(other.data, list):
        if len(one.data) != len(other.data):
            return f"{len(one.data)} and {len(other.data)} parts" if values else None
        pairs = zip(one.data, other.data, strict=True)
        return next(filter(None, (difference(a, b, values=values, order=order) for a, b in pairs)), None)
    known = one.shape_known and other.shape_known
    rules = replace(STRICT_RULES, has_open_order=not order, compare_shapes=known)
    comparison = compare(one.data, other.data, rules if values else rules.without_values())
    return None if comparison.agrees else comparison.text
