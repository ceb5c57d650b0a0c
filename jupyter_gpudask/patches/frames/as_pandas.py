"""Expressions on GPUs with the results of pandas: missing values, dtypes of accessors, order of groups and columns.

cuDF 26.10 has a missing value where pandas compares NaN: ``x != 1`` is true for NaN in pandas, and so is
``true | missing``. The methods of ``.str`` and ``.dt`` return smaller integers, or dtypes of Arrow, and ``cat.codes``
has missing values where pandas has -1. Groups are in the order of a hash table. Each expression here replaces one of
Dask; it has the same tasks, and the same result on the CPU.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pandas as pd
from dask.dataframe.dask_expr import _expr, _groupby, _reductions
from dask.dataframe.dask_expr._accessor import FunctionMap, FunctionMapIndex, PropertyMap, PropertyMapIndex
from dask.dataframe.dask_expr._concat import Concat
from dask.dataframe.dask_expr._describe import DescribeNumeric
from dask.dataframe.dask_expr._groupby import (
    GetGroup,
    GroupbyAggregation,
    GroupByBase,
    GroupByBFill,
    GroupByCumprod,
    GroupByCumsum,
    GroupByFFill,
    GroupByTransform,
    Size,
    Std,
)
from dask.dataframe.dask_expr._merge import Merge
from dask.dataframe.dask_expr._quantile import SeriesQuantile
from dask.dataframe.dask_expr._reductions import (
    Corr,
    Cov,
    IdxMax,
    IdxMin,
    Max,
    Min,
    Mode,
    NLargest,
    NSmallest,
    Prod,
    Sum,
    Var,
)
from dask.dataframe.dask_expr._rolling import RollingReduction
from dask.dataframe.dask_expr._shuffle import SetIndex, SortValues
from dask.dataframe.dask_expr._str_accessor import CatBlockwise, SplitMap
from dask.dataframe.tseries.resample import ResampleAgg, ResampleReduction
from pandas.api.types import is_object_dtype

from ...fallback.missing import DifferentResultError
from ...inspection.frames import has_lists
from ...inspection.placement import is_type_of_gpu
from .arithmetic import (
    OPERATORS_OF_NUMPY,
    Arithmetic,
    converted,
    is_converted,
    is_division,
    with_floats,
    with_nullable_dtypes,
    with_signed_sums,
    with_units,
)
from .concat import concatenation
from .fewer_partitions import DISTINCT
from .groupby import (
    BFillAsPandas,
    CumprodAsPandas,
    FFillAsPandas,
    GetGroupAsPandas,
    GroupbyAggregationAsPandas,
    SizeAsPandas,
    StdAsPandas,
    in_order,
    of_all_categories,
    of_known_keys,
    of_no_column,
    of_no_number,
    selected,
    summed_so_far,
    with_sums_of_nothing,
)
from .missing_values import (
    COMPARED_BY_UFUNC,
    CatBlockwiseAsPandas,
    CombineFirstAlignAsPandas,
    CombineFirstAsPandas,
    Comparison,
    Logical,
    MaskAlignAsPandas,
    MaskAsPandas,
    NotNullAsPandas,
    OfColumns,
    OneMissing,
    ReplaceAsPandas,
    WhereAlignAsPandas,
    WhereAsPandas,
    found,
    rolling,
    with_one_missing,
)
from .query import evaluated_text, selected_by_text
from .reductions import (
    CUMULATIVE,
    CorrAsPandas,
    CovAsPandas,
    DescribeAsPandas,
    IdxMaxAsPandas,
    IdxMinAsPandas,
    MaxAsPandas,
    MinAsPandas,
    ModeAsPandas,
    NLargestAsPandas,
    NSmallestAsPandas,
    ResampleAggAsPandas,
    VarianceAsPandas,
    cumulated,
    of_rows,
    of_variance,
)
from .rules import SameColumns, dtypes_of, is_text, meta_of, with_operation
from .sorting import are_read, indexed, sorted_rows
from .texts import SplitMapAsPandas, called, is_checked
from .whole_groups import GroupCorrAsPandas, GroupCovAsPandas, GroupIdxMaxAsPandas, GroupIdxMinAsPandas

_COMPARISONS = ("GT", "GE", "LT", "LE", "EQ", "NE")
_BY_MISSING = (GroupByBase, NLargest, ResampleReduction, SortValues)
"""Expressions for which cuDF takes NaN for the greatest number, or has NaN as the result of a group with it."""


def as_pandas(expression: Any) -> Any:
    """An expression on GPUs with the results of pandas."""
    expression = _without_files(expression)
    if isinstance(expression, GroupByBase):
        expression = of_all_categories(expression)
    if isinstance(expression, _BY_MISSING) or (type(expression) is Merge and _has_float_keys(expression)):
        expression = with_one_missing(expression)
    made = with_sums_of_nothing(replaced(expression))
    # With NaN Dask fills bins outside of the rows of a partition.
    return with_nullable_dtypes(made, "f") if isinstance(expression, ResampleReduction) else made


def _without_files(expression: Any) -> Any:
    """An expression that shuffles by tasks, if by files: Dask's methods of groups take that from the configuration."""
    given = [name for name in ("method", "shuffle_method") if name in expression._parameters]  # noqa: SLF001
    changed = {name: "tasks" for name in given if expression.operand(name) == "disk"}
    return expression.substitute_parameters(changed) if changed else expression


