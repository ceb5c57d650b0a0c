"""Concatenate partitions on GPUs with all categories of the parts, and with their order, as Dask does on the CPU.

cuDF 26.10 drops the order of categories when it concatenates dataframes, also in the levels of an index, forgets those
of parts that have only missing values, and gives the codes of all categories to a Series that has those of the first
part only.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pandas as pd
from dask.dataframe.utils import UNKNOWN_CATEGORIES
from pandas.api.types import is_object_dtype, union_categoricals

from ...inspection.arguments import bind

_INDEX = object()
"""The name of the index among those of columns; that of a level is a pair of it and the number."""


def concatenate(original: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """As dask_cudf's function for partitions; it runs in a worker.

    Raises `TypeError`: the ordered categories of the parts differ, as in pandas.
    """
    call = bind(original, args, kwargs)
    parts = call.arguments["dfs"]
    if call.arguments.get("axis", 0) not in (0, "index"):
        return original(*args, **kwargs)
    if not (dtypes := _united(parts)):
        return _with_name(original(*args, **kwargs), parts)
    call.arguments["dfs"] = [_with_categories(part, dtypes) for part in parts]
    return _with_name(_with_categories(original(*call.args, **call.kwargs), dtypes), parts)


def _with_name(made: Any, parts: Sequence[Any]) -> Any:
    """A dataframe whose columns have the name that all parts give them."""
    names = {getattr(getattr(part, "columns", None), "name", None) for part in parts}
    if len(names) == 1 and names != {None}:
        made.columns = made.columns.rename(*names)
    return made


def _united(parts: Sequence[Any]) -> dict[Any, Any]:
    """The dtypes of the columns of the first part, and of its index, that are categories in all parts, by name."""
    names = [name for name, dtype in _dtypes_of(parts[0]).items() if _has_categories(dtype)]
    if not names:
        return {}
    given = list(map(_dtypes_of, parts))
    dtypes = {name: [each[name] for each in given if name in each] for name in names}
    return {name: _union(found) for name, found in dtypes.items() if all(map(_has_categories, found))}


def _dtypes_of(part: Any) -> dict[Any, Any]:
    if getattr(part, "nlevels", 1) > 1:
        return {(_INDEX, number): dtype for number, dtype in enumerate(_levels(part).dtypes)}
    if not hasattr(part, "index"):
        return {_INDEX: part.dtype}
    return {**_dtypes_of(part.index), **(dict(part.dtypes.items()) if part.ndim > 1 else {None: part.dtype})}


def _levels(index: Any) -> Any:
    """The levels of an index as columns with their numbers; two levels may have one name."""
    return index.to_frame(index=False, name=list(range(index.nlevels)))


def _has_categories(dtype: Any) -> bool:
    return str(dtype) == "category"


def _union(dtypes: Sequence[Any]) -> Any:
    """The dtype of all categories; those that cuDF has left without an order have that of the others."""
    first = next((dtype for dtype in dtypes if dtype.ordered), dtypes[0])
    if all(dtype is first or first.categories.equals(dtype.categories) for dtype in dtypes):
        return first
    plain = list(map(_of_pandas, dtypes))
    known = [each for each in plain if UNKNOWN_CATEGORIES not in each.categories] or plain
    ordered = [each for each in known if each.ordered]
    if ordered and all(set(each.categories) == set(ordered[0].categories) for each in known):
        known = ordered
    union = union_categoricals([pd.Categorical.from_codes([], dtype=each) for each in known]).dtype
    return type(first)(union.categories, union.ordered)


def _of_pandas(dtype: Any) -> pd.CategoricalDtype:
    plain = dtype if isinstance(dtype, pd.CategoricalDtype) else dtype.to_pandas()
    is_text = is_object_dtype(plain.categories)
    return pd.CategoricalDtype(plain.categories.astype("str"), plain.ordered) if is_text else plain


def _with_categories(part: Any, dtypes: dict[Any, Any]) -> Any:
    """A part, or the result, with these dtypes."""
    own = _dtypes_of(part)
    changed = {
        name: dtype
        for name, dtype in dtypes.items()
        if name in own and _has_categories(own[name]) and not _are_same(own[name], dtype)
    }
    if not changed:
        return part
    if not hasattr(part, "index"):
        return _index_with_categories(part, changed)
    columns = {name: dtype for name, dtype in changed.items() if not _is_of_index(name)}
    index = {name: dtype for name, dtype in changed.items() if name not in columns}
    part = part.astype(columns if part.ndim > 1 else columns[None]) if columns else part.copy(deep=False)
    if index:
        part.index = _index_with_categories(part.index, index)
    return part


def _is_of_index(name: Any) -> bool:
    return name is _INDEX or (isinstance(name, tuple) and name[0] is _INDEX)


def _index_with_categories(index: Any, dtypes: dict[Any, Any]) -> Any:
    """An index with this dtype, or with levels of these dtypes."""
    if _INDEX in dtypes:
        return index.astype(dtypes[_INDEX])
    levels = _levels(index).astype({number: dtype for (_, number), dtype in dtypes.items()})
    return type(index).from_frame(levels, names=list(index.names))


def _are_same(left: Any, right: Any) -> bool:
    return left is right or (bool(left.ordered) == bool(right.ordered) and left.categories.equals(right.categories))
