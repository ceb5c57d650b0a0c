"""Lets `assert_eq` of dask.array and dask.dataframe compare collections on GPUs with NumPy and pandas, by value.

Both compute a collection inside Dask, so that a result on the GPU stays there. Here the collection is moved to the host
first, as `compute()` of a cell does. What `assert_eq` checks besides the values is not changed: that the blocks have
the shapes and the dtypes that Dask has said, that the partitions are where the divisions say, and the names.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import dask.array.utils
import dask.dataframe.utils
from dask.base import is_dask_collection

from jupyter_gpudask.inspection.placement import place_of, to_host
from jupyter_gpudask.inspection.results import results_to_host


@dataclass
class Counts:
    """How many collections were compared, and how many of them were on the GPU."""

    compared: int = 0
    on_gpu: int = 0


def count_comparisons(*, on_host: bool) -> Counts:
    """Replace what `assert_eq` calls for each of its arguments; the counts go on for as long as the process lives.

    Parameters
    ----------
    on_host
        Whether collections and results on GPUs are moved to the host.
    """
    counts = Counts()
    computed_array = dask.array.utils._get_dt_meta_computed
    computed_frame = dask.dataframe.utils._check_dask

    def moved(value: Any) -> Any:
        is_collection = is_dask_collection(value)
        counts.compared += is_collection
        counts.on_gpu += is_collection and place_of(value) == "gpu"
        if not on_host:
            return value
        return to_host(value) if is_collection else results_to_host(value)

    def array(x: Any, *args: Any, **kwargs: Any) -> Any:
        value = moved(x)
        data, dtype, meta, computed = computed_array(value, *args, **kwargs)
        return data, dtype, meta if value is x else None, computed

    def frame(dsk: Any, *args: Any, **kwargs: Any) -> Any:
        # The function calls itself for the index of a result.
        value = moved(dsk) if kwargs.get("result") is None else dsk
        if on_host and value is dsk and is_dask_collection(value) and place_of(value) == "gpu":  # a number
            kwargs = {**kwargs, "result": results_to_host(value.compute(scheduler=kwargs.get("scheduler")))}
        result = computed_frame(value, *args, **kwargs)
        return results_to_host(result) if on_host else result  # a number of an array, too

    dask.array.utils._get_dt_meta_computed = array
    dask.dataframe.utils._check_dask = frame
    return counts