def replaced(expression: Any) -> Any:
    """The expression that has pandas' result on a GPU; most are returned as they are."""
    rule = RULES.get(type(expression))
    if rule is None:
        return in_order(expression)
    return rule(*expression.operands) if isinstance(rule, type) else rule(expression)


def of_columns_of_numpy(expression: Any) -> Any:
    """A function of NumPy, column by column; if it compares, such as `numpy.isnan`, with true or false for NaN."""
    if not isinstance(expression.func, np.ufunc):
        return expression
    function: Any = COMPARED_BY_UFUNC.get(expression.func.__name__, expression.func)
    divides = expression.func in (np.divide, np.floor_divide, np.remainder)
    if expression.func.__name__ in OPERATORS_OF_NUMPY and (is_converted(expression) or divides):
        function = Arithmetic(function)
    made = with_nullable_dtypes(expression.substitute_parameters({"func": OfColumns(function)}))
    if isinstance(function, Comparison) and expression.func.__name__ not in OPERATORS_OF_NUMPY:
        dtypes = [getattr(meta_of(part), "dtype", None) for part in made.dependencies()]
        # Of Arrow's numbers pandas makes floats.
        return _expr.Fillna(made, function.missing) if any(isinstance(one, pd.ArrowDtype) for one in dtypes) else made
    return with_floats(made) if expression.func.nin > 1 and expression.ndim > 1 else made


# Arithmetic and comparisons


def _made(kind: Any, operation: Any) -> Any:
    """The class with that operation; a global of this module, so that it can be pickled."""
    made = with_operation(kind, operation, __name__)
    globals()[made.__name__] = made
    return made


_CONVERTING = {
    kind: _made(kind, Arithmetic(kind.operation))
    for kind in (
        *(_expr.Add, _expr.Sub, _expr.Mul, _expr.Div, _expr.FloorDiv, _expr.Mod, _expr.Pow),
        _expr.MethodOperator,
    )
}


def converting(expression: Any) -> Any:
    """A division, and arithmetic of booleans or small integers, whose operands are converted; any other as it is."""
    is_changed = is_converted(expression) or is_division(expression)
    return with_nullable_dtypes(_CONVERTING[type(expression)](*expression.operands) if is_changed else expression, "f")


_COMPARING = {
    kind: _made(kind, Comparison(Arithmetic(kind.operation), missing=kind.__name__.startswith("NE")))
    for kind in (
        *(getattr(_expr, f"{name}{of}") for name in _COMPARISONS for of in ("", "Series", "Frame")),
        _expr.Between,
    )
}


