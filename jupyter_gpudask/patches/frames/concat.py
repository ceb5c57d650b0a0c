"""``dd.concat`` on GPUs: inner joins of columns, and dataframes with other columns or dtypes.

dask_cudf 26.10 has only ``join="outer"``. Where the columns or the dtypes of the dataframes differ, Dask concatenates
each partition with the metadata, which is of pandas.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

from dask.dataframe.dask_expr._concat import Concat, StackPartition, StackPartitionInterleaved
from dask.dataframe.dask_expr._describe import DescribeNumeric
from dask.dataframe.dask_expr._expr import (
    AsType,
    ClearDivisions,
    Elemwise,
    Projection,
    ToFrame,
    determine_column_projection,
)
from dask.dataframe.dask_expr._repartition import Repartition
from dask.dataframe.dask_expr._util import _tokenize_partial
from dask.dataframe.dask_expr.io import IO
from dask.dataframe.dispatch import concat
from pandas.api.types import is_object_dtype

from ...inspection import frames as partitions
from ...inspection.placement import place_of


def without_mixed_divisions(expression: Any) -> Any:
    """A concatenation without divisions if these are labels of several kinds, which Dask 2026.7 cannot compare.

    An index of one file has divisions here, and none on the CPU.
    """
    if type(expression) is not Concat or not _is_of_rows(expression):
        return expression
    frames = expression.dependencies()
    try:
        _ = expression.divisions
    except TypeError:
        options = expression.operands[: -len(frames)]
        return type(expression)(*options, *map(ClearDivisions, frames))
    return expression


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
    """The expression as an outer join of the columns that it has, if it can be one."""
    if not is_outer(expression):
        return expression
    if not _is_of_rows(expression):
        return ConcatAsPandas(*expression.operands)
    operands = dict(zip(expression._parameters, expression.operands, strict=False))  # noqa: SLF001 - the frames follow
    frames = expression.dependencies()
    if expression.join != "outer" and (shared := shared_columns(expression)) is not None:
        frames = [frame if list(frame.columns) == shared else Projection(frame, shared) for frame in frames]
    return ConcatAsPandas(*(operands | {"join": "outer"}).values(), *frames)


def _is_of_rows(expression: Any) -> bool:
    return expression.axis in (0, "index")


class _AllRows:
    """A concatenation from which columns are selected.

    Dask 2026.7 leaves out dataframes that have none of the columns, and so their rows or labels, and makes no dataframe
    of a single Series that is left.
    """

    def _simplify_up(self: Any, parent: Any, dependents: Any) -> Any:
        if isinstance(parent, Projection):
            wanted = determine_column_projection(self, parent, dependents)
            wanted = set(wanted if isinstance(wanted, list) else [wanted])
            left_out = [wanted.isdisjoint(frame.columns) for frame in self.dependencies()]
            if all(left_out) or (any(left_out) and not _have_same_rows(self)):
                return None
        made = super()._simplify_up(parent, dependents)  # type: ignore[misc]
        is_series = isinstance(made, Projection) and isinstance(made.frame, Concat) and made.frame.ndim < self.ndim
        return type(made)(ToFrame(made.frame), *made.operands[1:]) if is_series else made


def _have_same_rows(expression: Any) -> bool:
    """Whether dataframes that are side by side have the same labels for certain, such as descriptions of columns."""
    if _is_of_rows(expression):
        return False
    origins: set[str] = set()
    seen: set[str] = set()
    parts = list(expression.dependencies())
    while parts:
        part = parts.pop()
        if not part.ndim or part._name in seen:  # noqa: SLF001
            continue
        seen.add(part._name)  # noqa: SLF001
        if isinstance(part, Elemwise) and not isinstance(part, IO):
            parts.extend(part.dependencies())
        elif isinstance(part, DescribeNumeric):
            origins.add("description")
        else:
            origins.add(_tokenize_partial(part, ["columns", "_series"]) if isinstance(part, IO) else part._name)  # noqa: SLF001
    return len(origins) == 1


class ConcatOnHost(_AllRows, Concat):
    """A concatenation on the host, as of labels of several kinds."""

    def _lower(self) -> Any:
        lowered = super()._lower()
        kind = self._lowered.get(type(lowered))
        return lowered if kind is None else kind(*self._parts(lowered.operands))

    @property
    def _lowered(self) -> dict[type, Any]:
        return {StackPartition: StackPartitionOnHost, StackPartitionInterleaved: InterleavedAsPandas}

    def _parts(self, operands: list[Any]) -> list[Any]:
        return operands


class ConcatAsPandas(ConcatOnHost):
    """A concatenation on GPUs."""

    @property
    def _lowered(self) -> dict[type, Any]:
        return {StackPartition: StackPartitionAsPandas, StackPartitionInterleaved: InterleavedAsPandas}

    def _parts(self, operands: list[Any]) -> list[Any]:
        return list(map(_without_objects, operands)) if _is_of_rows(self) else operands


def _without_objects(operand: Any) -> Any:
    """Without Dask's conversion to objects, as of booleans beside missing ones; cuDF makes texts of them."""
    if type(operand) is Repartition:
        return operand.substitute_parameters({"frame": _without_objects(operand.frame)})
    if type(operand) is not AsType:
        return operand
    dtypes = operand.operand("dtypes")
    if not isinstance(dtypes, dict):
        return operand.frame if is_object_dtype(dtypes) else operand
    others = {name: dtype for name, dtype in dtypes.items() if not is_object_dtype(dtype)}
    return AsType(operand.frame, others) if others else operand.frame


class StackPartitionOnHost(_AllRows, StackPartition):
    """All partitions one after the other, on the host."""


class StackPartitionAsPandas(_AllRows, StackPartition):
    """All partitions one after the other, with all columns on GPUs.

    Booleans that some dataframes lack are objects in pandas. Here they stay booleans: the missing values would be texts
    in cuDF, of which it makes false when they are concatenated with booleans, as after a shuffle.
    """

    @functools.cached_property
    def _meta(self) -> Any:
        made = super()._meta
        if made.ndim == 1:
            return made
        given: dict[Any, set[Any]] = {}
        for frame in self.dependencies():
            for name, dtype in frame._meta.dtypes.items():  # noqa: SLF001
                given.setdefault(name, set()).add(dtype)
        return made.astype(
            {
                name: next(iter(given[name]))
                for name, dtype in made.dtypes.items()
                if is_object_dtype(dtype) and len(given[name]) == 1
            }
        )

    def _layer(self) -> dict[Any, Any]:
        tasks = super()._layer()
        return {key: tuple(concatenate if part is concat else part for part in task) for key, task in tasks.items()}


class InterleavedAsPandas(_AllRows, StackPartitionInterleaved):
    """The rows of all partitions of the same divisions."""


def concatenate(frames: Sequence[Any], *args: Any, **kwargs: Any) -> Any:
    """As Dask's function, for the metadata and a partition; the first is moved to the GPU of the second."""
    meta, partition = frames
    if place_of(partition) == "gpu":
        meta = partitions.partition_to_gpu(meta)
    return concat([meta, partition], *args, **kwargs)
