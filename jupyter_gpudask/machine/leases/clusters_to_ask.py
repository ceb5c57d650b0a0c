"""Choose the idle clusters to ask for their GPUs, so that a start that waits in the queue can begin.

Every server computes this from the same files, so that no more clusters are asked than a start needs. The content of
another user's file only decides whether an idle cluster is asked, and in which order. Whether a cluster is idle is
decided by its own server.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .registry import PublicLease
    from .waiting_line import Waiting


def clusters_to_ask(
    line: Sequence[Waiting],
    leases: Sequence[PublicLease],
    idle: Sequence[Waiting],
    max_gpus: int | None = None,
) -> dict[Waiting, Waiting]:
    """Choose the idle clusters that are asked for their GPUs.

    For each start that nobody stands before, those are chosen that have been idle longest, as many as it needs. If it
    could not begin with the GPUs of all of them, none is asked. GPUs that several clusters share are not asked for. If
    its user would hold too many GPUs, only the clusters of the same user are asked.

    Parameters
    ----------
    line
        The starts that wait, the first one first.
    leases
        The leases on GPUs.
    idle
        The clusters that are idle, the one first that has been so longest. Of a GPU that its owner does not hold,
        nothing is expected.
    max_gpus
        The largest number of GPUs of a user; `None` for no limit.

    Returns
    -------
    dict
        The start that waits, for each cluster that is asked.
    """
    asked: dict[Waiting, Waiting] = {}
    behind: set[str] = set()
    for waiting in line:
        wanted = set(waiting.lease.gpus)
        if not wanted & behind:
            others = not _exceeds(max_gpus, waiting, leases)
            candidates = [cluster for cluster in idle if others or cluster.lease.uid == waiting.lease.uid]
            asked |= dict.fromkeys(_clusters_for(waiting, wanted, leases, candidates), waiting)
        behind |= wanted
    return asked


def _needed(waiting: Waiting) -> int:
    """How many GPUs a start needs."""
    gpus = len(set(waiting.lease.gpus))
    return min(waiting.lease.count or gpus, gpus)


def _exceeds(max_gpus: int | None, waiting: Waiting, leases: Sequence[PublicLease]) -> bool:
    """Whether the user of a start would hold more GPUs than allowed, so that it would fail."""
    held = {uuid for lease in leases if lease.uid == waiting.lease.uid for uuid in lease.gpus}
    return max_gpus is not None and len(held) + _needed(waiting) > max_gpus


def _clusters_for(
    waiting: Waiting, wanted: set[str], leases: Sequence[PublicLease], idle: Sequence[Waiting]
) -> list[Waiting]:
    conflicting = [lease for lease in leases if not (lease.share and waiting.lease.share)]
    holders = Counter(uuid for lease in conflicting for uuid in set(lease.gpus))
    missing = _needed(waiting) - len(wanted - set(holders))
    held_by = {(lease.uid, uuid) for lease in conflicting for uuid in lease.gpus}
    chosen: list[Waiting] = []
    counted: set[str] = set()
    for cluster in idle:
        gained = {
            uuid
            for uuid in wanted.intersection(cluster.lease.gpus) - counted
            if holders[uuid] == 1 and (cluster.lease.uid, uuid) in held_by
        }
        if missing > 0 and gained:
            chosen.append(cluster)
            counted |= gained
            missing -= len(gained)
    return chosen if missing <= 0 else []