def compared(expression: Any) -> Any:
    """A comparison as in pandas, where that of objects or of texts with NaN is never missing; in cuDF texts are one."""
    made = _COMPARING[type(expression)](*expression.operands)
    meta = meta_of(made)
    if any(isinstance(each, float) and np.isnan(each) for each in made.operands[:2]):
        return _beside_nan(made)
    is_plain = isinstance(getattr(meta, "dtype", None), np.dtype) and not isinstance(meta, np.generic)
    has_texts = is_plain and any(map(_is_of_texts, made.operands[:3]))  # not `inclusive`
    return _expr.Fillna(made, made.operation.missing) if has_texts else made


def _beside_nan(comparison: Any) -> Any:
    """A comparison with NaN, which is a missing value for dtypes of Arrow and for texts, and a number for others."""
    (frame,) = comparison.dependencies()
    dtypes = dtypes_of(frame._meta).items()  # noqa: SLF001
    missing = [
        name
        for name, dtype in dtypes
        if isinstance(dtype, pd.ArrowDtype) or (isinstance(dtype, pd.StringDtype) and dtype.na_value is pd.NA)
    ]
    return AllMissing(comparison, missing if frame.ndim > 1 else None) if missing else comparison


class AllMissing(SameColumns):
    """Booleans that are all missing; those of a dataframe in some columns."""

    _parameters = ["frame", "names"]  # noqa: RUF012 - as in Dask

    @staticmethod
    def operation(frame: Any, names: list[Any] | None) -> Any:
        """The result for one partition; `names` is `None` for a Series."""
        if frame.ndim == 1:  # Dask may select it below
            return frame.mask(frame.notna()) if names is None or frame.name in names else frame
        changed = frame.copy(deep=False)
        for name in frame.columns:
            if name in (names or ()):
                changed[name] = frame[name].mask(frame[name].notna())
        return changed


def _is_of_texts(operand: Any) -> bool:
    """Whether it is a text, or has some; Dask's metadata of elements of lists are numbers."""
    if isinstance(operand, str | ElementAsPandas):
        return True
    dtype = getattr(operand._meta, "dtype", None) if isinstance(operand, _expr.Expr) else None  # noqa: SLF001
    return isinstance(dtype, pd.StringDtype) or (dtype is not None and is_object_dtype(dtype))


class AlignedAsPandas(_expr.OpAlignPartitions):
    """A comparison or logical operation of dataframes that Dask aligns first, such as those of two files."""

    @staticmethod
    def _op(frame: Any, op: str, other: Any, *_: Any, **__: Any) -> Any:
        return replaced(getattr(frame, op)(other))


class AlignedMethodAsPandas(_expr.MethodOperatorAlign):
    """A method such as ``div`` of dataframes that Dask aligns first."""

    @staticmethod
    def _op(frame: Any, op: str, other: Any, *args: Any, **kwargs: Any) -> Any:
        return replaced(_expr.MethodOperator(op, frame, other, *args, **kwargs))


def _has_float_keys(expression: Merge) -> bool:
    """Whether NaN can be among the keys of a merge."""
    for side in ("left", "right"):
        meta = expression.operand(side)._meta  # noqa: SLF001
        keys = expression.operand(f"{side}_on")
        keys = keys if isinstance(keys, list) else [keys]
        dtypes = [key._meta.dtype for key in keys if isinstance(key, _expr.Expr)]  # noqa: SLF001
        dtypes += [meta[key].dtype for key in keys if not isinstance(key, _expr.Expr) and key in meta.columns]
        dtypes += [getattr(meta.index, "dtype", None)] if expression.operand(f"{side}_index") else []
        if any(getattr(dtype, "kind", "O") == "f" for dtype in dtypes):
            return True
    return False


class ColumnsInOrder(SameColumns):
    """The partitions with their columns in the order of the metadata, by which Dask renames them."""

    _filter_passthrough = True

    @property
    def _npartitions(self) -> Any:  # that of a merge
        return self.frame._npartitions  # noqa: SLF001

    @functools.cached_property
    def _args(self) -> list[Any]:
        return [self.frame, list(self.frame.columns)]

    @staticmethod
    def operation(partition: Any, columns: list[Any]) -> Any:
        """One partition; as it is if it has other columns."""
        given = list(partition.columns) if partition.ndim > 1 else columns  # Dask may select a Series below it
        is_known = len(given) == len(columns) and set(given) == set(columns)
        return partition[columns] if is_known and given != columns else partition


