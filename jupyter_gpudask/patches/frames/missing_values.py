"""Comparisons and logical operators of dataframes on GPUs with missing values, with pandas' results.

In cuDF 26.10 the result is missing if an operand is missing; in pandas NaN is a number that is not equal to any other.
In cuDF, integers become floats even if no value was replaced by NaN. Rolling windows keep infinities, which pandas
treats as NaN, and a window of times also contains the later rows that have the same time.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from numbers import Integral
from typing import Any

import numpy as np
import pandas as pd
from dask.base import normalize_token
from dask.dataframe.dask_expr import _expr, _rolling
from dask.dataframe.dask_expr._rolling import RollingAggregation, RollingReduction
from dask.dataframe.dask_expr._str_accessor import CatBlockwise
from dask.dataframe.dispatch import make_meta
from dask.utils import funcname

from ...fallback.missing import DifferentResultError
from ...inspection.placement import is_type_of_gpu
from .rules import SameColumns, dtypes_of, of_columns, with_operation


class Comparison:
    """A comparison whose result has no missing value where pandas has none; strings and nullable dtypes keep theirs.

    - `operation`: the comparison, of one or two operands.
    - `missing`: what pandas returns for a missing number or time.
    """

    def __init__(self, operation: Callable[..., Any], *, missing: bool) -> None:
        self.operation = operation
        self.missing = missing
        self.__name__ = funcname(operation)  # the prefix of Dask's keys

    def __dask_tokenize__(self) -> Any:
        return normalize_token((type(self).__name__, self.operation, self.missing))

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The result for one partition."""
        if any(map(_keeps_missing, args[:2])):  # beside a nullable dtype, NaN is a missing value
            args = (*map(OneMissing.operation, args[:2]), *args[2:])
        operands = args[:2]
        if _has_other_categories(operands):
            raise DifferentResultError("cuDF converts a value to the kind of the categories")
        result = self.operation(*args, **kwargs)
        if not hasattr(result, "fillna") or not any(is_type_of_gpu(type(operand)) for operand in operands):
            return result  # of pandas
        if any(map(_keeps_missing, operands)):
            return _with_missing_texts(result, operands)
        if result.ndim == 1:
            return result.fillna(self.missing) if result.dtype.kind == "b" and result.hasnans else result
        result = _with_columns_of_missing_texts(result, operands)
        names = [name for name, dtype in result.dtypes.items() if dtype.kind == "b" and _is_plain(operands[0], name)]
        return result.fillna(dict.fromkeys(names, self.missing)) if names else result


def _has_other_categories(operands: tuple[Any, ...]) -> bool:
    """Whether a text is compared with categories of another kind, or something else with those of texts."""
    values = [operand for operand in operands if np.isscalar(operand)]
    frames = [operand for operand in operands if values and is_type_of_gpu(type(operand))]
    dtypes = [dtype for frame in frames for dtype in dtypes_of(frame).values() if str(dtype) == "category"]
    categories = [dtype.categories.dtype for dtype in dtypes]
    return any(isinstance(value, str) != (dtype.kind == "O") for value in values for dtype in categories)


def _with_missing_texts(result: Any, operands: tuple[Any, ...]) -> Any:
    """A result that is missing where an operand is; of texts that are all missing, cuDF's is true or false."""
    for operand in filter(_keeps_missing, operands):
        if operand.hasnans and not result.hasnans:
            return result.mask(operand.isna())
    return result


def _with_columns_of_missing_texts(result: Any, operands: tuple[Any, ...]) -> Any:
    frames = [operand for operand in operands if getattr(operand, "ndim", 0) == 2 and is_type_of_gpu(type(operand))]
    for name, dtype in frames[0].dtypes.items() if frames else ():
        if name in result.columns and not _has_nan(dtype):
            of_column = tuple(frame[name] for frame in frames if name in frame.columns)
            result[name] = _with_missing_texts(result[name], of_column)
    return result


def _keeps_missing(operand: Any) -> bool:
    return getattr(operand, "ndim", 0) == 1 and not _has_nan(operand.dtype)


def _is_plain(operand: Any, name: Any) -> bool:
    return getattr(operand, "ndim", 0) < 2 or _has_nan(dict(operand.dtypes.items()).get(name))


