"""Lets `assert_eq` of dask.array and dask.dataframe compare collections on GPUs with NumPy and pandas, by value.

Both compute a collection inside Dask, so that a result on the GPU stays there. The results are converted here as those
of a cell are. What `assert_eq` checks of the collection itself is not changed: that the blocks have the shapes and the
dtypes that Dask has said, that the partitions are where the divisions say, and the names.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import dask.array.utils
import dask.dataframe.utils
from dask.base import is_dask_collection

from jupyter_gpudask.inspection.placement import place_of, results_to_host


@dataclass
class Counts:
    """How many collections were compared, and how many of them were on the GPU."""

    compared: int = 0
    on_gpu: int = 0


def compare_on_host() -> Counts:
    """Replace the functions of Dask; the counts go on for as long as the process lives."""
    counts = Counts()
    computed_array = dask.array.utils._get_dt_meta_computed
    computed_frame = dask.dataframe.utils._check_dask

    def count(collection: Any) -> bool:
        on_gpu = is_dask_collection(collection) and place_of(collection) == "gpu"
        counts.compared += is_dask_collection(collection)
        counts.on_gpu += on_gpu
        return on_gpu

    def array(x: Any, *args: Any, **kwargs: Any) -> Any:
        on_gpu = count(x)
        value, dtype, meta, computed = computed_array(x, *args, **kwargs)
        return results_to_host(value), dtype, None if on_gpu else meta, results_to_host(computed)

    def frame(dsk: Any, *args: Any, **kwargs: Any) -> Any:
        if kwargs.get("result") is None:  # not its index, for which the function calls itself
            count(dsk)
        return results_to_host(computed_frame(dsk, *args, **kwargs))

    dask.array.utils._get_dt_meta_computed = array
    dask.dataframe.utils._check_dask = frame
    return counts