def with_columns_in_order(expression: Merge) -> Any:
    """A merge with the columns in the order of pandas; cuDF has another one for the right side, and for indexes."""
    by_columns = not (expression.operand("left_index") or expression.operand("right_index"))
    return expression if by_columns and expression.how != "right" else ColumnsInOrder(expression)


class FilterByAlternatives(_expr.Filter):
    """Rows for which one of several conditions holds, of which Dask's optimizer takes out what they have in common."""

    def _simplify_up(self, parent: Any, dependents: Any) -> Any:
        common = _expr.rewrite_filters(self.predicate)
        if common._name == self.predicate._name:  # noqa: SLF001
            return super()._simplify_up(parent, dependents)
        return parent.substitute(self, _expr.Filter(self.frame, _with_logic(common)))


def _with_logic(condition: Any) -> Any:
    """A condition whose operators have pandas' results for missing operands; Dask's optimizer makes plain ones."""
    if not isinstance(condition, _expr.And | _expr.Or):
        return condition
    kind = RULES[_expr.And if isinstance(condition, _expr.And) else _expr.Or]
    return kind(*map(_with_logic, condition.operands))


def filtered(expression: _expr.Filter) -> Any:
    """A filter that keeps the rules of its dataframe, or of its condition, when Dask moves it."""
    by_alternatives = type(expression) is _expr.Filter and isinstance(expression.predicate, _expr.Or)
    made = selected(expression)
    return FilterByAlternatives(*made.operands) if by_alternatives and made is expression else made


class HeadAsPandas(_expr.Head):
    """The first rows of files, of all partitions if they are read in fewer than the user names."""

    def _simplify_down(self) -> Any:
        made = super()._simplify_down()
        if made is None or isinstance(made, _expr.Head):
            return made
        return type(made)(
            *(HeadAsPandas(*each.operands) if type(each) is _expr.Head else each for each in made.operands)
        )

    def _lower(self) -> Any:
        fewer = min(self.operand("npartitions"), self.frame.npartitions)
        return _expr.Head(self.frame, self.n, fewer)._lower()  # noqa: SLF001


def first_rows(expression: _expr.Head) -> Any:
    """The first rows; raises the error of Dask if there are fewer partitions, which Dask raises later."""
    number, most = expression.operand("npartitions"), expression.frame.npartitions
    if are_read(expression):
        return HeadAsPandas(*expression.operands[:2], min(number, most))
    if number > most:
        raise ValueError(f"only {most} partitions, head received {number}")
    return expression


def assigned(df: Any, *pairs: Any) -> Any:
    """One partition with new columns, whose names get the levels of the others.

    cuDF gives them none if all columns that have them are left out.
    """
    rest = ("",) * (df.columns.nlevels - 1)
    return _expr.Assign.operation(df, *(part if place % 2 else (part, *rest) for place, part in enumerate(pairs)))


class AssignOfLevels(_expr.Assign):
    """New columns of a dataframe whose columns have several levels."""

    operation = staticmethod(assigned)

    def _simplify_down(self) -> None:
        """Do not become one with those assigned before, by which Dask makes an expression of its own class."""


class AssignAlignOfLevels(_expr.AssignAlign):
    """The same with a column that Dask aligns first."""

    _expr_cls = AssignOfLevels


def with_levels(expression: Any) -> Any:
    """New columns, by `AssignOfLevels` if those of the dataframe have several levels."""
    if expression.frame._meta.columns.nlevels == 1:  # noqa: SLF001
        return expression
    kind = AssignOfLevels if isinstance(expression, _expr.Assign) else AssignAlignOfLevels
    return kind(*expression.operands)


# Conversions


def with_frequency(expression: _expr.ShiftIndex) -> Any:
    """A shift of an index of times by their frequency, which cuDF does not know; periods have their own."""
    meta = meta_of(expression.frame)
    freq = None if isinstance(meta, pd.PeriodIndex) else getattr(meta, "freq", None)
    return (
        expression if freq is None or expression.freq is not None else type(expression)(*expression.operands[:2], freq)
    )


