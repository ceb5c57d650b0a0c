"""Operations whose results in cuDF 26.10 silently differ from pandas; they run on the host.

Each rule returns the reason, in words for the line under the cell, or an empty string.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
from dask.dataframe.dask_expr._expr import Expr, Index
from dask.dataframe.dask_expr._groupby import GroupByBase
from dask.dataframe.dask_expr._merge import Merge
from dask.dataframe.dask_expr._reductions import DropDuplicates, Unique, ValueCounts
from dask.utils import M

from ...inspection.frames import FromPandasOnGpu, ToGpu
from .concat import is_outer
from .rules import dtypes_of, is_text, meta_of
from .texts import reason_of_arguments

_OBJECTS = {
    "str": {"encode", "findall"},
    "dt": {"date", "freq", "time", "timetz", "to_pytimedelta", "tz"},
}
"""Methods and properties of accessors whose results are Python objects, which cuDF has not, or returns otherwise."""


_ACCESSORS = ("FunctionMap", "FunctionMapIndex", "PropertyMap", "PropertyMapIndex", "SplitMap")
"""Expressions of methods and properties of accessors."""

_FILLING = ("CombineFirst", "CombineFirstAlign")
"""Expressions that fill missing values from another dataframe."""


def reason_for_host(expression: Any) -> str:
    """Why an expression of dataframes runs on the host; empty if cuDF's result is that of pandas, or an error.

    - `expression`: an expression with an input on a GPU.
    """
    if _has_equal_names(expression):
        return "cuDF has no columns of the same name"
    if isinstance(expression, GroupByBase):
        return _grouped(expression)
    if isinstance(expression, Merge | DropDuplicates | Unique | ValueCounts) and any(map(_may_stay, expression.walk())):
        return "cuDF holds only some partitions of Python objects"
    rule = _OF_EXPRESSIONS.get(type(expression).__name__.removesuffix("AsPandas"))
    return rule(expression) if rule else ""


def _has_equal_names(expression: Any) -> bool:
    """Whether columns of the result have the same name, as of ``agg({"x": ["median", "median"]})`` of groups."""
    columns = getattr(meta_of(expression), "columns", None)
    return columns is not None and not columns.is_unique


def _may_stay(part: Any) -> bool:
    """Whether only some partitions can be moved to GPUs; rows that are equal have another hash on the host."""
    if not isinstance(part, ToGpu | FromPandasOnGpu):
        return False
    return "object" in map(str, dtypes_of(part._meta).values())  # noqa: SLF001


def is_only_of_pandas(expression: Any) -> bool:
    """Whether the results are Python objects, such as times of a day, or columns of one name; they stay on the host."""
    if _has_equal_names(expression):
        return True
    name = type(expression).__name__.removesuffix("AsPandas")
    if name == "Concat" or name in _FILLING:
        return bool(_of_several_kinds(expression))
    if name == "AsType":
        return _are_objects(*_conversion(expression))
    if name == "Replace":
        return _has_numbers_for_times(expression)
    if name == "Merge":
        return bool(_of_several_labels(expression))
    return name in _ACCESSORS and expression.attr in _OBJECTS.get(expression.accessor, ())


def _accessor(expression: Any) -> str:
    if is_only_of_pandas(expression):
        return f"cuDF has no Python objects, as of .{expression.accessor}.{expression.attr}"
    arguments = _arguments(expression)
    if expression.attr == "replace" and any(isinstance(arg, dict) for arg in arguments):
        return "cuDF's str.replace accepts no dictionary"
    if (expression.accessor, expression.attr) == ("str", "wrap"):
        return "cuDF's str.wrap does not break words"
    if any(isinstance(arg, re.Pattern) for arg in arguments):
        return "cuDF ignores the flags of a compiled pattern"
    if (expression.accessor, expression.attr) in _WITH_ORDER and not _is_order_given(expression):
        return f"cuDF's cat.{expression.attr} loses the order of categories"
    is_of_texts = expression.accessor == "str" and arguments
    return reason_of_arguments(expression.attr, expression.args, expression.kwargs) if is_of_texts else ""


_WITH_ORDER = {("cat", f"{verb}_categories") for verb in ("add", "remove", "reorder", "set")}
"""Methods after which ordered categories are still ordered, unless ``ordered`` is given."""


def _is_order_given(expression: Any) -> bool:
    is_ordered = getattr(expression.frame._meta.dtype, "ordered", False)  # noqa: SLF001
    return not is_ordered or len(expression.args) > 1 or "ordered" in expression.kwargs


def _arguments(expression: Any) -> list[Any]:
    """The arguments of a method of an accessor; a property has none."""
    names = expression._parameters  # noqa: SLF001
    return [*expression.args, *expression.kwargs.values()] if "kwargs" in names else []


def _conversion(expression: Any) -> tuple[dict[Any, Any], dict[Any, Any]]:
    """The dtypes of columns, and those that they are to have."""
    given = expression.frame._meta  # noqa: SLF001
    dtypes = {given.name: given.dtype} if given.ndim == 1 else dict(given.dtypes.items())
    wanted = expression.operand("dtypes")
    return dtypes, wanted if isinstance(wanted, dict) else dict.fromkeys(dtypes, wanted)


def _are_objects(dtypes: dict[Any, Any], wanted: dict[Any, Any]) -> bool:
    """Whether numbers, times or categories are to be Python objects."""
    objects = (name for name in wanted.keys() & dtypes.keys() if wanted[name] in (object, "object", "O"))
    return any(_kind_of_column(dtypes[name]) not in ("object", "text") for name in objects)


def _as_text(expression: Any) -> str:
    dtypes, wanted = _conversion(expression)
    if _are_objects(dtypes, wanted):
        return "cuDF makes texts of what is converted to objects"
    texts = [name for name in wanted.keys() & dtypes.keys() if is_text(wanted[name])]
    kinds = {getattr(dtypes[name], "kind", "O") for name in texts}
    if kinds & set("mM"):
        return "cuDF writes times in another format"
    return "cuDF writes nine digits of a number" if "f" in kinds else ""


def _cat(expression: Any) -> str:
    others = expression.operands[len(expression._parameters) :]  # noqa: SLF001
    is_plain = any(isinstance(other, pd.Series | pd.Index) for other in others)
    return "cuDF's str.cat does not align a Series of pandas" if is_plain else ""


def _resample(expression: Any) -> str:
    functions = [one for how in expression.how_args if isinstance(how, dict) for one in how.values()]
    return "cuDF resamples with the names of functions" if any(map(callable, functions)) else ""


def _cumulated(expression: Any) -> str:
    dtypes = dtypes_of(expression.frame._meta).values()  # noqa: SLF001
    kinds = {(isinstance(dtype, np.dtype), isinstance(dtype, pd.ArrowDtype)) for dtype in dtypes}
    return "cuDF makes texts of a row of several kinds of dtypes" if len(kinds) > 1 else ""


_WITH_NAN = {
    "copysign",
    "float_power",  # NaN to the power of 0 is 1, and so is 1 to the power of NaN
    "fmax",
    "fmin",
    "heaviside",
    "hypot",
    "isnat",
    "logical_and",
    "logical_or",
    "logical_xor",
}
"""Functions of NumPy whose result can be a number, or true, although an operand is NaN or NaT."""


_NOT_SYMMETRIC = {"arctan2", "copysign", "heaviside", "ldexp", "left_shift", "nextafter", "right_shift"}
"""Functions of two numbers that are no operators of cuDF, and depend on their order."""


_OF_ARRAYS = {"angle", "i0", "imag", "iscomplex", "isreal", "nan_to_num", "real", "sinc"}
"""Functions of NumPy that return an array for a dataframe or Series of pandas."""


def _ufunc(expression: Any) -> str:
    name = getattr(expression.func, "__name__", "")
    if name in _OF_ARRAYS:
        return f"cuDF has no array as the result of {name}"
    given = expression.operands[len(expression._parameters) :]  # noqa: SLF001
    if name in _NOT_SYMMETRIC and not isinstance(given[0], Expr):
        return f"cuDF exchanges the operands of {name} if the first one is a number"
    if name == "fmod":
        return "cuDF's fmod has the sign of the divisor"
    if name == "float_power" and not any(map(_has_fractions, given)):
        return "cuDF's float_power of integers is computed with integers"
    is_power = name == "float_power" and isinstance(given[0], Expr)
    is_plain = is_power and isinstance(given[-1], int | float) and given[-1] != 0
    if name in _WITH_NAN and not is_plain and any(_kinds(frame) & set("iufmM") for frame in expression.dependencies()):
        return f"cuDF has missing values where {name} has none"
    if name in ("floor_divide", "remainder"):
        reason = _by_zero(*given[:2])
    else:
        limits = [*given, *(expression.kwargs or {}).values()]
        reason = _rounded(expression.frame, limits) if name == "clip" else ""
    return reason


def _elemwise(expression: Any) -> str:
    if isinstance(expression.args[0], Index) and expression.known_divisions:
        return "cuDF rounds in another way than NumPy, with which Dask computes divisions"
    return _ufunc(expression)


def _has_fractions(operand: Any) -> bool:
    """Whether all columns of an operand, or the operand itself, are floats."""
    return _kinds(operand) <= set("fc") if isinstance(operand, Expr) else isinstance(operand, float | complex)


def _dropna(expression: Any) -> str:
    if expression.thresh is None:
        return "cuDF's dropna ignores thresh=None"
    columns = expression.subset if isinstance(expression.subset, list | tuple) else expression.frame.columns
    if expression.how == "all" and not len(columns):
        return "cuDF's dropna keeps rows of no columns"
    too_many = isinstance(expression.thresh, int) and expression.thresh > len(columns)
    return "cuDF's dropna ignores a thresh of more values than there are columns" if too_many else ""


def _operator(expression: Any) -> str:
    """For an operator as a method, or of two dataframes that Dask aligns first."""
    names = expression._parameters  # noqa: SLF001
    name = expression.operand("op" if "op" in names else "name").strip("_")
    is_filled = "fill_value" in names and expression.operand("fill_value") is not None
    if name in ("floordiv", "mod", "rfloordiv", "rmod"):
        sides = [expression.operand(side) for side in names if side in ("left", "right", "frame", "other")]
        frames = expression.dependencies()
        may_be_zero = is_filled and len(frames) > 1 and any(_kinds(frame) & set("iu") for frame in frames)
        reason = _by_zero(*(sides[::-1] if name.startswith("r") else sides))
        return reason or (_FILLED if may_be_zero else "")
    return "cuDF's pow fills values that both operands lack" if name in ("pow", "rpow") and is_filled else ""


_FILLED = "cuDF makes floats of integers that are divided by 0 with a fill_value"

_WITH_ALL_COLUMNS = {"Count", "First", "Last", "Max", "Min", "NUnique", "Prod", "Size", "Sum"}
"""Methods of groups by which cuDF keeps a column that has the name of a computed key."""


def _grouped(expression: Any) -> str:
    if type(expression).__name__ in ("IdxMin", "IdxMax"):
        return "cuDF's idxmin and idxmax of groups return any of several equal values"
    if type(expression).__name__ in ("Corr", "Cov"):
        return "cuDF passes no arguments to functions of groups"
    if type(expression).__name__ == "ValueCounts":
        return "cuDF has no value_counts of groups"
    names = [key._meta.name for key in expression.by if isinstance(key, Expr)]  # noqa: SLF001
    if expression.frame.ndim == 1 and expression.frame.name in names:
        return "cuDF drops a Series whose key has its name"
    columns = expression.frame.columns if expression.frame.ndim > 1 else ()
    same = any(isinstance(key, Expr) and set(key.columns) & set(columns) for key in expression.by)
    name = type(expression).__name__.removesuffix("AsPandas")
    if same and name not in _WITH_ALL_COLUMNS:
        return "cuDF drops a column whose name is that of a computed key"
    return _dropped(expression) if name in _OF_ALL_DTYPES else ""


_OF_ALL_DTYPES = {"First", "Last", "Max", "Min", "Prod", "Sum"}
"""Methods of groups that return each column in pandas, or raise an error, unless ``numeric_only`` is given."""


def _dropped(expression: Any) -> str:
    """For columns that cuDF cannot aggregate, such as ``max`` of ordered categories, beside others that it can."""
    if (expression.operand("chunk_kwargs") or {}).get("numeric_only") or expression.frame.ndim == 1:
        return ""
    selected = expression.operand("_slice") or expression.frame.columns
    meta = expression.frame._meta  # noqa: SLF001
    names = selected if isinstance(selected, list) else [selected]
    keys = {key for key in expression.by if not isinstance(key, Expr)}
    kinds = {_kind_of_column(meta.dtypes[name]) for name in names if name in meta.columns and name not in keys}
    is_sum = type(expression).__name__.removesuffix("AsPandas") in ("Prod", "Sum")
    dropped = kinds & ({"category", "object", "text", "time"} if is_sum else {"category", "object"})
    return "cuDF drops columns that it cannot aggregate" if dropped else ""


def _kind_of_column(dtype: Any) -> str:
    """Of a column: of numbers, times, texts, categories or other objects."""
    kind = getattr(dtype, "kind", "O")
    if kind in "biufcmM":
        return {"m": "duration", "M": "time"}.get(kind, "number")
    if str(dtype) == "category":
        return "category"
    return "text" if isinstance(dtype, pd.StringDtype) else "object"


def _merge(expression: Any) -> str:
    left_index, right_index, left, right = map(expression.operand, ("left_index", "right_index", "left_on", "right_on"))
    if reason := _of_several_labels(expression):
        return reason
    both = [frame._meta.index.names for frame in (expression.left, expression.right)]  # noqa: SLF001
    if left_index and right_index and expression.how == "outer" and both[0] != both[1]:
        return "cuDF's outer merge of indexes with different names loses labels"
    keys = right if left_index else left
    names = set(keys if isinstance(keys, list) else [keys])
    is_lost = left_index != right_index and names & set(expression.left.columns) & set(expression.right.columns)
    return "cuDF's merge of an index with a column has no column of the keys" if is_lost else ""


def _of_several_labels(expression: Any) -> str:
    """For an outer merge of an index of texts with one of numbers, or of other kinds of labels.

    pandas 3.0 fails for a label that is there twice, unless those of both kinds are in different partitions. Which are
    depends on a hash, which is another one in cuDF.
    """
    if not (expression.operand("left_index") and expression.operand("right_index") and expression.how == "outer"):
        return ""
    indexes = [frame._meta.index for frame in (expression.left, expression.right)]  # noqa: SLF001
    kinds = {"text" if kind == "object" else kind for kind in (_kind_of_column(index.dtype) for index in indexes)}
    is_mixed = len(kinds) > 1 and "category" not in kinds and all(index.nlevels == 1 for index in indexes)
    return "cuDF has no index of several kinds of labels" if is_mixed else ""


def _concat(expression: Any) -> str:
    if not is_outer(expression):
        return "dask_cudf's concat has only join='outer'"
    names = [tuple(frame._meta.index.names) for frame in expression.dependencies()]  # noqa: SLF001
    if len(set(names)) > 1:
        return "cuDF keeps the name of the first index"
    side_by_side = expression.axis in (1, "columns")
    return "" if side_by_side else _of_several_kinds(expression)


def _of_several_kinds(expression: Any) -> str:
    """For rows of dataframes whose columns of the same name are objects in pandas, such as numbers beside times.

    So are numbers of a nullable dtype beside those of Arrow.
    """
    kinds: dict[Any, set[str]] = {}
    for frame in expression.dependencies():
        for name, dtype in dtypes_of(frame._meta).items():  # noqa: SLF001
            kind = _kind_of_column(dtype)
            kinds.setdefault(name, set()).add(kind if kind in ("category", "object", "text") else str(dtype))
    made = dtypes_of(expression._meta)  # noqa: SLF001
    mixed = any(len(found) > 1 and _kind_of_column(made.get(name)) == "object" for name, found in kinds.items())
    return "cuDF has no column of several kinds of values" if mixed else ""


_NO_DIVISIONS = "dask_cudf has no divisions of categories"


def _sorted_by_categories(expression: Any) -> str:
    """For several partitions; dask_cudf keeps the divisions of categories where Dask does not find them."""
    names = [expression._other] if type(expression).__name__ == "SetIndex" else expression.by  # noqa: SLF001
    columns = expression.frame.columns
    keys = [name if isinstance(name, Expr) else expression.frame[name] for name in names if _is_known(name, columns)]
    by_categories = any(str(key._meta.dtype) == "category" for key in keys)  # noqa: SLF001
    return _NO_DIVISIONS if by_categories and expression.frame.npartitions > 1 else ""


def _is_known(key: Any, columns: list[Any]) -> bool:
    """Whether it is an expression or a column; Dask has an error for any other key."""
    return isinstance(key, Expr) or key in columns


def _kinds(expression: Any) -> set[str]:
    """The kinds of the dtypes of a dataframe or Series, as letters of NumPy."""
    return {getattr(dtype, "kind", "O") for dtype in dtypes_of(expression._meta).values()}  # noqa: SLF001


def _are_of_numpy(expression: Any) -> bool:
    """Whether the columns of what it is made of have dtypes of NumPy."""
    return all(isinstance(dtype, np.dtype) for dtype in dtypes_of(expression.frame._meta).values())  # noqa: SLF001


def _rounded(owner: Any, bounds: list[Any]) -> str:
    has_fraction = any(isinstance(bound, float | np.floating) and bound != np.floor(bound) for bound in bounds)
    return "cuDF rounds the bounds of clip to integers" if has_fraction and _kinds(owner) & set("iu") else ""


def _variance(expression: Any) -> str:
    frame = expression.frame
    return "cuDF has no variance of no columns" if frame.ndim > 1 and not len(frame.columns) else ""


_FEWER_THAN_DDOF = "cuDF has variances of rows with fewer values than ddof"


def _of_partitions(expression: Any) -> str:
    """For the standard deviation of rows, and ``melt``, which Dask calls as methods of the partitions."""
    options = expression.kwargs or {}
    if expression.func == M.melt:
        columns = expression.frame._meta.columns  # noqa: SLF001
        is_plain = list(columns.names) == [None] and not isinstance(columns, pd.CategoricalIndex)
        return "" if is_plain else "cuDF's melt ignores the name and the categories of the columns"
    is_of_rows = expression.func in (M.std, M.var) and options.get("axis") in (1, "columns")
    return _FEWER_THAN_DDOF if is_of_rows and options.get("ddof", 1) > 1 else ""


def _labels(expression: Any) -> str:
    dtype = expression.frame._meta.index.dtype  # noqa: SLF001
    is_written = getattr(dtype, "kind", "O") in "fcmM"
    return "cuDF writes numbers and times of an index in another format" if is_written else ""


def _isin(expression: Any) -> str:
    dtypes = map(str, dtypes_of(expression.frame._meta).values())  # noqa: SLF001
    return "cuDF finds a missing category among any values" if "category" in dtypes else ""


def _rename_axis(expression: Any) -> str:
    given = [operand for operand in expression.operands if isinstance(operand, dict) or callable(operand)]
    return "cuDF renames an axis with a name" if given else ""


def _replace(expression: Any) -> str:
    given, value = expression.operand("to_replace"), expression.operand("value")
    sought = given if isinstance(given, list | tuple | dict) else [given]
    if any(isinstance(each, str) for each in sought) and _kinds(expression.frame) - set("biufcmM"):
        return "cuDF replaces no texts in columns whose dtype is not its own for texts"
    if _has_numbers_for_times(expression):
        return "cuDF makes times of numbers"
    if any(_is_number(each) for each in sought) and _kinds(expression.frame) & set("mM"):
        return "cuDF finds numbers among times"
    values = [one for arg in (given, value) if isinstance(arg, dict) for one in arg.values()]
    if any(isinstance(one, dict) for one in values):
        return "cuDF replaces no values of single columns"
    values += value if isinstance(value, list | tuple) else [value]
    if any(isinstance(one, float) and not np.isnan(one) for one in values) and _has_nullable_integers(expression.frame):
        return "cuDF makes floats of nullable integers"
    return "cuDF makes integers of booleans" if "b" in _kinds(expression.frame) else ""


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | np.number) and not np.isnan(value)


def _has_numbers_for_times(expression: Any) -> bool:
    """Whether numbers may take the place of times, or of missing ones; of both pandas makes objects."""
    given, value = expression.operand("to_replace"), expression.operand("value")
    pairs = (
        given.items()
        if isinstance(given, dict)
        else product(*(each if isinstance(each, list) else [each] for each in (given, value)))
    )
    may_be = any(
        isinstance(new, int | float)
        and not isinstance(old, int | str)
        and (not isinstance(old, float) or np.isnan(old))
        for old, new in pairs
    )
    return may_be and bool(_kinds(expression.frame) & set("mM"))


def _by_zero(left: Any, right: Any) -> str:
    """For the quotient or remainder of nullable integers, by other integers of which one may be 0."""
    is_nullable = any(_has_nullable_integers(side) for side in (left, right) if isinstance(side, Expr))
    may_be_zero = not np.isscalar(right) or right == 0
    return "cuDF makes floats of nullable integers that are divided by 0" if is_nullable and may_be_zero else ""


def _has_nullable_integers(expression: Any) -> bool:
    return any(
        isinstance(dtype, pd.api.extensions.ExtensionDtype) and dtype.kind in "iu"
        for dtype in dtypes_of(expression._meta).values()  # noqa: SLF001
    )


_OF_EXPRESSIONS: dict[str, Callable[[Any], str]] = {
    **dict.fromkeys(_ACCESSORS, _accessor),
    **dict.fromkeys(("AddPrefixSeries", "AddSuffixSeries"), _labels),
    "AsType": _as_text,
    "Clip": lambda found: _rounded(found.frame, [found.lower, found.upper]),
    "CatBlockwise": _cat,
    "Concat": _concat,
    **dict.fromkeys(_FILLING, _of_several_kinds),
    **dict.fromkeys(("CumMax", "CumMin", "CumProd", "CumSum"), _cumulated),
    "DescribeNonNumeric": lambda _: "cuDF has no column of numbers and texts",
    "DescribeNumeric": lambda found: (
        "" if _are_of_numpy(found) and not _kinds(found.frame) & set("mM") else "cuDF does not describe such columns"
    ),
    "DropnaFrame": _dropna,
    "FloorDiv": lambda found: _by_zero(found.left, found.right),
    "GetDummies": lambda found: "cuDF has another column for missing values, or none" if found.dummy_na else "",
    "GetCategories": lambda _: "cuDF has categories in the order of a hash table",
    "Isin": _isin,
    "MapPartitions": _of_partitions,
    "Merge": _merge,
    "MethodOperator": _operator,
    "Mod": lambda found: _by_zero(found.left, found.right),
    "MethodOperatorAlign": _operator,
    "NuniqueApprox": lambda _: "cuDF has another hash than pandas",
    "OpAlignPartitions": _operator,
    "RenameAxis": _rename_axis,
    "Replace": _replace,
    "ResampleAgg": _resample,
    "SeriesQuantile": lambda found: "" if _are_of_numpy(found) else "Dask merges quantiles of NumPy's dtypes only",
    "SetIndex": _sorted_by_categories,
    "SortValues": _sorted_by_categories,
    "ToNumeric": lambda found: (
        "" if found.downcast is None or _are_of_numpy(found) else "cuDF's nullable numbers are not downcast"
    ),
    "UFuncAlign": _ufunc,
    "UFuncElemwise": _elemwise,
    "Var": _variance,
    "VarColumns": lambda found: _FEWER_THAN_DDOF if found.ddof > 1 else "",
}
