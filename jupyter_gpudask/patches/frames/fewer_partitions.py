"""Distinct values and their counts, on GPUs, in fewer partitions where nobody sees the partitions.

For ``value_counts``, ``drop_duplicates`` and ``unique`` Dask shuffles the results of all partitions into as many
partitions, which takes a GPU many times as long as to compute them: each small table costs as much as a large one. If
the result becomes one partition anyway, as in ``compute()``, or is reduced to one, as in ``nunique()``, an output
partition here combines at least eight input partitions, as many as a step of Dask's trees of reductions does. Fewer
than 16 input partitions are not shuffled at all.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any
from weakref import ref

from dask._expr import FinalizeCompute
from dask.dataframe.dask_expr._expr import ToBackend
from dask.dataframe.dask_expr._reductions import CustomReduction, DropDuplicates, Reduction, Unique, ValueCounts
from dask.dataframe.dispatch import make_meta
from distributed import Client

from ...fallback.missing import DifferentResultError
from ...inspection.frames import ToHost, becomes_one_partition
from ...inspection.placement import is_type_of_gpu
from .groupby import computes_partitions
from .missing_values import with_one_missing

_COMBINED = 8
"""Partitions whose results one task combines; the default of ``split_every`` of Dask's `TreeReduce`."""


class _InFewer:
    """An expression whose ``split_out=True`` means as many partitions as the input has, unless nobody sees them.

    It remains that of Dask where Dask would compute quantiles or sizes to know the number of input partitions.
    """

    _original: Any
    """The class of Dask, or its subclass."""

    def _simplify_up(self: Any, parent: Any, dependents: Mapping[str, Sequence[ref[Any]]]) -> Any:
        is_free = self.operand("split_out") is True and not any(map(computes_partitions, self.frame.walk()))
        if is_free and _is_seen_as_one(self, dependents) and _is_optimized():
            return parent.substitute(self, self.in_fewer())
        return super()._simplify_up(parent, dependents)  # type: ignore[misc]

    def _lower(self: Any) -> Any:
        return self._original(*self.operands)

    def in_fewer(self: Any) -> Any:
        """Dask's expression, with fewer output partitions."""
        fewer = max(1, self.frame.npartitions // _COMBINED)
        return self._original(*self.operands).substitute_parameters({"split_out": fewer})


class UniqueInFewer(_InFewer, Unique):
    """As `Unique`, with metadata without rows: from rows, Dask infers another dtype of later expressions."""

    _original = Unique

    @functools.cached_property
    def _meta(self) -> Any:
        return make_meta(super()._meta)


class DropDuplicatesInFewer(_InFewer, DropDuplicates):
    """As `DropDuplicates`."""

    _original = DropDuplicates


def count_values(values: Any, **options: Any) -> Any:
    """The counts of one partition; cuDF 26.10 leaves out categories without rows if missing values are counted, too.

    Of a partition without rows it has none of the categories.
    """
    if is_type_of_gpu(type(values)) and str(values.dtype) == "category" and len(values.dtype.categories):
        if not len(values):
            raise DifferentResultError("cuDF counts no categories of a partition without rows")
        if options.get("dropna") is False and values.isna().any():
            raise DifferentResultError("cuDF leaves out categories beside missing values")
    return values.value_counts(**options)


class ValueCountsAsPandas(ValueCounts):
    """As `ValueCounts`, with all categories."""

    reduction_chunk = staticmethod(count_values)


class ValueCountsInFewer(_InFewer, ValueCounts):
    """As `ValueCounts`; the counts of one partition are sorted, as with ``split_out=1``."""

    _original = ValueCountsAsPandas

    def in_fewer(self) -> Any:
        """Dask's expression, with fewer output partitions."""
        fewer = super().in_fewer()
        is_sorted = fewer.split_out == 1 and self.sort is None
        return fewer.substitute_parameters({"sort": True}) if is_sorted else fewer


_IN_FEWER = {Unique: UniqueInFewer, DropDuplicates: DropDuplicatesInFewer, ValueCounts: ValueCountsInFewer}


def distinct(expression: Any) -> Any:
    """An expression of distinct values, in fewer partitions, and with one value for all that are missing."""
    return _IN_FEWER[type(expression)](*with_one_missing(expression).operands)


DISTINCT = dict.fromkeys(_IN_FEWER, distinct)
"""By the class of Dask."""


def _is_seen_as_one(expression: Any, dependents: Mapping[str, Sequence[ref[Any]]]) -> bool:
    """Whether all that is made of the expression has one partition, and no function of the user among it."""
    made = [each for each in (found() for found in dependents[expression._name]) if each is not None]  # noqa: SLF001
    return bool(made) and all(
        _is_seen_as_one(each, dependents) if isinstance(each, ToBackend | ToHost) else _is_one(each) for each in made
    )


def _is_one(expression: Any) -> bool:
    if isinstance(expression, FinalizeCompute) or becomes_one_partition(expression):
        return True
    is_reduction = isinstance(expression, Reduction) and not isinstance(expression, CustomReduction)
    return is_reduction and expression.npartitions == 1


def _is_optimized() -> bool:
    """Whether ``GpuDask.optimize`` is on, which the kernel's client knows."""
    try:
        return getattr(Client.current(), "optimizes", True)
    except ValueError:  # none
        return True