def with_floats_of_numpy(expression: Any) -> Any:
    """What is computed of the quantiles of floats, which may be Arrow's, as in a table of groups of Arrow's numbers."""
    meta = meta_of(expression.frame)
    if not isinstance(meta, pd.Series) or not isinstance(dtype := meta.dtype, np.dtype) or dtype.kind != "f":
        return expression
    return expression.substitute_parameters({"frame": converted(expression.frame, {None: str(dtype)})})


def with_plain_booleans(expression: Any) -> Any:
    """Whether all or any values of columns are true, as booleans of NumPy; of columns of Arrow, cuDF's are Arrow's."""
    meta = meta_of(expression)
    dtypes = dtypes_of(expression.frame._meta).values()  # noqa: SLF001
    is_changed = getattr(meta, "ndim", 0) == 1 and any(isinstance(dtype, pd.ArrowDtype) for dtype in dtypes)
    return converted(expression, {None: "bool"}) if is_changed and meta.dtype == bool else expression


def without_rows(expression: _expr.ToDatetime) -> Any:
    """Times with metadata that has no row; with that of Dask, the booleans beside a new column of times are objects.

    Those of integers have the unit of pandas; Dask has microseconds for all.
    """
    meta = expression.operand("meta")[:0]
    frame, kwargs = expression.frame, expression.operand("kwargs")
    kind = _kind(getattr(meta_of(frame), "dtype", None))
    unit = _unit_of_numbers(kwargs) if kind in "iuf" else None
    if unit is None:
        return expression.substitute_parameters({"meta": meta})
    return TimesOfNumbers(frame, kwargs=kwargs, meta=meta if kind == "f" else meta.astype(unit))


def _unit_of_numbers(kwargs: Any) -> Any:
    """The dtype of the times that pandas makes of integers; `None` if the options depend on more than the unit."""
    if set(kwargs or {}) - {"cache", "errors", "unit"}:
        return None
    return pd.to_datetime(pd.Series([1]), **(kwargs or {})).dtype


class TimesOfNumbers(_expr.ToDatetime):
    """Times of numbers; those of whole floats have the unit of integers, and cuDF 26.10 has nanoseconds for all."""

    @staticmethod
    def operation(numbers: Any, **kwargs: Any) -> Any:
        """The result for one partition."""
        times = _expr.ToDatetime.operation(numbers, **kwargs)
        if not is_type_of_gpu(type(numbers)) or _kind(numbers.dtype) != "f":
            return times
        are_whole = bool((numbers.dropna() % 1 == 0).all())
        return times.astype(_unit_of_numbers(kwargs)) if are_whole else times


def as_type(expression: _expr.AsType) -> Any:
    """A conversion by `AsTypeAsPandas`."""
    is_known = not isinstance(expression.frame, TimesOfNumbers) or _kind(expression.frame.frame._meta.dtype) != "f"  # noqa: SLF001
    frame = with_units(expression) if is_known else expression.frame  # the unit depends on the values
    return AsTypeAsPandas(frame, *expression.operands[1:])


