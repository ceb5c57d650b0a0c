"""Whether two runs of an example agree.

- Arrays: the same shape and dtype. Numbers: the same, floating ones within 1e-6 of their size and 1e-9 (of single
  precision: 1e-3 and 1e-5).
- Frames: the same columns and index, and dtypes of the same kind and, for numbers, the same width. Texts are one kind,
  whatever holds them, and so are times of every unit; a column with missing values may come as
  floats or objects, and a missing value is one, by whatever name.
- The order of rows counts, unless the example calls something that leaves it open (`OPEN_ORDER`).
- Of what comes from random numbers or uninitialised memory: dtypes, dimensions, and shapes that Dask knows.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from .execute import bound_names

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .values import Value

UNDETERMINED = {
    *("random", "rng", "RandomState", "default_rng", "sample", "random_split", "timeseries", "choice", "permutation"),
    *("svd_compressed", "add_dummy_padding", "empty_like", "tempfile"),
}
"""Names in an example whose values are not determined; and `UNDETERMINED_CALLS`, where they are called."""

UNDETERMINED_CALLS = {"empty", "id"}

OPEN_ORDER = {"merge", "join", "drop_duplicates", "unique", "value_counts", "shuffle", "mode"}
"""Methods after which the order of the rows, or of equal ones, is not defined."""


def undetermined(sources: Sequence[str]) -> list[bool]:
    """For each example of a docstring, whether its values come from random numbers or uninitialised memory."""
    return _spread(sources, lambda names, calls: bool(names & UNDETERMINED or calls & UNDETERMINED_CALLS))


def of_open_order(sources: Sequence[str]) -> list[bool]:
    """For each example of a docstring, whether the order of rows in its values is open."""
    return _spread(sources, lambda names, _calls: bool(names & OPEN_ORDER))


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
            touched |= {_owner(node) for node in nodes if isinstance(node, ast.Call)} - {
                "np",
                "pd",
                "da",
                "dd",
                "dask",
                "",
            }
        found.append(is_touched)
    return found


def _owner(call: ast.Call) -> str:
    """The name whose method is called, which the call may change."""
    return getattr(getattr(call.func, "value", None), "id", "")


def difference(one: Value | None, other: Value | None, *, values: bool = True, order: bool = True) -> str | None:
    """What is different between two values; `None` if they agree.

    Parameters
    ----------
    one, other
        Of the first and the second run.
    values
        Whether they are determined; if not, only dtypes and known shapes are compared.
    order
        Whether the order of rows is.
    """
    if one is None or other is None:
        return None if one is other else "a value in one run only"
    known = one.shape_known and other.shape_known
    return _difference(one.data, other.data, values, order, known)


def _difference(one: Any, other: Any, values: bool, order: bool, known: bool) -> str | None:
    if isinstance(one, list) and isinstance(other, list):
        if len(one) != len(other):
            return f"{len(one)} and {len(other)} parts" if values else None
        parts = (difference(a, b, values=values, order=order) for a, b in zip(one, other, strict=True))
        return next(filter(None, parts), None)
    for kind, compare in ((pd.DataFrame, _frames), (pd.Series, _series), (pd.Index, _indexes)):
        if isinstance(one, kind) and isinstance(other, kind):
            return compare(one, other, values, order)
    if isinstance(one, str | bytes) or isinstance(other, str | bytes):
        return None if one == other or not values else f"{one!r:.60} and {other!r:.60}"
    if any(isinstance(thing, pd.DataFrame | pd.Series | pd.Index | list) for thing in (one, other)):
        return f"{type(one).__name__} and {type(other).__name__}"
    return _arrays(np.asarray(one), np.asarray(other), values, order, known)


def _arrays(one: Any, other: Any, values: bool, order: bool, known: bool) -> str | None:
    if one.ndim != other.ndim or (known and values and one.shape != other.shape):
        return f"shapes {one.shape} and {other.shape}"
    if one.dtype != other.dtype and not (one.ndim == 0 and one.dtype.kind == other.dtype.kind):
        return f"dtypes {one.dtype} and {other.dtype}"
    if not values:
        return None
    if _same(one, other):
        return None
    if not order and one.ndim == 1 and _same(np.sort(one), np.sort(other)):
        return None
    return f"values {_short(one)} and {_short(other)}"


def _frames(one: Any, other: Any, values: bool, order: bool) -> str | None:
    if list(one.columns) != list(other.columns):
        return f"columns {list(one.columns)} and {list(other.columns)}"
    if values and len(one) != len(other):
        return f"{len(one)} and {len(other)} rows"
    for place in range(len(one.columns)):
        kinds = _kind(one.iloc[:, place]), _kind(other.iloc[:, place])
        if not _alike(*kinds, one.iloc[:, place]):
            return f"dtypes {kinds[0]} and {kinds[1]} of column {one.columns[place]!r}"
    if not values:
        return None
    return _rows(one, other, order)


def _series(one: Any, other: Any, values: bool, order: bool) -> str | None:
    if one.name != other.name:
        return f"names {one.name!r} and {other.name!r}"
    return _frames(one.to_frame("values"), other.to_frame("values"), values, order)


def _indexes(one: Any, other: Any, values: bool, order: bool) -> str | None:
    return _frames(one.to_frame(index=False), other.to_frame(index=False), values, order)


def _rows(one: Any, other: Any, order: bool) -> str | None:
    if list(one.index.names) != list(other.index.names):
        return f"index names {list(one.index.names)} and {list(other.index.names)}"
    with_index = [_plain_columns(frame.index.to_frame(index=False), frame) for frame in (one, other)]
    where = _first_difference(*with_index)
    if where is None:
        return None
    if _first_difference(*map(_sorted, with_index)) is None:
        return "rows in another order" if order else None
    if order:
        return where
    # The index of merged rows counts them in the order in which they came.
    return _first_difference(*(_sorted(_plain_columns(frame)) for frame in (one, other)))


def _plain_columns(*frames: Any) -> list[Any]:
    """The columns as arrays of numbers, or of texts for everything else."""
    return [_plain(frame.iloc[:, place]) for frame in frames for place in range(frame.shape[1])]


def _plain(column: Any) -> Any:
    kind = _kind(column)
    if kind[0] in "biuf" and kind != "text":
        return column.to_numpy(dtype="float64", na_value=np.nan)
    missing = column.isna()
    if kind == "time":
        return np.where(missing, "missing", column.astype("object").map(str))
    return np.where(missing, "missing", column.astype("object").map(_text))


def _text(thing: Any) -> str:
    if isinstance(thing, np.ndarray):
        thing = thing.tolist()
    return str(float(thing)) if isinstance(thing, int | float | np.number) else str(thing)


def _sorted(columns: list[Any]) -> list[Any]:
    order = np.lexsort([column.round(6) if column.dtype.kind == "f" else column for column in columns[::-1]])
    return [column[order] for column in columns]


def _first_difference(one: list[Any], other: list[Any]) -> str | None:
    for left, right in zip(one, other, strict=True):
        if left.dtype.kind != right.dtype.kind or not _same(left, right):
            return f"values {_short(left)} and {_short(right)}"
    return None


def _same(one: Any, other: Any) -> bool:
    if one.shape != other.shape:
        return False
    if one.dtype.kind not in "fc":
        return bool(np.array_equal(one, other))
    is_single = min(one.dtype.itemsize, other.dtype.itemsize) <= (4 if one.dtype.kind == "f" else 8)
    relative, absolute = (1e-3, 1e-5) if is_single else (1e-6, 1e-9)
    return bool(np.allclose(one, other, rtol=relative, atol=absolute, equal_nan=True))


def _kind(column: Any) -> str:
    dtype = column.dtype
    if isinstance(dtype, pd.CategoricalDtype):
        return f"category of {_kind(dtype.categories)}"
    if pd.api.types.is_datetime64_any_dtype(dtype) or pd.api.types.is_timedelta64_dtype(dtype):
        return "time"
    if pd.api.types.is_numeric_dtype(dtype):  # also bool
        return str(np.dtype(getattr(dtype, "numpy_dtype", dtype)))
    return "text" if pd.api.types.infer_dtype(column, skipna=True) in ("string", "empty") else "object"


def _alike(one: str, other: str, column: Any) -> bool:
    with_gaps = bool(column.isna().any())
    return one == other or (with_gaps and {one[0], other[0]} <= set("iufbo"))


def _short(array: Any) -> str:
    return np.array2string(np.asarray(array).ravel()[:4], threshold=4, precision=6).replace("\n", " ")[:80]
