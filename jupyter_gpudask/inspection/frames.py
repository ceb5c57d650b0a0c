"""Dask dataframes whose partitions are on GPUs, and their moves. Their metadata is of pandas.

The kernel plans with metadata of pandas, as on the CPU, and needs no cuDF for it. Which place the partitions are in is
known from the expressions: some begin on GPUs, or move there or back, and all that is computed from partitions on GPUs
is there, too (`placement.place_of_partitions`). Each such expression has a class of its own, so that the keys of a
dataframe on GPUs are never those of one on the CPU.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pandas as pd
from dask._collections import new_collection
from dask._task_spec import Task
from dask.dataframe.dask_expr._expr import Elemwise, ResetIndex
from dask.dataframe.dask_expr._repartition import Repartition
from dask.dataframe.dask_expr._shuffle import SortValues
from dask.dataframe.dask_expr.io.io import FromGraph, FromMapProjectable, FromPandas, FromPandasDivisions
from dask.dataframe.dispatch import to_pandas_dispatch
from dask.dataframe.utils import UNKNOWN_CATEGORIES, pyarrow_strings_enabled
from dask.typing import Key
from pandas.api.types import infer_dtype, is_object_dtype


class _Move(Elemwise):
    _parameters = ["frame"]  # noqa: RUF012 - as in Dask
    _projection_passthrough = True
    _filter_passthrough = True
    _preserves_partitioning_information = True

    @functools.cached_property
    def _meta(self) -> Any:
        return meta_of_pandas(self.frame._meta)  # noqa: SLF001


class ToGpu(_Move):
    """The same dataframe with its partitions on GPUs, as far as cuDF can hold them."""

    gpudask_place = "gpu"

    @staticmethod
    def operation(partition: Any) -> Any:
        """One partition."""
        return partition_to_gpu(partition)


class ToHost(_Move):
    """The same dataframe with partitions of pandas, in the dtypes and with the columns of its metadata."""

    # The schema is that of the plan: an expression that Dask has lowered may have metadata of its input.
    _parameters = ["frame", "schema", "missing"]  # noqa: RUF012 - as in Dask
    _defaults = {"missing": None}  # noqa: RUF012
    gpudask_place = "host"

    @staticmethod
    def operation(partition: Any, schema: Any, missing: Any = None) -> Any:
        """One partition; `missing` takes the place of lists that are missing."""
        made = partition_to_host(partition, schema)
        return made if missing is None else _with_missing_lists(made, missing)

    def _simplify_up(self, parent: Any, dependents: Any) -> Any:
        """Rows that ``sort_values(ignore_index=True)`` numbers are numbered again when they become one partition.

        Dask would number them as one: it sorts the only partition then.
        """
        if becomes_one_partition(parent) and isinstance(self.frame, SortValues) and self.frame.ignore_index:
            rows = self.frame.substitute_parameters({"ignore_index": False})
            return ResetIndex(Repartition(self.substitute_parameters({"frame": rows}), 1), drop=True)
        return super()._simplify_up(parent, dependents)


class FromPandasOnGpu(FromPandas):
    """Dask's expression for a dataframe of pandas in the kernel; the task of each partition moves it to the GPU.

    A separate move would hide from Dask that the partitions come from the kernel: ``df.head(npartitions=99)`` fails
    then, and a graph has one more task for each partition.
    """

    gpudask_place = "gpu"

    @functools.cached_property
    def _name(self) -> str:  # shown in the representation of dataframes; the token is that of this class
        return f"frompandas-{self.deterministic_token}"

    def _filtered_task(self, name: Key, index: int) -> Task:  # type: ignore[override]
        return Task(name, partition_to_gpu, super()._filtered_task(name, index).value)


class FromPandasDivisionsOnGpu(FromPandasDivisions, FromPandasOnGpu):
    """Dask's expression for a dataframe of pandas that is divided at given values of its index."""


class FromMapOnGpu(FromMapProjectable):
    """Dask's expression for partitions that a function reads; this one reads them onto GPUs."""

    gpudask_place = "gpu"


class FromGraphOnGpu(FromGraph):
    """Dask's expression for partitions that are computed already, or by a graph of their own, on GPUs."""

    gpudask_place = "gpu"


_ON_GPU = {FromPandas: FromPandasOnGpu, FromPandasDivisions: FromPandasDivisionsOnGpu}


def frame_to_gpu(collection: Any) -> Any:
    """The same collection with its partitions on GPUs; each worker moves its own."""
    expression = collection.expr
    made = _ON_GPU.get(type(expression))
    return new_collection(ToGpu(expression) if made is None else made(*expression.operands))