def _has_nan(dtype: Any) -> bool:
    """Whether the missing values of this dtype are NaN or NaT in pandas, which are not equal to anything."""
    plain = isinstance(dtype, np.dtype) and dtype.kind in "biufmM"
    return plain or isinstance(dtype, pd.DatetimeTZDtype) or str(dtype) == "category"


COMPARED_BY_UFUNC: dict[str, Comparison] = {
    str(function.__name__): Comparison(function, missing=function in (np.isnan, np.not_equal))
    for function in (
        *(np.isfinite, np.isinf, np.isnan, np.logical_not, np.signbit),
        *(np.equal, np.greater, np.greater_equal, np.less, np.less_equal, np.not_equal),
    )
}
"""Functions of NumPy, by name, whose result for NaN is true or false."""


class OfColumns:
    """A function of NumPy that is called with each column of a dataframe on a GPU, or with a Series.

    cuDF 26.10 collects the missing values of the columns in one mask, so that in each column those of the columns
    before it are missing, too. In a column with missing values it computes the function of 0 for NaN.

    - `function`: the function, or the `Comparison` that takes its place.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        self.__name__ = funcname(function)

    def __dask_tokenize__(self) -> Any:
        return normalize_token((type(self).__name__, self.function))

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The result for one partition."""
        args = tuple(map(OneMissing.operation, args))
        frames = [arg for arg in args if getattr(arg, "ndim", 0) == 2 and is_type_of_gpu(type(arg))]
        names = list(frames[0].columns) if frames else []
        if len(names) < 2 or any(not _is_one_of(arg, frames) and not np.isscalar(arg) for arg in args):
            return self.function(*args, **kwargs)
        if any(list(frame.columns) != names for frame in frames):
            raise DifferentResultError("cuDF confuses the missing values of columns")
        of_column = {name: [arg[name] if _is_one_of(arg, frames) else arg for arg in args] for name in names}
        result = type(frames[0])({name: self.function(*columns, **kwargs) for name, columns in of_column.items()})
        result.columns = frames[0].columns  # with their name
        return result


class OneMissing(SameColumns):
    """Columns in which NaN is a missing value, for what takes it for another value, or for a number.

    A function of NumPy or a division gives NaN, and so do files that pandas has not written. In cuDF 26.10 the mean of
    a group with NaN is NaN, and NaN is counted.
    """

    _filter_passthrough = True

    @staticmethod
    def operation(partition: Any) -> Any:
        """A partition on a GPU with missing values for NaN; anything else as it is."""
        is_on_gpu = getattr(partition, "ndim", 0) and hasattr(partition, "nans_to_nulls")
        return partition.nans_to_nulls() if is_on_gpu else partition


def with_one_missing(expression: Any) -> Any:
    """The expression with `OneMissing` of its operands that have floats."""
    frames = expression.dependencies()
    operands = [
        OneMissing(operand) if _is_one_of(operand, frames) and _has_floats(operand) else operand
        for operand in expression.operands
    ]
    return type(expression)(*operands)


def _has_floats(expression: Any) -> bool:
    dtypes = dtypes_of(expression._meta).values()  # noqa: SLF001
    return any(isinstance(dtype, np.dtype) and dtype.kind == "f" for dtype in dtypes)


def _is_one_of(value: Any, others: list[Any]) -> bool:
    """Whether this object is in a list, without a comparison of contents."""
    return any(value is other for other in others)


class Logical:
    """``|`` and ``&`` of booleans: true | missing is true, and false & missing is false; in cuDF both are missing.

    - `operation`: the operator.
    - `deciding`: the value of one operand that decides the result, whatever the other one is.
    """

    def __init__(self, operation: Callable[..., Any], *, deciding: bool) -> None:
        self.operation = operation
        self.deciding = deciding
        self.__name__ = funcname(operation)

    def __call__(self, left: Any, right: Any) -> Any:
        """The result for one partition."""
        result = self.operation(left, right)
        if getattr(result, "ndim", 0) == 2:
            return self._of_frames(result, left, right)
        has_missing = hasattr(result, "isna") and result.dtype.kind == "b" and result.isna().any()
        if not has_missing:  # of an index the conditions are arrays
            return result
        sides = (side.fillna(not self.deciding) if hasattr(side, "fillna") else side for side in (left, right))
        decided = self.operation(*sides)
        return result.mask(decided if self.deciding else ~decided, self.deciding)

    def _of_frames(self, result: Any, *sides: Any) -> Any:
        result = result.copy(deep=False)
        for name, dtype in result.dtypes.items():
            if dtype.kind == "b" and result[name].isna().any():
                result[name] = self(*(side[name] if getattr(side, "ndim", 0) == 2 else side for side in sides))
        return result


