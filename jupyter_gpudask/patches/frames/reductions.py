"""Reductions of partitions on GPUs, some of which have no rows: extremes, the variance, and cumulative functions.

A partition is empty after a filter, for example. dask_cudf 26.10 divides by its number of rows, so that the variance of
all partitions is missing; that of booleans is another number. cuDF 26.10 refuses the extremes of a dataframe of
integers without rows, and has no ``idxmin`` and ``idxmax``. For the cumulative functions Dask recognizes an empty
partition by the class of pandas, so that all rows after one are missing.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
from dask.dataframe.core import idxmaxmin_chunk
from dask.dataframe.dask_expr import _cumulative
from dask.dataframe.dask_expr._describe import DescribeNumeric
from dask.dataframe.dask_expr._expr import MapPartitions, Projection, Sqrt
from dask.dataframe.dask_expr._reductions import (
    Cov,
    IdxMin,
    Max,
    Min,
    Mode,
    NLargest,
    NSmallest,
    Reduction,
    Var,
)
from dask.dataframe.dispatch import make_meta, meta_nonempty
from dask.dataframe.tseries.resample import ResampleAgg, ResampleAggregation
from dask.utils import is_dataframe_like

from ...inspection.results import results_to_host
from .arithmetic import converted, with_numbers, with_unsigned_integers
from .missing_values import with_doubles
from .rules import dtypes_of, meta_of, of_columns, with_fewer_columns, with_operation


class VarianceAsPandas(Reduction):
    """The variance of the columns, with the operands of Dask's ``Var``.

    By the parallel algorithm of Chan, Golub and LeVeque (1979): each partition gives the number, the mean, and the sum
    of squares of the differences from the mean, of its values.
    """

    _parameters = ["frame", "skipna", "ddof", "numeric_only", "split_every"]  # noqa: RUF012 - as in Dask
    _defaults = {"skipna": True, "ddof": 1, "numeric_only": False, "split_every": False}  # noqa: RUF012

    @functools.cached_property
    def _meta(self) -> Any:
        frame = meta_nonempty(self.frame._meta)  # noqa: SLF001
        made = frame.var(skipna=self.skipna, numeric_only=self.numeric_only)
        return make_meta(pd.Series(0.0, made.index) if getattr(made, "ndim", 0) else made)  # as Dask computes

    @property
    def chunk_kwargs(self) -> dict[str, Any]:  # type: ignore[override]
        """The options of `reduction_chunk`."""
        return {"skipna": self.skipna, "numeric_only": self.numeric_only}

    @property
    def combine_kwargs(self) -> dict[str, Any]:  # type: ignore[override]
        """The options of `reduction_combine`."""
        return {}

    @property
    def aggregate_kwargs(self) -> dict[str, Any]:  # type: ignore[override]
        """The options of `reduction_aggregate`."""
        return {"ddof": self.ddof}

    @classmethod
    def reduction_chunk(cls, x: Any, *, skipna: bool = True, numeric_only: bool = False) -> tuple[Any, Any, Any]:
        """The number of values of one partition, their mean, and the sum of squares of the differences from it."""
        options = {"numeric_only": numeric_only} if x.ndim > 1 else {}
        n = x.count(**options)
        if numeric_only and x.ndim > 1:
            x = x[list(results_to_host(n).index)]
        x = with_doubles(with_numbers(x))  # from booleans cuDF 26.10 computes other numbers
        if not skipna:
            n = n * 0 + len(x)
        mean = _zero_for_none(x.mean(skipna=skipna), n)
        squares = _zero_for_none(((x - mean) ** 2).sum(skipna=skipna), n)
        return n, mean, squares

    @classmethod
    def reduction_combine(cls, parts: Any) -> tuple[Any, Any, Any]:
        """Those of several partitions; the mean of no values is 0."""
        n, mean, squares = parts[0]
        for n_b, mean_b, squares_b in parts[1:]:
            n_a, mean_a, n = n, mean, n + n_b
            some = _at_least_one(n)
            mean = (n_a * mean_a + n_b * mean_b) / some
            squares = squares + squares_b + (mean_b - mean_a) ** 2 * n_a * n_b / some
        return n, mean, squares

    @classmethod
    def reduction_aggregate(cls, parts: Any, *, ddof: int = 1) -> Any:
        """The variance; missing if there are no more values than `ddof`."""
        n, _, squares = cls.reduction_combine(parts)
        if getattr(n, "ndim", 0):
            return squares.where(n > ddof) / _at_least_one(n - ddof)
        return squares / (n - ddof) if n > ddof else np.float64(np.nan)


def _zero_for_none(numbers: Any, n: Any) -> Any:
    """The results of `n` values each, in which that of no values is 0."""
    if getattr(n, "ndim", 0):
        return numbers.where(n > 0, 0.0)
    return numbers if n else 0.0


def _at_least_one(numbers: Any) -> Any:
    return numbers.clip(lower=1) if getattr(numbers, "ndim", 0) else max(numbers, 1)


def of_variance(expression: MapPartitions) -> Any:
    """A standard deviation with the dtype of its variance; any other expression as it is."""
    is_root = expression.func is np.sqrt and isinstance(expression.frame, VarianceAsPandas)
    if not is_root or expression.frame.ndim == 0:
        return expression
    return expression.substitute_parameters({"meta": expression.frame._meta})  # noqa: SLF001


def of_rows(expression: MapPartitions) -> Any:
    """The extremes of rows, of booleans where they are in pandas: of missing ones cuDF 26.10 makes floats."""
    options = expression.operand("kwargs") or {}
    if getattr(expression.func, "method", "") not in {"max", "min"} or options.get("axis") not in {1, "columns"}:
        return expression
    dtype = getattr(meta_of(expression), "dtype", None)
    is_nullable = getattr(dtype, "kind", "O") == "b" and not isinstance(dtype, np.dtype)
    return converted(expression, {None: str(dtype)}) if is_nullable else expression


class DescribeAsPandas(DescribeNumeric):
    """The description of a column of numbers, with the standard deviation of `VarianceAsPandas`."""

    def _lower(self) -> Any:
        made = super()._lower()
        return type(made)(*map(_with_variance, made.operands))


def _with_variance(operand: Any) -> Any:
    if isinstance(operand, Sqrt) and type(operand.frame) is Var:
        return Sqrt(VarianceAsPandas(*operand.frame.operands))
    return operand


class MaxAsPandas(Max):
    """The maximum of each column, of the partitions with rows; it is missing if there are none."""

    @classmethod
    def chunk(cls, df: Any, **kwargs: Any) -> Any:
        """The values of one partition; no row if it has none."""
        if len(df) or isinstance(df, pd.Index) or not hasattr(df, "reset_index"):
            return super().chunk(df, **kwargs)
        columns = df.select_dtypes(include=["number", "bool"]) if kwargs.get("numeric_only") else df
        return columns.reset_index(drop=True)

    @classmethod
    def combine(cls, inputs: list[Any], **kwargs: Any) -> Any:
        """The values of several partitions; no row if none has rows."""
        found = _with_rows(inputs)
        return super().combine(found, **kwargs) if found else inputs[0]

    @classmethod
    def aggregate(cls, inputs: list[Any], **kwargs: Any) -> Any:
        """The values of all partitions."""
        return super().aggregate(_with_rows(inputs) or [_with_missing_row(inputs[0])], **kwargs)


def _with_missing_row(part: Any) -> Any:
    """A row of missing values, of numbers in place of booleans: the extreme of a missing boolean is true in cuDF."""
    numbers = {name: "float64" for name, dtype in dtypes_of(part).items() if getattr(dtype, "kind", "O") == "b"}
    return (part.astype(of_columns(part, numbers)) if numbers else part).reindex([0])


def _with_rows(inputs: list[Any]) -> list[Any]:
    return [each for each in inputs if not getattr(each, "ndim", 0) or len(each)]


class MinAsPandas(MaxAsPandas):
    """The minimum of each column, likewise."""

    reduction_chunk = Min.reduction_chunk


class CovAsPandas(Cov):
    """Covariances of all columns; Dask 2026.7 has rows only of those that are selected, and fails for a single one."""

    def _simplify_up(self, parent: Any, dependents: Any) -> None:
        """Do not select columns before they are computed."""


class CorrAsPandas(CovAsPandas):
    """Correlations of all columns, likewise."""

    corr = True


class NLargestAsPandas(NLargest):
    """The rows with the largest values of some columns, with one column selected, which Dask 2026.7 refuses.

    cuDF takes a name of several levels, which is a tuple, for several names.
    """

    def _columns_kwarg(self) -> dict[str, Any]:
        columns = self._columns
        return {} if columns is None else {"columns": columns if isinstance(columns, list) else [columns]}

    def _simplify_up(self, parent: Any, dependents: Any) -> Any:
        if not isinstance(parent, Projection):
            return super()._simplify_up(parent, dependents)
        return with_fewer_columns(self, parent, dependents, self._columns_kwarg().get("columns", ()))


class NSmallestAsPandas(NLargestAsPandas):
    """The rows with the smallest values, likewise."""

    reduction_chunk = NSmallest.reduction_chunk
    reduction_aggregate = NSmallest.reduction_aggregate


def named_mode(counts: Any, *, dropna: bool = True, name: Any = None, dtype: Any = None) -> Any:
    """The most frequent values, of the counts of all partitions; where there are none, numbers of `dtype` if given."""
    made = Mode.reduction_aggregate(counts, dropna).rename(name)
    return made if dtype is None or len(made) else type(made)([], dtype=dtype, name=name)


class ModeAsPandas(Mode):
    """The most frequent values of a Series, with its name, which cuDF loses, and the dtype of numbers without rows."""

    reduction_aggregate = staticmethod(named_mode)  # type: ignore[assignment]

    @property
    def aggregate_kwargs(self) -> dict[str, Any]:  # type: ignore[override]
        """The options of `reduction_aggregate`."""
        meta = self.frame._meta  # noqa: SLF001
        if meta.ndim > 1:
            return {"dropna": self.dropna}
        dtype = meta.dtype if getattr(meta.dtype, "kind", "O") in "biuf" else None
        return {"dropna": self.dropna, "name": meta.name, "dtype": dtype}


def last(a: Any, skipna: bool = True) -> Any:  # noqa: FBT002 - as in Dask
    """The last row of a partition; `None` if it has no rows."""
    return _cumulative.TakeLast.operation(a, skipna) if len(a) else None


TakeLastAsPandas = with_operation(_cumulative.TakeLast, last, __name__)


def joined(aggregate: Callable[..., Any], x: Any, y: Any, *, skipna: bool = True) -> Any:
    """What `aggregate` gives for the rows `x` after the last row `y` of those before; either may be `None`.

    With `skipna`, a column without a value so far has no part in it; with Dask's it is missing from there on.
    """
    if x is None or y is None:
        return y if x is None else x
    made = aggregate(x, y)
    if not skipna:
        return made
    if not hasattr(y, "index"):  # of a single column
        of_missing_row = not hasattr(x, "index") and pd.isna(x)
        return x if pd.isna(y) else y if of_missing_row else made
    for name in _missing(y):
        made[name] = x[name]
    for name in _missing(x) if x.ndim == 1 else ():
        made[name] = y[name]
    return made


def _missing(row: Any) -> list[Any]:
    """The labels of a row whose values are missing."""
    missing = results_to_host(row.isna())
    return list(missing.index[missing])


def _cumulating(kind: Any) -> Any:
    """The class that ignores empty partitions; a global of this module, so that it can be pickled."""
    name = f"{kind.__name__}AsPandas"

    def lower(self: Any) -> Any:
        made = kind._lower(self)  # noqa: SLF001
        rows, last, aggregate, neutral = made.operands
        aggregate = functools.partial(joined, aggregate, skipna=self.skipna)
        return type(made)(rows, TakeLastAsPandas(*last.operands), aggregate, neutral)

    made = type(name, (kind,), {"_lower": lower, "__module__": __name__})
    globals()[name] = made
    return made


CUMULATIVE = {kind: _cumulating(kind) for kind in _cumulative.CumulativeAggregations.__subclasses__()}
"""The class for each cumulative function of Dask."""


def cumulated(expression: Any) -> Any:
    """A cumulative function, of unsigned integers of 64 bits if it is a sum or product."""
    kind = type(expression)
    if kind in (_cumulative.CumProd, _cumulative.CumSum):
        expression = with_unsigned_integers(expression)
    return CUMULATIVE[kind](*expression.operands)


class BinsWithMetadata(ResampleAggregation):
    """The partitions of `ResampleAggAsPandas`, with the columns of the result; Dask 2026.7 has those of its input."""

    _parameters = [*ResampleAggregation._parameters, "meta"]  # noqa: RUF012, SLF001 - as in Dask

    @functools.cached_property
    def _meta(self) -> Any:
        return self.operand("meta")

    @staticmethod
    def operation(*operands: Any) -> Any:
        """The result for one partition."""
        return ResampleAggregation.operation(*operands[:-1])


class ResampleAggAsPandas(ResampleAgg):
    """Several functions of bins of time, by whose columns the rows can be sorted."""

    def _lower(self) -> Any:
        return BinsWithMetadata(*super()._lower().operands, self._meta)


def find_extremes(
    block: Any,
    fn: str = "idxmin",
    skipna: bool = True,  # noqa: FBT002 - Dask's signature
    numeric_only: bool = False,  # noqa: FBT002
) -> pd.DataFrame:
    """Labels and values of the extremes of each column of a cuDF DataFrame, or of a Series, on the host.

    Returns
    -------
    pandas.DataFrame
        With the columns ``idx`` and ``value``, and a row for each column of a DataFrame. None for a block without rows.
        The rows of columns of several levels are numbered: Dask takes all columns of one first level for one column.

    Raises `ValueError`: as pandas 3 does: a column has nothing but missing values, or one although `skipna` is false.
    """
    if getattr(getattr(block, "columns", None), "nlevels", 1) > 1:
        block = block[_numbers(block)] if numeric_only else block.copy(deep=False)
        block.columns = range(block.shape[1])
    if isinstance(block, pd.DataFrame | pd.Series):
        made: pd.DataFrame = idxmaxmin_chunk(block, fn, skipna=skipna, numeric_only=numeric_only)
        return made
    if not len(block):
        return pd.DataFrame({"idx": pd.Series([], dtype="i8"), "value": pd.Series([], dtype="i8")})
    if not is_dataframe_like(block):
        label, value = _find_extreme(block, fn, skipna)
        return pd.DataFrame({"idx": [label], "value": [value]})
    block = block[_numbers(block)] if numeric_only else block
    found = {name: _find_extreme(block[name], fn, skipna) for name in block.columns}
    labels, values = zip(*found.values(), strict=True) if found else ((), ())
    return pd.DataFrame({"idx": labels, "value": values}, index=list(found))


def _numbers(block: Any) -> list[Any]:
    return [name for name, dtype in block.dtypes.items() if getattr(dtype, "kind", "O") in "biufc"]


def named_extremes(found: Any, names: Any = None, **options: Any) -> Any:
    """The labels of the extremes in all partitions, of those of each, with `names` if they are numbered."""
    made = IdxMin.reduction_aggregate(found, **options)
    return made if names is None else made.set_axis(names)


def _find_extreme(column: Any, fn: str, skipna: bool) -> tuple[Any, Any]:
    column = column.nans_to_nulls() if column.dtype.kind == "f" else column
    if not skipna and column.isna().any():
        raise ValueError(f"{fn} with skipna=False encountered an NA value.")
    if column.isna().all():
        raise ValueError(f"{fn} with skipna=True encountered all NA values.")
    value = column.max() if fn == "idxmax" else column.min()
    first = int(np.argmax((column == value).fillna(False).to_cupy()))  # noqa: FBT003 - cuDF's signature
    label = column.index[first]
    return (label.item() if isinstance(label, np.number) else label), value


class IdxMinAsPandas(IdxMin):
    """The labels of the least values."""

    reduction_chunk = find_extremes
    reduction_aggregate = staticmethod(named_extremes)  # type: ignore[assignment]

    @property
    def aggregate_kwargs(self) -> Any:  # type: ignore[override]
        """The options of `reduction_aggregate`."""
        meta = self.frame._meta  # noqa: SLF001
        if getattr(getattr(meta, "columns", None), "nlevels", 1) == 1:
            return super().aggregate_kwargs
        names = meta[_numbers(meta)].columns if self.numeric_only else meta.columns
        return {**super().aggregate_kwargs, "names": names}


class IdxMaxAsPandas(IdxMinAsPandas):
    """The labels of the greatest values."""

    _reduction_attribute = "idxmax"