def frame_to_host(collection: Any) -> Any:
    """The same collection with partitions of pandas; each worker moves its own."""
    schema = schema_of(meta_of_pandas(collection._meta))  # noqa: SLF001
    methods = (part for part in collection.expr.walk() if "attr" in part._parameters)  # noqa: SLF001
    splits = (part for part in methods if part.operand("attr") in ("split", "rsplit"))
    split = next(splits, None) if any(map(is_object_dtype, schema[1])) else None
    missing = None if split is None else split.frame._meta.dtype.na_value  # noqa: SLF001
    return new_collection(ToHost(collection.expr, schema, missing))


def becomes_one_partition(expression: Any) -> bool:
    """Whether an expression only puts all rows into one partition; other classes of it have divisions instead."""
    is_number = isinstance(expression, Repartition) and "new_partitions" in expression._parameters  # noqa: SLF001
    return is_number and bool(expression.operand("new_partitions") == 1)


def _with_missing_lists(frame: Any, missing: Any) -> Any:
    """A result of pandas with this value for each missing list, as pandas has for texts that it splits."""
    if frame.ndim > 1:
        frame = frame.copy(deep=False)
        for place, (_, column) in enumerate(frame.items()):
            frame.isetitem(place, _with_missing_lists(column, missing))
        return frame
    has_lists = is_object_dtype(frame.dtype) and any(type(value) is list for value in frame)
    return frame.where(frame.notna(), missing) if has_lists else frame


def partition_to_gpu(partition: Any) -> Any:
    """A partition of pandas as one of cuDF; anything else as it is."""
    from dask_cudf.backends import to_cudf_dispatch

    return to_cudf_dispatch(partition) if isinstance(partition, pd.DataFrame | pd.Series | pd.Index) else partition


def partition_to_host(partition: Any, schema: Any = None) -> Any:
    """A partition of cuDF as one of pandas, with lists where pandas has lists.

    `partition`: of cuDF or pandas. `schema`: the dtypes that the result has if its values allow it; see `schema_of`.
    """
    if not isinstance(partition, pd.DataFrame | pd.Series | pd.Index):
        if not hasattr(partition, "to_pandas"):
            return partition
        partition = _converted(partition, {} if schema is None else _exact(partition, schema))
    return partition if schema is None else conform(partition, schema)


def _converted(partition: Any, exact: dict[Any, Any]) -> Any:
    if exact and partition.ndim == 1:
        return pd.Series(exact[None], partition.index.to_pandas(), name=partition.name)
    rest = partition.drop(columns=list(exact)) if exact else partition
    converted = with_lists(to_pandas_dispatch(rest), rest)
    for place, name in enumerate(partition.columns if exact else ()):
        if name in exact:
            converted.insert(place, name, exact[name])
    return converted


def _exact(partition: Any, schema: Any) -> dict[Any, Any]:
    """The columns of texts and of nullable dtypes as arrays of pandas; that of a Series by the name `None`.

    They are made of Arrow's, without an object for each text, or a float for each integer beside a missing one.
    """
    columns, dtypes, _ = schema
    if not hasattr(partition, "index"):  # an index: one of several levels has two dimensions in cuDF
        return {}
    if partition.ndim == 1:
        wanted = dtypes[0] if columns is None else dict(zip(columns, dtypes, strict=True)).get(partition.name)
        array = _array(partition, wanted)
        return {} if array is None else {None: array}
    names = list(partition.columns)
    if columns is None or len(set(names)) < len(names) or len(set(columns)) < len(columns):
        return {}
    of_schema = zip(columns, dtypes, strict=True)
    made = {name: _array(partition[name], dtype) for name, dtype in of_schema if name in names}
    return {name: array for name, array in made.items() if array is not None}


def _array(column: Any, dtype: Any) -> Any:
    """A column of cuDF as an array of this dtype; `None` if the dtype is another one, or cannot hold the values."""
    if is_object_dtype(dtype) and len(column) and column.isna().all():
        return np.full(len(column), np.nan, object)
    if _has_missing(column, "iub" if is_object_dtype(dtype) else "b" if str(dtype) == "bool" else ""):
        # Of NumPy's objects, not of its floats; pandas has NaN where Arrow has `None`.
        return np.array([np.nan if value is None else value for value in column.to_arrow().to_pylist()], object)
    if not _is_of_arrow(column, dtype):
        return None
    try:
        return dtype.__from_arrow__(column.to_arrow())
    except ValueError:  # of Arrow, for an integer that is too large
        return None


def _has_missing(column: Any, kinds: str) -> bool:
    return getattr(column.dtype, "kind", "O") in kinds and hasattr(column, "to_arrow") and bool(column.isna().any())


