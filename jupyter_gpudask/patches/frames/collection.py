"""Make a dataframe collection of an expression in a GPU cell: the one wrapper of Dask's ``new_collection``.

Each step is a function of a module of its own, and they run in the order in which they are written here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from dask._collections import new_collection as make_new_collection
from dask._expr import Expr
from dask.array.core import Array
from dask.dataframe.dask_expr._backends import ToPandasBackend
from dask.dataframe.dask_expr._concat import Concat
from dask.dataframe.dask_expr._expr import Elemwise
from dask.dataframe.dask_expr._merge import JoinRecursive, Merge

from ...inspection.arguments import bind, first_argument
from ...inspection.frames import FromGraphOnGpu, frame_to_host, meta_of_pandas
from ...inspection.placement import can_move, is_type_of_gpu, name_of, place_of_partitions
from ...overlay import current_overlay, current_record
from ..host_fallback import frame_to_gpu, note_line, note_on_host, on_host, refuse_if_strict
from ..mixed_operands import in_one_place
from .as_pandas import OF_PANDAS, as_pandas, replaced
from .concat import ConcatOnHost, without_mixed_divisions
from .differences import is_only_of_pandas, reason_for_host


def new_collection(original: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """As Dask's function; an expression with partitions on GPUs becomes one that has the results of pandas there.

    Raises `MixedBackendsError`: its operands are on the CPU and on GPUs. Raises `NotOnGpuError`: its results in cuDF
    differ, and the cell has ``--strict``.
    """
    __tracebackhide__ = True
    expression = first_argument(original, args, kwargs)
    if type(expression) is ToPandasBackend and place_of_partitions(expression.frame) == "gpu":
        return frame_to_host(original(expression.frame))  # Dask skips the move of what has metadata of pandas
    if type(expression) is JoinRecursive and any(place_of_partitions(each) == "gpu" for each in expression.frames):
        _ = expression._meta  # noqa: SLF001 - pandas refuses columns of the same name
        return _merge_in_pairs(expression._lower(), original)  # noqa: SLF001
    if current_overlay() is not None:
        expression = _with_pandas_meta(expression)
    expression = in_one_place(expression, original)
    if not any(place_of_partitions(part) == "gpu" for part in expression.dependencies()):
        collection = original(expression)
        return collection if current_overlay() is None else _note(collection)
    expression = without_mixed_divisions(expression)
    record = current_record()
    if (
        record is not None
        and record.watches
        and (reason := reason_for_host(expression) or _reason_of_array(expression))
    ):
        operation = type(expression).__name__.removesuffix("AsPandas")
        refuse_if_strict(operation, expression._name, reason)  # noqa: SLF001
        made = replaced(expression) if type(expression) in OF_PANDAS else expression
        made = ConcatOnHost(*made.operands) if type(made) is Concat and made.join == "outer" else made
        collection = original(on_host(made, original))
        note_on_host(operation, reason, collection.npartitions)
        return collection if is_only_of_pandas(expression) else frame_to_gpu(collection)
    return _note(_on_gpu(original(as_pandas(expression))))


def _merge_in_pairs(expression: Any, original: Callable[..., Any]) -> Any:
    """A join of several dataframes as merges of two: cuDF joins two, and Dask lists no inputs of a join of several."""
    operands = (_merge_in_pairs(part, original).expr if type(part) is Merge else part for part in expression.operands)
    return new_collection(original, type(expression)(*operands))


def postpersist(original: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """As ``__dask_postpersist__``: what is made of persisted partitions on GPUs is on GPUs, too."""
    collection = bind(original, args, kwargs).arguments["self"]
    rebuild, arguments = original(*args, **kwargs)
    return (_persisted_on_gpu if place_of_partitions(collection.expr) == "gpu" else rebuild), arguments


def _persisted_on_gpu(futures: Any, meta: Any, divisions: Any, name: str) -> Any:
    """Source: ``FrameBase._postpersist``."""
    return make_new_collection(FromGraphOnGpu(futures, meta, divisions, sorted(futures), name))


class MetaOfPandas(Elemwise):
    """A dataframe whose metadata is of cuDF, such as one of dask_cudf, with that of pandas."""

    _parameters = ["frame"]  # noqa: RUF012 - as in Dask
    _projection_passthrough = True
    _filter_passthrough = True
    _preserves_partitioning_information = True
    gpudask_place = "gpu"

    @property
    def _meta(self) -> Any:
        return meta_of_pandas(self.frame._meta)  # noqa: SLF001

    @staticmethod
    def operation(partition: Any) -> Any:
        """One partition, as it is."""
        return partition


def _with_pandas_meta(expression: Any) -> Any:
    """The expression with metadata of pandas for each operand on a GPU, or of its own, as for a reader of dask_cudf."""
    operands = [
        MetaOfPandas(operand) if isinstance(operand, Expr) and _has_meta_of_cudf(operand) else operand
        for operand in expression.operands
    ]
    changed = any(new is not old for new, old in zip(operands, expression.operands, strict=True))
    if isinstance(expression, MetaOfPandas):
        return expression
    if changed:
        return type(expression)(*operands)
    is_source = all(place_of_partitions(part) is None for part in expression.dependencies())
    return MetaOfPandas(expression) if is_source and _has_meta_of_cudf(expression) else expression


def _has_meta_of_cudf(expression: Any) -> bool:
    try:
        return is_type_of_gpu(type(expression._meta))  # noqa: SLF001
    except Exception:  # noqa: BLE001 - whatever it is, the caller gets it from the expression itself
        return False


def _reason_of_array(expression: Any) -> str:
    """Why an array that is made of a dataframe, as by ``values``, is made on the host; empty if it is not."""
    meta = expression._meta  # noqa: SLF001
    return "CuPy has no texts, times and objects" if isinstance(meta, np.ndarray) and not can_move(meta) else ""


def _on_gpu(collection: Any) -> Any:
    """An array that is made of a dataframe on GPUs, with metadata of CuPy; anything else as it is."""
    if not isinstance(collection, Array) or not isinstance(collection._meta, np.ndarray):  # noqa: SLF001
        return collection
    import cupy

    meta = cupy.empty((0,) * collection.ndim, collection.dtype)
    return Array(collection.dask, collection.name, collection.chunks, meta=meta)


def _note(collection: Any) -> Any:
    record = current_record()
    if record is not None and record.watches:
        note_line(name_of(collection), record)
    return collection
