"""What is computed of groups whose rows are in one partition, where Dask merges results of partitions wrongly."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dask.dataframe.dask_expr._expr import Expr, MapPartitions
from dask.dataframe.dask_expr._groupby import Cov, IdxMax, IdxMin
from dask.dataframe.dask_expr._repartition import Repartition
from dask.dataframe.dask_expr._shuffle import RearrangeByColumn


def _whole_groups(expression: Any) -> tuple[Any, list[Any]]:
    """The rows and the keys of groups, with those of each group in one partition, in their order."""
    frame, keys = expression.frame, list(expression.by)
    if frame.npartitions == 1:
        return frame, keys
    names = [*keys, *(frame.columns if frame.ndim > 1 else ())]
    if all(isinstance(name, str) for name in names) and set(keys) <= set(frame.columns):
        return RearrangeByColumn(frame, keys, frame.npartitions, method="tasks"), keys
    return Repartition(frame, 1), [Repartition(key, 1) if isinstance(key, Expr) else key for key in keys]


class GroupIdxMinAsPandas(IdxMin):
    """The labels of the smallest values of groups, of which the rows are in one partition.

    Dask 2026.7 takes the first of the labels that several partitions have for a group, whatever their values are.
    """

    _kind = IdxMin

    def _lower(self) -> Any:
        frame, keys = _whole_groups(self)
        return self._kind(frame, *self.operands[1 : len(self._parameters)], *keys)


class GroupIdxMaxAsPandas(GroupIdxMinAsPandas):
    """The labels of the greatest values, likewise."""

    _kind = IdxMax
    groupby_chunk = IdxMax.groupby_chunk


class GroupCovAsPandas(Cov):
    """Covariances of columns in groups, of which the rows are in one partition.

    Dask 2026.7 fails for a single partition, and divides sums of all numbers where one column of two is missing.
    """

    _method = "cov"

    def _lower(self) -> Any:
        frame, keys = _whole_groups(self)
        given = {"dropna": self.dropna, "observed": self.observed}
        options = {
            "method": self._method,
            "columns": self._slice,
            "groups": {name: value for name, value in given.items() if value is not None},
            "options": {
                **self.operand("chunk_kwargs"),
                **(self.operand("aggregate_kwargs") if self._method == "cov" else {}),
            },
            "meta": self._meta,
        }
        made = _mapped(frame, related, self._meta, options, keys)
        if frame.npartitions == 1:
            return made
        return _mapped(Repartition(made, 1), in_order_of_keys, self._meta, {"levels": list(range(len(keys)))}, [])


class GroupCorrAsPandas(GroupCovAsPandas):
    """Correlations, likewise."""

    _method = "corr"


def _mapped(frame: Any, function: Any, meta: Any, options: dict[str, Any], others: Sequence[Any]) -> Any:
    flags = (False, False, True, True)  # of the metadata, divisions that change or are cleared, and alignment
    return MapPartitions(frame, function, meta, *flags, None, None, None, options, len(others), *others)


def related(
    part: Any, *keys: Any, method: str, columns: Any, groups: dict[str, Any], options: dict[str, Any], meta: Any
) -> Any:
    """Covariances or correlations of the columns in the groups of one partition of pandas; `meta` if it has no rows."""
    if not len(part):
        return meta
    made = part.groupby(list(keys), **groups)
    return getattr(made if columns is None else made[columns], method)(**options)


def in_order_of_keys(rows: Any, levels: list[int]) -> Any:
    """The rows by their keys, in each of which the columns stay as they are."""
    return rows.sort_index(level=levels, sort_remaining=False, kind="stable")