def _is_of_arrow(column: Any, dtype: Any) -> bool:
    """Whether a column of cuDF has the values of this dtype of pandas, which is one of texts or a nullable one."""
    if not hasattr(column, "to_arrow"):
        return False
    if isinstance(dtype, pd.StringDtype):
        return dtype.storage == "pyarrow" and _is_text(column.dtype)
    is_nullable = hasattr(dtype, "__from_arrow__") and dtype.kind in "iufb"
    return is_nullable and {column.dtype.kind, dtype.kind} in ({"i"}, {"u"}, {"i", "u"}, {"f"}, {"b"})


def schema_of(meta: Any) -> Any:
    """The columns of metadata of pandas, their dtypes, and the index; a Series or index has one dtype."""
    index = meta if isinstance(meta, pd.Index) else meta.index
    return (meta.columns, tuple(meta.dtypes), index[:0]) if meta.ndim > 1 else (None, (meta.dtype,), index[:0])


def conform(frame: Any, schema: Any) -> Any:
    """A result of pandas with the dtypes, and the order of columns, of a schema, as far as the values allow it.

    It may have some of the columns only.
    """
    columns, dtypes, wanted_index = schema
    if frame.ndim == 1:
        wanted = dtypes[0] if columns is None else dict(zip(columns, dtypes, strict=True)).get(frame.name)
        made = frame if wanted is None else _with_dtype(frame, wanted)
    else:
        names = frame.columns[:1] if columns is None else columns
        made = _with_columns(_with_dtypes(frame, names, dtypes) if frame.shape[1] else frame, names)
    if isinstance(made, pd.Index):
        return _as_index(made, wanted_index)
    index = _as_index(made.index, wanted_index)
    if index is not made.index:
        made = made.copy(deep=False)
        made.index = index
    return made


def _as_index(index: Any, wanted: Any) -> Any:
    """An index with the dtype of another one, and its frequency if that is the one of its times."""
    if isinstance(index, pd.MultiIndex):
        has_levels = isinstance(wanted, pd.MultiIndex) and wanted.nlevels == index.nlevels
        return _with_ordered_levels(index, wanted) if has_levels else index
    if isinstance(wanted, pd.MultiIndex):
        return index
    made: Any = _with_dtype(index, wanted.dtype)
    freq = getattr(wanted, "freq", None)
    if freq is None or type(made) is not type(wanted) or made.freq is not None:
        return made
    try:
        return type(made)(made, freq=freq)
    except ValueError:  # some of the times are missing
        return made


def _with_ordered_levels(index: Any, wanted: Any) -> Any:
    """An index of several levels, whose categories have the order of those of another one."""
    given = [index.get_level_values(number) for number in range(index.nlevels)]
    dtypes = [level.dtype for level in wanted.levels]
    made = [
        _with_order(values, dtype) if str(values.dtype) == str(dtype) == "category" else values
        for values, dtype in zip(given, dtypes, strict=True)
    ]
    is_changed = any(new is not old for new, old in zip(made, given, strict=True))
    return pd.MultiIndex.from_arrays(made, names=index.names) if is_changed else index


def _with_columns(frame: Any, columns: pd.Index) -> Any:
    """A result whose columns, if they are some of these, are an index of the same dtype, such as categories, and name.

    cuDF has no categories as columns, and some of its functions lose the name of the columns.
    """
    known, found = list(columns), list(frame.columns)
    has_lost_name = not any(frame.columns.names) and any(columns.names)
    is_same = _dtypes_of(frame.columns) == _dtypes_of(columns) and not has_lost_name
    if is_same or (found != known and not set(found) < set(known)):
        return frame
    frame = frame.copy(deep=False)
    frame.columns = columns.take(list(map(known.index, found)) if found != known else range(len(known)))
    return frame


def _dtypes_of(index: pd.Index) -> list[Any]:
    return list(index.dtypes) if isinstance(index, pd.MultiIndex) else [index.dtype]


def _with_dtypes(frame: Any, columns: Any, dtypes: Any) -> Any:
    found = list(frame.columns)
    if len(set(columns)) < len(columns) or len(set(found)) < len(found):  # then the names do not tell them apart
        if found != list(columns):
            return frame
        wanted = dict(enumerate(dtypes))
    else:
        by_name = dict(zip(columns, dtypes, strict=True))
        in_order = [name for name in columns if name in found]
        if len(in_order) == len(found) and in_order != found:
            frame = frame[in_order]
        wanted = {place: by_name[name] for place, name in enumerate(frame.columns) if name in by_name}
    given = {place: frame.iloc[:, place] for place in wanted}
    made = {place: _with_dtype(column, wanted[place]) for place, column in given.items()}
    changed = {place: column for place, column in made.items() if column is not given[place]}
    frame = frame.copy(deep=False) if changed else frame
    for place, column in changed.items():
        frame.isetitem(place, column)
    return frame


