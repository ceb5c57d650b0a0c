"""Shuffle and rechunk data on GPUs by tasks, and keep the order of rows.

In Dask's peer-to-peer shuffle the workers take partitions for those of pandas, and write parts of arrays to files.
dask-cuda also shuffles dataframes by tasks.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import accumulate, pairwise
from typing import Any

import dask.config
import numpy as np
import pandas as pd
from dask.array._shuffle import _calculate_new_chunksizes
from dask.dataframe.dask_expr._expr import ColumnsSetter
from dask.dataframe.dask_expr._shuffle import (
    AssignPartitioningIndex,
    SimpleShuffle,
    TaskShuffle,
    _select_columns_or_index,
)
from dask.dataframe.dispatch import hash_object_dispatch
from dask.dataframe.shuffle import shuffle_group, shuffle_group_2
from distributed import client as distributed_client

from ..inspection.arguments import bind
from ..inspection.placement import is_type_of_gpu, place_of, place_of_partitions
from ..overlay import current_overlay


def default_shuffle_method(original: Callable[..., str], /) -> str:
    """As Dask's function; ``tasks`` if Dask would select ``p2p`` in a GPU cell or on a cluster with GPUs.

    A shuffle by files (``disk``) loses rows of partitions of cuDF, so it is not used there either.
    """
    chosen = dask.config.get("dataframe.shuffle.method", None)
    method = original()
    is_unfit = method == "disk" or (method == "p2p" and not chosen)
    return "tasks" if is_unfit and _may_have_partitions_on_gpus() else method


def _may_have_partitions_on_gpus() -> bool:
    overlay = current_overlay()
    if overlay is not None and overlay.get("dataframe") == "cudf":
        return True
    return bool(getattr(distributed_client._get_global_client(), "is_on_gpus", False))  # noqa: SLF001


_WINDOW_BYTES = 2**30
"""Of the windows of one block. They are views; what is computed of them needs some times as much."""


def rechunk(original: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """As `dask.array.rechunk`; arrays on GPUs are rechunked by tasks, also where ``p2p`` is chosen.

    They are rechunked at once where that is better.

    Before Dask makes sliding windows, it splits blocks so that all windows of one are no larger than a block was. On a
    GPU, `_WINDOW_BYTES` are allowed: with a window of 30 there are tens of times fewer tasks.
    """
    __tracebackhide__ = True
    call = bind(original, args, kwargs)
    array = call.arguments["x"]
    if call.arguments.get("method") in (None, "p2p", "tasks") and place_of(array) == "gpu":
        call.arguments["method"] = "tasks"
        choose = getattr(distributed_client._get_global_client(), "rechunk_threshold", None)  # noqa: SLF001
        if call.arguments.get("threshold") is None and choose is not None:
            call.arguments["threshold"] = choose(array.nbytes)
        call.arguments["chunks"] = _for_windows(array, call.arguments["chunks"])
    return original(*call.args, **call.kwargs)


def _for_windows(x: Any, chunks: Any) -> Any:
    """The chunks for Dask's sliding windows, if they are for those; else `chunks`.

    Dask's `sliding_window_view` appends the size of the window to the chunks, one for each of its axes.
    """
    windows = chunks[x.ndim :] if isinstance(chunks, tuple) else ()
    if not windows or not all(isinstance(each, tuple) for each in chunks) or set(map(len, windows)) != {1}:
        return chunks
    split = {axis for axis, given in enumerate(x.chunks) if _is_split(given, chunks[axis])}
    kept = [given if axis in split else chunks[axis] for axis, given in enumerate(x.chunks)]
    most = max(_WINDOW_BYTES // x.dtype.itemsize, math.prod(map(max, x.chunks)))
    return tuple(_calculate_new_chunksizes(x.chunks, [*kept, *windows], split, most))


def _is_split(given: tuple[int, ...], made: tuple[int, ...]) -> bool:
    """Whether blocks are split; Dask joins those that are smaller than a window, with a part of the next one."""
    return len(made) > len(given) and set(accumulate(given)) < set(accumulate(made))


def split_in_order(frame: Any, groups: Any, number: int, *, ignore_index: bool) -> dict[int, Any]:
    """The rows of each group, in the order of `frame`.

    - `frame`: a dataframe of pandas or cuDF.
    - `groups`: a Series of integers: the group of each row, from 0.
    - `number`: of the groups.
    - `ignore_index`: whether the rows of each group are numbered from 0.
    """
    codes = groups.to_numpy() if isinstance(groups, pd.Series) else groups.to_cupy()
    rows = frame.take(np.argsort(codes, kind="stable"))
    ends = np.cumsum(np.bincount(codes, minlength=number)).tolist()
    parts = (rows.iloc[begin:end] for begin, end in pairwise([0, *ends]))
    return {group: part.reset_index(drop=True) if ignore_index else part for group, part in enumerate(parts)}


def _filtered_groups(df: Any, _filter: Any, *args: Any) -> Any:
    """Source: ``SimpleShuffle._shuffle_group`` of ``dask.dataframe.dask_expr``; it runs in a worker."""
    groups = (_groups if is_type_of_gpu(type(df)) else shuffle_group)(df, *args)
    return groups if _filter is None else {group: part for group, part in groups.items() if group in _filter}


def _groups(  # noqa: PLR0917 - as in Dask
    frame: Any,
    columns: Any,
    stage: int,
    k: int,
    npartitions: int,
    ignore_index: bool,
    nfinal: int,
) -> dict[int, Any]:
    """Source: ``dask.dataframe.shuffle.shuffle_group``."""
    if k == 1:  # as for the distinct values of one partition
        return {0: frame.reset_index(drop=True) if ignore_index else frame}
    targets, are_partitions = _targets(frame, columns)
    if not are_partitions and nfinal and nfinal != npartitions:
        targets = targets % nfinal
    groups = (targets % npartitions).astype("int64") // k**stage % k
    return split_in_order(frame, groups, k, ignore_index=ignore_index)


def _groups_of_last_stage(df: Any, cols: Any, ignore_index: bool, nparts: int) -> Any:
    """Source: ``dask.dataframe.shuffle.shuffle_group_2``; it runs in a worker."""
    if not is_type_of_gpu(type(df)) or not len(df):
        return shuffle_group_2(df, cols, ignore_index, nparts)
    targets, are_partitions = _targets(df, cols)
    groups = (targets if are_partitions else targets % nparts).astype("int64")
    return split_in_order(df, groups, int(groups.max()) + 1, ignore_index=ignore_index), df.iloc[:0]


def _with_partitions_of_rows(  # noqa: PLR0917 - as in Dask
    df: Any, index: Any, name: str, npartitions: int, meta: Any, index_shuffle: bool
) -> Any:
    """Source: ``AssignPartitioningIndex.operation`` of ``dask.dataframe.dask_expr``; it runs in a worker."""
    if is_type_of_gpu(type(df)):
        if hasattr(index, "ndim"):
            keys = index.to_frame() if index.ndim == 1 else index
        elif index_shuffle:
            keys = df.index.to_frame(**({"name": "_index"} if index == ["_index"] else {}))
        else:
            keys = _select_columns_or_index(df, index)
        values = _of_values(keys)
        index = index if values is keys else values
    return AssignPartitioningIndex.operation(df, index, name, npartitions, meta, index_shuffle)


def _of_values(frame: Any) -> Any:
    """A dataframe on a GPU with values for categories; the same one if it has none."""
    names = [name for name, dtype in frame.dtypes.items() if str(dtype) == "category"]
    return frame.astype({name: frame[name].cat.categories.dtype for name in names}) if names else frame


def _targets(frame: Any, columns: Any) -> tuple[Any, bool]:
    """A number for each row, and whether it is the partition to which it goes, or a hash."""
    columns = [columns] if isinstance(columns, str) else columns
    if columns and columns[0] == "_partitions":
        return frame[columns[0]], True
    return hash_object_dispatch(_of_values(frame[columns] if columns else frame), index=False), False


class AssignPartitioningIndexByValue(AssignPartitioningIndex):
    """Dask's expression with the same partition for all rows of a category.

    cuDF hashes the codes of categories, which differ between partitions.
    """

    operation = staticmethod(_with_partitions_of_rows)


def lower_by_numbers(original: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """As ``RearrangeByColumn._lower``; on GPUs, columns of several levels are numbered while rows are shuffled.

    Dask's own column ``_partitions`` gets a name of several levels, and stays in the result. For distinct rows Dask
    renames tuples to texts, which pandas ignores for several levels, and takes the index for the missing column.
    """
    shuffled = bind(original, args, kwargs).arguments["self"]
    frame = shuffled.frame
    names = frame._meta.columns if frame.ndim > 1 else pd.Index([])  # noqa: SLF001
    if names.nlevels == 1 or place_of_partitions(frame) != "gpu":
        return original(*args, **kwargs)
    numbers = [str(number) for number in range(len(names))]
    numbered = dict(zip([*names, *map(str, names)], numbers * 2, strict=True))
    by = shuffled.operand("partitioning_index")
    by = [by] if isinstance(by, str) else by
    by = [numbered.get(key, key) for key in by] if isinstance(by, list) else by
    changed = {"frame": ColumnsSetter(frame, numbers), "partitioning_index": by}
    return ColumnsSetter(shuffled.substitute_parameters(changed), names)


class _InOrder:
    """A shuffle in which the rows of a cuDF dataframe keep their order.

    libcudf's ``partition`` returns the rows of a group in any order, so that ``drop_duplicates(subset=...)`` would keep
    any of them, and functions of groups would see them in any order.
    """

    _shuffle_group = staticmethod(_filtered_groups)

    def _layer(self) -> dict[Any, Any]:
        tasks: dict[Any, Any] = super()._layer()  # type: ignore[misc]
        return {key: _in_order(task) for key, task in tasks.items()}


def _in_order(task: Any) -> Any:
    is_split = isinstance(task, tuple) and task[0] is shuffle_group_2
    return (_groups_of_last_stage, *task[1:]) if is_split else task


class SimpleShuffleInOrder(_InOrder, SimpleShuffle):
    """A shuffle in one step."""


class TaskShuffleInOrder(_InOrder, TaskShuffle):
    """A shuffle in stages."""


def in_order(original: type) -> type:
    """The class of this module that takes the place of one of Dask's.

    A worker makes the tasks of an expression. It has no patches of the kernel, but the class of the expression.
    """
    return _CLASSES[original]


_CLASSES: dict[type, type] = {
    AssignPartitioningIndex: AssignPartitioningIndexByValue,
    SimpleShuffle: SimpleShuffleInOrder,
    TaskShuffle: TaskShuffleInOrder,
}