class AsTypeAsPandas(_expr.AsType):
    """A conversion that pandas does for missing values, too: NaN is true, and NaT the smallest integer.

    In cuDF these stay missing, so that filters lose rows. In a nullable dtype a computed NaN is missing, and a number
    that it cannot hold is an error; cuDF makes integers of both. Texts of integers beside missing ones are those of
    floats. As unsigned integers, cuDF makes 0 of negative floats; pandas refuses them, and wraps around those of a
    nullable dtype.
    """

    @staticmethod
    def operation(frame: Any, dtypes: Any) -> Any:
        """The result for one partition.

        Raises `DifferentResultError`: texts are to be made of floats that are integers in the metadata.
        """
        given = {frame.name: frame.dtype} if frame.ndim == 1 else dict(frame.dtypes.items())
        wanted = dtypes if isinstance(dtypes, dict) else dict.fromkeys(given, dtypes)
        common = given.keys() & wanted.keys()
        is_on_gpu = is_type_of_gpu(type(frame))
        texts = [name for name in common if is_on_gpu and is_text(wanted[name])]
        if any(_has_other_texts(frame if frame.ndim == 1 else frame[name]) for name in texts):
            raise DifferentResultError("cuDF writes numbers beside missing ones in another format")
        if is_on_gpu and any(_kind(given[name]) == "f" and _is_nullable(wanted[name]) for name in common):
            frame = OneMissing.operation(frame)
        unsigned = [name for name in common if is_on_gpu and _kind(given[name]) == "f" and _is_unsigned(wanted[name])]
        negative = [name for name in unsigned if ((frame if frame.ndim == 1 else frame[name]) < 0).any()]
        for name in negative:
            if isinstance(given[name], np.dtype):
                raise ValueError(f"Cannot losslessly cast from {given[name]} to {wanted[name]}")
        if negative:
            frame = frame.astype("int64" if frame.ndim == 1 else dict.fromkeys(negative, "int64"))
        result = frame.astype(dtypes)
        for name in common if is_on_gpu else ():
            if _is_checked(given[name], wanted[name]):
                _refuse_changes(*(each if frame.ndim == 1 else each[name] for each in (frame, result)))
        values = {name: _of_missing(given[name], wanted[name]) for name in common}
        values = {name: value for name, value in values.items() if value is not None}
        if not values:
            return result
        return result.fillna(value=next(iter(values.values())) if frame.ndim == 1 else values)


def _is_unsigned(dtype: Any) -> bool:
    dtype = pd.api.types.pandas_dtype(dtype)
    return isinstance(dtype, np.dtype) and dtype.kind == "u"


def _has_other_texts(column: Any) -> bool:
    """Whether pandas has floats or times in a column on a GPU, also for integers of NumPy of which some are missing."""
    kind = _kind(column.dtype)
    is_float = kind in "iu" and isinstance(column.dtype, np.dtype) and bool(column.isna().any())
    return is_float or kind in "fmM"


def _is_checked(given: Any, wanted: Any) -> bool:
    """Whether pandas refuses numbers that change; it lets those of a nullable dtype of its own change."""
    wanted = pd.api.types.pandas_dtype(wanted)
    if _kind(given) not in "iuf" or not _is_nullable(wanted) or wanted.kind == "f":
        return False
    if isinstance(wanted, pd.ArrowDtype):
        may_change = wanted.kind == "b"
    else:
        may_change = not isinstance(given, np.dtype | pd.ArrowDtype)
    plain = [getattr(dtype, "numpy_dtype", dtype) for dtype in (given, wanted)]
    return not may_change and not np.can_cast(*plain)


def _refuse_changes(given: Any, result: Any) -> None:
    if not (result.astype("float64") == given.astype("float64")).fillna(value=True).all():
        raise TypeError(f"cannot safely cast non-equivalent {given.dtype} to {result.dtype}")


def _kind(dtype: Any) -> str:
    return str(getattr(dtype, "kind", "O"))


def _is_nullable(dtype: Any) -> bool:
    """Whether it is a nullable dtype of numbers or booleans, of pandas or Arrow."""
    dtype = pd.api.types.pandas_dtype(dtype)
    return isinstance(dtype, pd.api.extensions.ExtensionDtype) and dtype.kind in "iufb"


def _of_missing(given: Any, wanted: Any) -> Any:
    """What pandas makes of a missing value; `None` if that is a missing value, or an error."""
    kind, name = _kind(given), str(pd.api.types.pandas_dtype(wanted))
    if kind == "f" and isinstance(given, np.dtype) and name == "bool":
        return True
    return np.iinfo("int64").min if kind in "mM" and name == "int64" else None


# Methods and properties of .str, .dt and .cat


class FunctionMapAsPandas(FunctionMap):
    """A method of an accessor, whose result has a given dtype."""

    _parameters = [*FunctionMap._parameters, "dtype"]  # noqa: RUF012, SLF001 - as in Dask

    @staticmethod
    def operation(*operands: Any) -> Any:
        """The result for one partition; the dtype is `None` if it has texts."""
        series, accessor, name, args, kwargs, dtype = operands
        is_nullable = getattr(dtype, "kind", "") == "b" and not isinstance(dtype, np.dtype)
        if accessor == "str":
            result = called(series, name, args, kwargs, is_nullable=is_nullable)
        else:
            result = FunctionMap.operation(*operands[:-1])
        return result if dtype is None else with_dtype(result, dtype)


