"""Dask dataframes whose partitions are on GPUs, and their moves. Their metadata is of pandas.

The kernel plans with metadata of pandas, as on the CPU, and needs no cuDF for it. Which place the partitions are in is
known from the expressions: some begin on GPUs, or move there or back, and all that is computed from partitions on GPUs
is there, too (`placement.place_of_partitions`). Each such expression has a class of its own, so that the keys of a
dataframe on GPUs are never those of one on the CPU.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import pandas as pd
from dask._collections import new_collection
from dask._task_spec import Task
from dask.dataframe.dask_expr._expr import Elemwise
from dask.dataframe.dask_expr.io.io import FromGraph, FromPandas
from dask.dataframe.dispatch import to_pandas_dispatch
from dask.dataframe.utils import UNKNOWN_CATEGORIES, pyarrow_strings_enabled

if TYPE_CHECKING:
    from dask.typing import Key


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

    gpudask_place = "host"

    @functools.cached_property
    def _args(self) -> list[Any]:
        return [self.frame, schema_of(self._meta)]

    @staticmethod
    def operation(partition: Any, schema: Any) -> Any:
        """One partition."""
        return partition_to_host(partition, schema)


class FromPandasOnGpu(FromPandas):
    """Dask's expression for a dataframe of pandas in the kernel; the task of each partition moves it to the GPU.

    A separate move would hide from Dask that the partitions come from the kernel: ``df.head(npartitions=99)`` fails
    then, and a graph has one more task for each partition.
    """

    gpudask_place = "gpu"

    def _filtered_task(self, name: Key, index: int) -> Task:  # type: ignore[override]
        return Task(name, partition_to_gpu, super()._filtered_task(name, index).value)


class FromGraphOnGpu(FromGraph):
    """Dask's expression for partitions that are computed already, or by a graph of their own, on GPUs."""

    gpudask_place = "gpu"


def frame_to_gpu(collection: Any) -> Any:
    """The same collection with its partitions on GPUs; each worker moves its own."""
    expression = collection.expr
    if type(expression) is FromPandas:
        return new_collection(FromPandasOnGpu(*expression.operands))
    return new_collection(ToGpu(expression))


def frame_to_host(collection: Any) -> Any:
    """The same collection with partitions of pandas; each worker moves its own."""
    return new_collection(ToHost(collection.expr))


def partition_to_gpu(partition: Any) -> Any:
    """A partition of pandas as one of cuDF; anything else as it is."""
    from dask_cudf.backends import to_cudf_dispatch

    return to_cudf_dispatch(partition) if isinstance(partition, pd.DataFrame | pd.Series | pd.Index) else partition


def partition_to_host(partition: Any, schema: Any = None) -> Any:
    """A partition of cuDF as one of pandas, with lists where pandas has lists.

    Parameters
    ----------
    partition
        Of cuDF or pandas.
    schema
        The dtypes that the result has if its values allow it; see `schema_of`.
    """
    if not isinstance(partition, pd.DataFrame | pd.Series | pd.Index):
        if not hasattr(partition, "to_pandas"):
            return partition
        partition = with_lists(to_pandas_dispatch(partition), partition)
    return partition if schema is None else conform(partition, schema)


def schema_of(meta: Any) -> Any:
    """The dtypes of metadata of pandas: of the columns in their order, or of a Series or index."""
    if meta.ndim > 1:
        return list(meta.columns), list(meta.dtypes), _index_dtype(meta)
    return None, [meta.dtype], None if isinstance(meta, pd.Index) else _index_dtype(meta)


def _index_dtype(meta: Any) -> Any:
    return None if isinstance(meta.index, pd.MultiIndex) else meta.index.dtype


def conform(frame: Any, schema: Any) -> Any:
    """A result of pandas with the dtypes, and the order of columns, of a schema, as far as the values allow it."""
    columns, dtypes, index_dtype = schema
    if columns is None:
        made = _with_dtype(frame, dtypes[0])
    else:
        if list(frame.columns) != columns:
            if not frame.columns.is_unique or len(columns) != frame.shape[1] or set(columns) != set(frame.columns):
                return frame
            frame = frame[columns]
        changed = {}
        for place, dtype in enumerate(dtypes):
            column = frame.iloc[:, place]
            if (new := _with_dtype(column, dtype)) is not column:
                changed[place] = new
        made = frame.copy(deep=False) if changed else frame
        for place, column in changed.items():
            made.isetitem(place, column)
    if index_dtype is not None and made.index.dtype != index_dtype and not isinstance(made.index, pd.MultiIndex):
        index = _with_dtype(made.index, index_dtype)
        if index is not made.index:
            made = made.copy(deep=False)
            made.index = index
    return made


def _with_dtype(values: Any, dtype: Any) -> Any:
    """A Series or index with the dtype; as it is if it has it, or has values that the dtype cannot hold."""
    given = values.dtype
    if given == dtype or not _may_convert(given, dtype) or (str(dtype) == "bool" and values.isna().any()):
        return values
    if isinstance(dtype, pd.CategoricalDtype) and not _has_categories(values, dtype.categories):
        return values
    try:
        made = values.astype(dtype)
    except (TypeError, ValueError, ArithmeticError):
        return values
    is_exact = getattr(dtype, "kind", "O") not in "iu" or bool((made == values).all())
    return made if is_exact else values


def _has_categories(values: Any, categories: pd.Index) -> bool:
    """Whether all values are known categories; all others would be lost."""
    return UNKNOWN_CATEGORIES not in categories and bool(values.dropna().isin(categories).all())


def _may_convert(given: Any, wanted: Any) -> bool:
    """Whether a conversion changes no value, or fails where it would."""
    kinds = getattr(given, "kind", "O"), getattr(wanted, "kind", "O")
    if kinds[0] == "f" and kinds[1] in "iub":
        return False  # what is missing is NaN
    if kinds[1] == "b":
        return kinds[0] in "bO"
    return True


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

    Parameters
    ----------
    converted
        What cuDF has made of it.
    given
        The same of cuDF.
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
