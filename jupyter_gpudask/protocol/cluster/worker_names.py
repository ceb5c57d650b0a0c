"""Names of workers in the output: by their GPU, if they have one."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .state import WorkerState


def names_of(workers: Sequence[WorkerState], *, with_hosts: bool = True) -> list[str]:
    """A name for each worker, such as ``GPU 0``, or ``Worker 3`` without a GPU.

    Several workers on one GPU are numbered: ``GPU 0, worker 2``. The panel uses the same names.

    Parameters
    ----------
    workers
        All workers of a cluster.
    with_hosts
        Whether names have the host of the worker, if there are several hosts: ``node-a GPU 0``.
    """
    are_several = with_hosts and len({worker.host for worker in workers}) > 1
    places = [
        (worker.host, f"Worker {worker.name}" if worker.gpu_index is None else f"GPU {worker.gpu_index}")
        for worker in workers
    ]
    counts, numbers = Counter(places), Counter[tuple[str, str]]()
    names = []
    for host, name in places:
        numbers[host, name] += 1
        number = f", worker {numbers[host, name]}" if counts[host, name] > 1 else ""
        names.append(f"{host} {name}{number}" if are_several else f"{name}{number}")
    return names