class ElementAsPandas(FunctionMap):
    """The elements of lists, such as ``s.str.split().str[0]``, for which cuDF has another accessor."""

    @staticmethod
    def operation(series: Any, accessor: str, name: str, args: Any, kwargs: Any) -> Any:
        """The result for one partition; of one without rows cuDF may not know that it has texts."""
        position = next(iter([*args, *kwargs.values()]), None)
        if _is_of_split(series) and isinstance(position, int):
            return series.list.get(position).astype("str")
        if not len(series) and not hasattr(series, accessor):
            return type(series)([], index=series.index, name=series.name, dtype="str")
        # Not by Dask's function, which takes an element of the Series if it has not the accessor.
        return getattr(getattr(series, accessor), name)(*args, **kwargs)


class PropertyMapAsPandas(PropertyMap):
    """A property of an accessor, whose result has a given dtype."""

    _parameters = [*PropertyMap._parameters, "dtype"]  # noqa: RUF012, SLF001 - as in Dask

    @staticmethod
    def operation(*operands: Any) -> Any:
        """The result for one partition."""
        result = PropertyMap.operation(*operands[:-1])
        return with_dtype(result.fillna(-1) if operands[2] == "codes" else result, operands[-1])


class FunctionMapIndexAsPandas(FunctionMapAsPandas, FunctionMapIndex):
    """A method of an accessor of an index, whose result has a given dtype."""


class PropertyMapIndexAsPandas(PropertyMapAsPandas, PropertyMapIndex):
    """A property of an accessor of an index, whose result has a given dtype."""


_OF_LISTS = {("str", "__getitem__"), ("str", "get")}


def _is_of_split(series: Any) -> bool:
    """Whether it has lists of texts, as a dtype of cuDF, or one of Arrow, for which there is no accessor of texts."""
    return has_lists(series.dtype) and "str" in repr(series.dtype)


def with_dtype(result: Any, dtype: Any) -> Any:
    """A Series or index of the dtype; integers of which some are missing are floating-point numbers, as in pandas.

    Texts remain texts: of a method of objects that may be texts, Dask has the metadata of one of lists, which are NaN.
    """
    is_plain = isinstance(dtype, np.dtype) and dtype.kind in "iuf"
    if is_plain and getattr(result.dtype, "kind", "O") == "O":
        return result
    if is_plain and result.dtype.kind in "iu":  # Dask's metadata has missing values
        dtype = "float64" if result.hasnans else "int64" if dtype.kind == "f" else dtype
    # With the missing values of pandas, which a nullable dtype holds.
    is_of_host = isinstance(dtype, np.dtype) and dtype.kind in "iu" and result.dtype.kind == "f"
    return result if result.dtype == dtype or is_of_host else result.astype(dtype)


def with_dtype_of_pandas(expression: Any) -> Any:
    """The expression with the dtype of pandas, if that is another number or boolean."""
    if type(expression) is FunctionMap and (expression.accessor, expression.attr) in _OF_LISTS:
        return ElementAsPandas(*expression.operands)
    if (meta := meta_of(expression)) is None:
        return expression
    dtype = getattr(meta, "dtype", None)
    if getattr(dtype, "kind", "O") not in "biuf" or expression.attr == "join":  # whose metadata of lists has numbers
        if type(expression) not in (FunctionMap, FunctionMapIndex) or not is_checked(expression):
            return expression
        dtype = None
    return _MAPPING[type(expression)](*expression.operands, dtype)


_MAPPING = {
    FunctionMap: FunctionMapAsPandas,
    FunctionMapIndex: FunctionMapIndexAsPandas,
    PropertyMap: PropertyMapAsPandas,
    PropertyMapIndex: PropertyMapIndexAsPandas,
}

OF_PANDAS: dict[Any, Any] = {
    _groupby.Corr: GroupCorrAsPandas,
    _groupby.Cov: GroupCovAsPandas,
    _groupby.IdxMax: lambda found: in_order(GroupIdxMaxAsPandas(*found.operands)),
    _groupby.IdxMin: lambda found: in_order(GroupIdxMinAsPandas(*found.operands)),
    _expr.CombineFirst: CombineFirstAsPandas,
    _expr.CombineFirstAlign: CombineFirstAlignAsPandas,
}
"""Those of `RULES` where pandas computes, too."""