def cat(series: Any, *args: Any, **kwargs: Any) -> Any:
    """The texts of one partition, each followed by those of the other columns.

    Raises `DifferentResultError`: the partition has one row with an empty text, which stands for a missing one, too.
    """
    result = CatBlockwise.operation(series, *args, **kwargs)
    if len(result) == 1 and is_type_of_gpu(type(result)) and bool((result == "").any()):
        raise DifferentResultError("cuDF's str.cat has an empty text for a single missing one")
    return result


CatBlockwiseAsPandas = with_operation(CatBlockwise, cat, __name__)


def mask(frame: Any, cond: Any, other: Any = np.nan) -> Any:
    """Values replaced where a condition is true; integers remain integers if none was replaced by NaN."""
    return _with_integers(frame.mask(cond, other), frame, other)


def where(frame: Any, cond: Any, other: Any = np.nan) -> Any:
    """Values replaced where a condition is false, likewise."""
    return _with_integers(frame.where(cond, other), frame, other)


MaskAsPandas = with_operation(_expr.Mask, mask, __name__)
WhereAsPandas = with_operation(_expr.Where, where, __name__)


class MaskAlignAsPandas(_expr.MaskAlign):
    """Values replaced where a condition is true, which Dask aligns first."""

    _expr_cls = MaskAsPandas


class WhereAlignAsPandas(_expr.WhereAlign):
    """Values replaced where a condition is false, likewise."""

    _expr_cls = WhereAsPandas


def combine_first(frame: Any, other: Any) -> Any:
    """Missing values, rows and columns of one partition from another; cuDF 26.10 lacks the method.

    If the other one has no rows, as some partitions have, pandas 3.0 converts all values to its dtypes: 2.5 becomes 2.
    """
    combine = frame.combine_first
    if frame.ndim == 1 or len(other):
        return combine(other)
    given = [name for name in other.columns if name in frame.columns]
    dtypes = pd.concat([frame.iloc[:0][given], other[given]]).dtypes
    return pd.concat([frame.astype(dict(dtypes)), other.drop(columns=given).reindex(frame.index)], axis=1)


CombineFirstAsPandas = with_operation(_expr.CombineFirst, combine_first, __name__)


class CombineFirstAlignAsPandas(_expr.CombineFirstAlign):
    """The same with another dataframe that Dask aligns first."""

    _expr_cls = CombineFirstAsPandas


def _with_integers(result: Any, frame: Any, other: Any) -> Any:
    if not (isinstance(other, float) and np.isnan(other)):
        return result
    result = OneMissing.operation(result)  # NaN is no missing value of a nullable dtype, and the smallest integer
    if frame.ndim == 1:
        dtype = _dtype_of_pandas(frame, result)
        return result if dtype == result.dtype else result.astype(dtype)
    dtypes = {name: _dtype_of_pandas(frame[name], result[name]) for name in frame.columns}
    changed = {name: dtype for name, dtype in dtypes.items() if dtype != result[name].dtype}
    return result.astype(changed) if changed else result


def _dtype_of_pandas(given: Any, result: Any) -> Any:
    """The dtype for integers that cuDF has made floats, also if none is missing; that of the result for any other."""
    kinds = (getattr(given.dtype, "kind", "O"), getattr(result.dtype, "kind", "O"))
    if kinds not in (("i", "f"), ("u", "f")):
        return result.dtype
    is_nullable = not isinstance(given.dtype, np.dtype)
    return given.dtype if is_nullable or not result.isna().any() else "float64"


