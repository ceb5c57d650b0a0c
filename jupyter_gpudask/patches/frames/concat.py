"""``dd.concat`` on GPUs: inner joins of columns, and categories that Dask does not know yet.

dask_cudf 26.10 has only ``join="outer"``. Where the columns or the dtypes of the dataframes differ, Dask concatenates
each partition with the metadata, without the name that stands there for unknown categories; it looks for that name in
pandas only, so that on GPUs it becomes a category of the result.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dask.dataframe.dask_expr._concat import Concat, StackPartition
from dask.dataframe.dask_expr._expr import Projection
from dask.dataframe.dispatch import concat
from dask.dataframe.utils import UNKNOWN_CATEGORIES

if TYPE_CHECKING:
    from collections.abc import Sequence


def is_outer(expression: Any) -> bool:
    """Whether an expression `Concat` is an outer join, or can be one of columns of its dataframes."""
    return expression.join == "outer" or (_is_of_rows(expression) and shared_columns(expression) != [])


def shared_columns(expression: Any) -> list[Any] | None:
    """The columns that all its dataframes have, in the order of the first; `None` for Series."""
    dimensions = {frame.ndim for frame in expression.dependencies()}
    if dimensions == {1}:
        return None
    if dimensions != {2}:
        return []
    first, *others = (list(frame.columns) for frame in expression.dependencies())
    return [name for name in first if all(name in columns for columns in others)]


def concatenation(expression: Any) -> Any:
    """The expression as an outer join of the columns that it has, without unknown categories in its partitions."""
    if not _is_of_rows(expression):
        return expression
    operands = dict(zip(expression._parameters, expression.operands, strict=False))  # noqa: SLF001 - the frames follow
    frames = expression.dependencies()
    if expression.join != "outer" and (shared := shared_columns(expression)) is not None:
        frames = [frame if list(frame.columns) == shared else Projection(frame, shared) for frame in frames]
    return ConcatAsPandas(*(operands | {"join": "outer"}).values(), *frames)


def _is_of_rows(expression: Any) -> bool:
    return expression.axis in (0, "index")


class ConcatAsPandas(Concat):
    """A concatenation of rows whose partitions have no unknown categories."""

    def _lower(self) -> Any:
        lowered = super()._lower()
        return StackPartitionAsPandas(*lowered.operands) if type(lowered) is StackPartition else lowered


class StackPartitionAsPandas(StackPartition):
    """All partitions one after the other, without unknown categories."""

    def _layer(self) -> dict[Any, Any]:
        return {key: _without_unknown_categories(task) for key, task in super()._layer().items()}


def _without_unknown_categories(task: Any) -> Any:
    """A task that concatenates a partition with the metadata, by `concatenate`; a key of another task as it is."""
    return tuple(concatenate if part is concat else part for part in task)


def concatenate(frames: Sequence[Any], *args: Any, **kwargs: Any) -> Any:
    """As Dask's function; the result has no category that stands for unknown ones."""
    result = concat(frames, *args, **kwargs)
    if result.ndim == 1:
        return _known(result) if _has_unknown(result) else result
    for name in [name for name, dtype in result.dtypes.items() if str(dtype) == "category"]:
        if _has_unknown(result[name]):
            result[name] = _known(result[name])
    return result


def _has_unknown(series: Any) -> bool:
    return str(series.dtype) == "category" and UNKNOWN_CATEGORIES in list(_on_host(series.cat.categories))


def _known(series: Any) -> Any:
    return series.cat.remove_categories([UNKNOWN_CATEGORIES])


def _on_host(index: Any) -> Any:
    return index.to_pandas() if hasattr(index, "to_pandas") else index