RULES: dict[Any, Any] = {
    **DISTINCT,
    **OF_PANDAS,
    **dict.fromkeys(_COMPARING, compared),
    **dict.fromkeys(_CONVERTING, converting),
    **dict.fromkeys(CUMULATIVE, cumulated),
    **dict.fromkeys(_MAPPING, with_dtype_of_pandas),
    **dict.fromkeys(RollingReduction.__subclasses__(), rolling),
    **dict.fromkeys((_expr.Assign, _expr.AssignAlign), with_levels),
    **dict.fromkeys((_expr.Diff, _expr.Shift), with_floats),
    **dict.fromkeys((_expr.Drop, _expr.Projection), of_no_column),
    **dict.fromkeys((_expr.UFuncAlign, _expr.UFuncElemwise), of_columns_of_numpy),
    _expr.Round: with_nullable_dtypes,
    **dict.fromkeys((_reductions.All, _reductions.Any), with_plain_booleans),
    CatBlockwise: CatBlockwiseAsPandas,
    Concat: concatenation,
    Corr: CorrAsPandas,
    Cov: CovAsPandas,
    DescribeNumeric: lambda found: DescribeAsPandas(*with_floats_of_numpy(found).operands),
    GetGroup: GetGroupAsPandas,
    GroupByBFill: BFillAsPandas,
    GroupByCumprod: CumprodAsPandas,
    GroupByCumsum: summed_so_far,
    GroupByFFill: FFillAsPandas,
    GroupByTransform: of_no_number,
    GroupbyAggregation: lambda found: in_order(GroupbyAggregationAsPandas(*found.operands)),
    IdxMax: IdxMaxAsPandas,
    IdxMin: IdxMinAsPandas,
    Max: MaxAsPandas,
    Merge: with_columns_in_order,
    Min: MinAsPandas,
    Mode: ModeAsPandas,
    NLargest: NLargestAsPandas,
    NSmallest: NSmallestAsPandas,
    Prod: with_signed_sums,
    ResampleAgg: ResampleAggAsPandas,
    Size: lambda found: in_order(SizeAsPandas(*found.operands)),
    SeriesQuantile: with_floats_of_numpy,
    SetIndex: indexed,
    SortValues: sorted_rows,
    SplitMap: SplitMapAsPandas,
    Std: lambda found: in_order(with_nullable_dtypes(StdAsPandas(*of_known_keys(found).operands), "f")),
    Sum: with_signed_sums,
    Var: VarianceAsPandas,
    _groupby.Mean: lambda found: in_order(of_known_keys(found)),
    _groupby.Var: lambda found: in_order(with_nullable_dtypes(of_known_keys(found), "f")),
    _expr.And: _made(_expr.And, Logical(_expr.And.operation, deciding=False)),
    _expr.AsType: as_type,
    _expr.Eval: functools.partial(evaluated_text, replaced=replaced),
    _expr.Filter: filtered,
    _expr.Head: first_rows,
    _expr.Isin: found,
    _expr.MapPartitions: lambda found: in_order(of_rows(of_variance(found))),
    _expr.Mask: MaskAsPandas,
    _expr.MaskAlign: MaskAlignAsPandas,
    _expr.MethodOperatorAlign: AlignedMethodAsPandas,
    _expr.OpAlignPartitions: AlignedAsPandas,
    _expr.NotNull: NotNullAsPandas,
    _expr.Or: _made(_expr.Or, Logical(_expr.Or.operation, deciding=True)),
    _expr.Query: functools.partial(selected_by_text, replaced=replaced),
    _expr.Replace: ReplaceAsPandas,
    _expr.ShiftIndex: with_frequency,
    _expr.ToDatetime: without_rows,
    _expr.Where: WhereAsPandas,
    _expr.WhereAlign: WhereAlignAsPandas,
}
"""By the class of Dask, the class that takes its place, or a function that gives an expression in its place."""