def replace(frame: Any, *args: Any, **kwargs: Any) -> Any:
    """Values replaced by others; integers of which none is replaced by a float remain integers."""
    result = frame.replace(*args, **kwargs)
    if frame.ndim == 1:
        return frame if _is_float_of_integers(result, frame) else result
    kept = [name for name in frame.columns if _is_float_of_integers(result[name], frame[name])]
    return result.astype({name: frame[name].dtype for name in kept}) if kept else result


ReplaceAsPandas = with_operation(_expr.Replace, replace, __name__)


def _is_float_of_integers(result: Any, given: Any) -> bool:
    kinds = (getattr(given.dtype, "kind", "O"), getattr(result.dtype, "kind", "O"))
    if kinds not in (("i", "f"), ("u", "f")):
        return False
    return bool((result.isna() == given.isna()).all()) and bool((result == given).all())


def not_missing(frame: Any) -> Any:
    """Whether values are not missing, by ``notna``: in cuDF 26.10 ``notnull`` of a range of rows is ``isna``."""
    return frame.notna()


NotNullAsPandas = with_operation(_expr.NotNull, not_missing, __name__)


def isin(frame: Any, values: Any, dtypes: dict[Any, Any]) -> Any:
    """Whether values are among others, of which one may be missing: cuDF 26.10 finds no NaN, and each missing one.

    `dtypes`: those of pandas, of which it depends whether a missing value is found; that of a Series by `None`.

    Raises `DifferentResultError`: it has floats of Arrow, for which 0.0 is not among -0.0, and 0.1 may have 32 bits.
    """
    if not is_type_of_gpu(type(frame)) or is_type_of_gpu(type(values)):
        return frame.isin(values)
    if _has_floats_of_arrow(frame):
        raise DifferentResultError("cuDF finds 0.0 among -0.0")
    result = among(frame, values)
    if frame.ndim == 1:
        return _with_missing(result, frame, values, dtypes.get(frame.name, dtypes.get(None)))
    changed = result.copy(deep=False)
    for name in frame.columns:
        of_column = values.get(name, []) if isinstance(values, dict) else values
        changed[name] = _with_missing(result[name], frame[name], of_column, dtypes[name])
    return changed


def among(frame: Any, values: Any) -> Any:
    """As ``frame.isin(values)``; cuDF 26.10 makes the values floats of 32 bits where the column has such."""
    if is_type_of_gpu(type(frame)):
        single = [name for name, dtype in dtypes_of(frame).items() if dtype in ("float32", "Float32")]
        frame = frame.astype(of_columns(frame, dict.fromkeys(single, "float64"))) if single else frame
    return frame.isin(values)


class IsinAsPandas(_expr.Isin):
    """An expression of `isin`, with metadata of booleans; for a list Dask has that of a comparison of dataframes."""

    _parameters = [*_expr.Isin._parameters, "of_columns"]  # noqa: RUF012, SLF001 - as in Dask
    operation = staticmethod(isin)

    @functools.cached_property
    def _meta(self) -> Any:
        are_of_list = self.frame.ndim > 1 and not getattr(self.operand("values"), "ndim", 0)
        return make_meta(self.frame._meta.isin([])) if are_of_list else super()._meta  # noqa: SLF001


def with_doubles(frame: Any) -> Any:
    """A partition with floats of 64 bits for those of 32 bits, and for numbers of nullable dtypes."""
    doubles = {
        name: "float64"
        for name, dtype in dtypes_of(frame).items()
        if dtype == "float32" or (not isinstance(dtype, np.dtype) and getattr(dtype, "kind", "O") in "iuf")
    }
    return frame.astype(of_columns(frame, doubles)) if doubles else frame


def _with_missing(result: Any, column: Any, values: Any, dtype: Any) -> Any:
    """The result with what pandas has for a missing value of this dtype; as it is for dtypes that are not known."""
    kind = getattr(dtype, "kind", "O")
    is_text = isinstance(dtype, pd.StringDtype) or (isinstance(dtype, pd.ArrowDtype) and dtype.type is str)
    is_known = is_text or (kind in "fmM" if isinstance(dtype, np.dtype) else kind in "biufmM")
    if not is_known or not column.isna().any():
        return result
    return result.mask(column.isna(), bool(pd.Series([None], dtype=dtype).isin(values).iloc[0]))


