"""Pandas dataframes whose partitions the workers move to the GPU.

dask_cudf 26.10 has a separate expression for the move. Dask then does not know that the partitions come from a
dataframe in the kernel: ``df.head(npartitions=99)`` fails, and a graph has one more task for each partition.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dask._collections import new_collection
from dask._task_spec import Task
from dask.dataframe.dask_expr.io.io import FromPandas

from ...inspection import placement

if TYPE_CHECKING:
    from dask.typing import Key


def partition_to_cudf(partition: Any) -> Any:
    """A partition of pandas as one of cuDF."""
    from dask_cudf.backends import to_cudf_dispatch

    return to_cudf_dispatch(partition)


class FromPandasToCudf(FromPandas):
    """Dask's expression for a pandas dataframe; the task of each partition moves it to the GPU."""

    @property
    def _meta(self) -> Any:
        return partition_to_cudf(super()._meta)

    def _filtered_task(self, name: Key, index: int) -> Task:  # type: ignore[override]
        return Task(name, partition_to_cudf, super()._filtered_task(name, index).value)


def to_gpu(collection: Any) -> Any:
    """As `inspection.placement.to_gpu`; a dataframe of `dask.dataframe.from_pandas` remains one for Dask.

    Raises
    ------
    TypeError, ValueError, NotImplementedError
        cuDF has no such dtype.
    """
    expression = getattr(collection, "expr", None)
    if type(expression) is not FromPandas:
        return placement.to_gpu(collection)
    return new_collection(FromPandasToCudf(*expression.operands))