def _with_dtype(values: Any, dtype: Any) -> Any:
    """A Series or index with the dtype; as it is if it has it, or has values that the dtype cannot hold."""
    given = values.dtype
    if isinstance(dtype, pd.CategoricalDtype):  # whose categories may be unknown, or those of another partition
        if not isinstance(given, pd.CategoricalDtype):
            is_unknown = UNKNOWN_CATEGORIES in dtype.categories or not values.dropna().isin(dtype.categories).all()
            return values.astype("category" if is_unknown else dtype)
        return _with_order(values, dtype)
    if isinstance(given, pd.DatetimeTZDtype) and given == dtype and given.tz != dtype.tz:
        return getattr(values, "dt", values).tz_convert(dtype.tz)
    if given == dtype or not _may_convert(values, dtype):
        return values
    try:
        made = values.astype(dtype)
    except (TypeError, ValueError, ArithmeticError):
        return values
    is_exact = getattr(dtype, "kind", "O") not in "iu" or bool((made == values).all())
    return made if is_exact else values


def _with_order(values: Any, dtype: pd.CategoricalDtype) -> Any:
    """Categories with the order of the metadata, if any, which cuDF 26.10 loses when it concatenates partitions."""
    given = values.dtype
    if bool(dtype.ordered) == bool(given.ordered):
        return values
    if not dtype.ordered or UNKNOWN_CATEGORIES in dtype.categories:
        return values.astype(pd.CategoricalDtype(given.categories, dtype.ordered))
    return values.astype(dtype) if set(given.categories) == set(dtype.categories) else values


def _may_convert(values: Any, wanted: Any) -> bool:
    """Whether it is the same kind of dtype, such as integers of another size; results may be floats on the CPU."""
    kinds = getattr(values.dtype, "kind", "O"), getattr(wanted, "kind", "O")
    if isinstance(wanted, pd.StringDtype):
        is_object = is_object_dtype(values.dtype)
        return isinstance(values.dtype, pd.StringDtype) or (is_object and infer_dtype(values) in ("string", "empty"))
    if is_object_dtype(wanted):
        # Dask often has metadata of objects for an index, and pandas finds times among objects.
        return not isinstance(values, pd.Index) and kinds[0] not in "mM"
    if kinds[0] == "O":
        return infer_dtype(values, skipna=False) == "boolean" if kinds[1] == "b" else kinds[1] not in "iufc"
    return kinds[0] == kinds[1] or set(kinds) == {"i", "u"}


def meta_of_pandas(meta: Any) -> Any:
    """Metadata of cuDF as that of pandas; any other as it is."""
    if isinstance(meta, pd.DataFrame | pd.Series | pd.Index) or not hasattr(meta, "to_pandas"):
        return meta
    made = meta.to_pandas()
    if not pyarrow_strings_enabled():
        return made
    text = pd.StringDtype("pyarrow")
    if made.ndim > 1:
        names = [name for name, dtype in meta.dtypes.items() if _is_text(dtype)]
        return made.astype(dict.fromkeys(names, text))
    return made.astype(text) if _is_text(meta.dtype) else made


def _is_text(dtype: Any) -> bool:
    return str(dtype) in ("object", "str", "string")


def with_lists(converted: Any, given: Any) -> Any:
    """A dataframe, Series or index of pandas, with lists in the columns that have lists in cuDF.

    cuDF's ``to_pandas`` converts the lists of ``s.str.split()`` to NumPy arrays, which the methods of ``.str`` refuse.

    `converted`: what cuDF has made of it. `given`: the same of cuDF.
    """
    if isinstance(converted, pd.Series):
        return _lists(given, converted.index) if has_lists(given.dtype) else converted
    if isinstance(converted, pd.DataFrame) and not isinstance(given, pd.DataFrame):
        for name, dtype in given.dtypes.items():
            if has_lists(dtype):
                converted[name] = _lists(given[name], converted.index)
    return converted


def has_lists(dtype: Any) -> bool:
    """Whether it is a dtype of lists, of cuDF or of Arrow."""
    name = str(getattr(dtype, "name", ""))
    return name == "list" or name.startswith("list<")


def _lists(series: Any, index: pd.Index) -> pd.Series:
    return pd.Series(series.to_arrow().to_pylist(), index=index, dtype=object, name=series.name)