def found(expression: _expr.Isin) -> Any:
    """An expression with the metadata of pandas.

    In ``isin``, NaN and NaT are equal, and so are all missing texts; whether other missing values are depends on the
    dtype.
    """
    return IsinAsPandas(*expression.operands, dtypes_of(expression.frame._meta))  # noqa: SLF001


def _has_floats_of_arrow(frame: Any) -> bool:
    return any(isinstance(dtype, pd.ArrowDtype) and dtype.kind == "f" for dtype in dtypes_of(frame).values())


class WithoutInfinities(_expr.Elemwise):
    """A dataframe or Series with NaN instead of infinities, except in some columns."""

    _parameters = ["frame", "except_for"]  # noqa: RUF012 - as in Dask
    _defaults = {"except_for": ()}  # noqa: RUF012

    @staticmethod
    def operation(frame: Any, except_for: Any = ()) -> Any:
        """The result for one partition."""
        if frame.ndim == 1:
            return frame.where(frame.abs() < np.inf)
        names = [name for name in frame.columns if frame[name].dtype.kind == "f" and name not in except_for]
        frame = frame.copy(deep=False)
        for name in names:
            frame[name] = frame[name].where(frame[name].abs() < np.inf)
        return frame


def _of_times(  # noqa: PLR0917 - as Dask's function
    frame: Any,
    window: Any,
    kwargs: Any,
    how: str,
    how_args: Any,
    how_kwargs: Any,
    groupby_kwargs: dict[str, Any] | None = None,
    groupby_slice: Any = None,
) -> Any:
    """Windows of times of one partition.

    Raises `DifferentResultError`: it is on a GPU, and several rows, or several of one group, have the same time.
    """
    if is_type_of_gpu(type(frame)) and _repeats_times(frame, _names(groupby_kwargs)):
        raise DifferentResultError("cuDF's windows of times have later rows of the same time")
    reduce = _rolling._rolling_agg  # noqa: SLF001
    return reduce(frame, window, kwargs, how, how_args, how_kwargs, groupby_kwargs, groupby_slice)


def _repeats_times(frame: Any, by: list[Any]) -> bool:
    if not by:
        return not frame.index.is_unique
    keys = frame[by]
    keys.columns = [f"key {number}" for number in range(len(by))]  # the index, which becomes a column, has another name
    return bool(keys.reset_index().duplicated().any())


def _names(groupby_kwargs: dict[str, Any] | None) -> list[Any]:
    by = (groupby_kwargs or {}).get("by", [])
    return by if isinstance(by, list) else [by]


RollingAggregationAsPandas = with_operation(RollingAggregation, _of_times, __name__)


class RollingAsPandas(RollingReduction):
    """A reduction of windows, called `how`; `_of_times` computes windows of times.

    Dask 2026.7 makes a Series of a dataframe of which one column is selected, or leaves those of other parents in.
    """

    _parameters = [*RollingReduction._parameters, "how"]  # noqa: RUF012, SLF001 - as in Dask

    @property
    def how(self) -> str:  # type: ignore[override]
        """The name of the method of windows."""
        return str(self.operand("how"))

    def _simplify_up(self, parent: Any, dependents: Any) -> Any:
        made = None if self.how == "agg" else super()._simplify_up(parent, dependents)
        if type(made) is not type(self):
            return made
        return type(parent)(type(self)(self.frame[made.frame.columns], *self.operands[1:]), *parent.operands[1:])

    def _lower(self) -> Any:
        lowered = super()._lower()
        if isinstance(self.window, Integral):
            return lowered
        if isinstance(lowered, RollingAggregation):
            return RollingAggregationAsPandas(*lowered.operands)
        return lowered.substitute_parameters({"func": _of_times})


def rolling(expression: RollingReduction) -> Any:
    """A reduction of windows, in which infinities are NaN; a number of values has them."""
    frame = expression.frame
    dtypes = dtypes_of(frame._meta).values()  # noqa: SLF001
    if expression.how != "count" and any(getattr(dtype, "kind", "O") == "f" for dtype in dtypes):
        frame = WithoutInfinities(frame, tuple(_names(expression.groupby_kwargs)))
    return RollingAsPandas(frame, *expression.operands[1:], expression.how)
