"""What a rank of Polars' engine does in one query: RapidsMPF's statistics, and the bytes that KvikIO reads.

Both count nothing outside of cells with ``--profile``.
"""

from __future__ import annotations

import sys
from collections import Counter
from dataclasses import dataclass
from typing import Any

from distributed import Worker

from .polars_rank import CONTEXT, rank_of

_SENT = "-payload-send"
_HOST = ("host", "pinned_host")


@dataclass(frozen=True)
class RankStatistics:
    """The statistics of a rank.

    - `worker`: the worker's name in Dask.
    - `seconds`: how long the query ran in this worker.
    - `nbytes`: the bytes that were ``read`` from files, ``sent`` to other workers, and moved ``to host`` memory and
      back ``to GPU``.
    """

    worker: str
    seconds: float
    nbytes: Counter[str]


def begin_statistics(uid: str, dask_worker: Worker) -> None:
    """Begin to count what the rank of an engine does; called in the worker."""
    rank, statistics = rank_of(dask_worker), getattr(dask_worker, CONTEXT + uid).statistics
    statistics.enable()
    statistics.clear()
    rank.monitor = sys.modules["kvikio"].SummaryMonitor() if "kvikio" in sys.modules else None
    rank.seconds = 0.0


def take_statistics(uid: str, dask_worker: Worker) -> RankStatistics:
    """The counts after a query, with which the counting ends; called in the worker."""
    rank, statistics = rank_of(dask_worker), getattr(dask_worker, CONTEXT + uid).statistics
    seconds, nbytes = rank.seconds, _nbytes(statistics.to_dict())
    statistics.disable()
    if rank.monitor is not None:
        nbytes["read"] = rank.monitor.get().bytes_read
        rank.monitor.stop()
        rank.monitor = None
    return RankStatistics(str(dask_worker.name), seconds, nbytes)


def kept_bytes(uid: str, dask_worker: Worker) -> int:
    """The device memory that the rank of an engine has allocated; called in the worker."""
    return int(getattr(dask_worker, CONTEXT + uid).mr.current_allocated)


def _nbytes(counts: dict[str, Any]) -> Counter[str]:
    """The bytes of `RankStatistics` that RapidsMPF counts, by the names of its statistics."""
    found: Counter[str] = Counter()
    for name, each in counts.items():
        if name.endswith(_SENT):
            found["sent"] += int(each["value"])
    for host in _HOST:
        for name, direction in (("to host", f"device-to-{host}"), ("to GPU", f"{host}-to-device")):
            found[name] += int(counts.get(f"copy-{direction}-bytes", {}).get("value", 0))
    return found
