"""How many partitions Parquet files are read as: as few as dask_cudf's ``blocksize`` allows, at least one a worker.

When a plan is optimized, dask_cudf joins partitions that are smaller than ``blocksize``, but at most the square root
of their number. Three files become two partitions, which a GPU then shuffles for each merge; docs/architecture.md,
"Decisions", has what that costs.
"""

from __future__ import annotations

import functools
import math
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from dask.dataframe.dask_expr._repartition import RepartitionToFewer
from dask_cudf.io.parquet import CudfFusedIO
from distributed import Client

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_MOST = 100
"""Partitions that are read as one; as in dask_cudf's reader with ``filesystem="arrow"``."""


class FewPartitions(CudfFusedIO):  # type: ignore[misc]
    """As `CudfFusedIO`; the number of workers is a parameter, so that a plan for other workers has other keys."""

    _parameters = ["_expr", "_workers"]  # noqa: RUF012 - as in Dask

    @functools.cached_property
    def _fusion_buckets(self) -> Sequence[Any]:
        reader = self.operand("_expr")
        several = reader._partitions  # noqa: SLF001
        joined = min(math.ceil(1 / reader._fusion_compression_factor), _MOST)  # noqa: SLF001
        fewer = max(math.ceil(len(several) / joined), min(len(several), self.operand("_workers")))
        boundaries = RepartitionToFewer._compute_partition_boundaries(fewer, len(several))  # noqa: SLF001
        return [several[start:stop] for start, stop in pairwise(boundaries)]


def join_partitions(original: Callable[..., Any], reader: Any, parent: Any) -> Any:
    """As ``_tune_up`` of dask_cudf's reader, with the expression above in place of its own."""
    tuned = original(reader, parent)
    if tuned is None:
        return None
    return parent.substitute(reader, FewPartitions(reader, _number_of_workers()))


def _number_of_workers() -> int:
    try:
        client = Client.current()
    except ValueError:  # none
        return 1
    return 1 if client.asynchronous else len(client.nthreads()) or 1
