"""The GPUs and the number of workers of a cluster: plan and lease, scaling and adaptive scaling."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Callable, Hashable
from typing import Any

from ..errors import ClusterStartError, GpuDaskError, GpuReservedError, GpuUnavailableError, LimitError, ScaleError
from ..machine import gpus
from ..machine.leases import Lease, LeaseFolder, OwnLease, Place, leases_of_others
from ..machine.plan import Plan, check_gpus_of_user, check_memory, make_plan, wanted_gpus
from ..protocol.spec import ClusterSpec
from ..protocol.verbs import Start
from .engines import check_capacity, worker_names
from .job_queue import JobQueue

logger = logging.getLogger(__name__)

_ANSWER_LIMIT = 8.0  # a command is answered within 10


class Scaling:
    """Scales one cluster.

    - `plan`: its plan; a cluster on GPUs of this machine has at most one worker for each.
    - `limit`: the largest number of workers that the administrator allows; `None` for no limit.
    - `jobs`: its jobs, if its workers are jobs of a batch system.

    - `range`: the smallest and the largest number of workers while the cluster is adaptive; else `None`.
    - `leaving`: the number of workers that are up until their results have been moved to the others.
    """

    def __init__(self, cluster: Any, plan: Plan, limit: int | None, jobs: JobQueue | None) -> None:
        self._cluster, self._gpus, self._limit, self._jobs = cluster, len(plan.gpus), limit, jobs
        self._capacity: int | None = getattr(cluster, "capacity", None)
        self._adaptive: Any = None
        self._scaling: asyncio.Task[None] | None = None
        self.range: tuple[int, int] | None = None
        self.leaving = 0

    async def scale(self, workers: int) -> None:
        """Scale to `workers` workers, which ends `adapt`; new ones start later.

        The others close when their results have been moved, which may take longer than this method.

        Raises `GpuUnavailableError` if the cluster has not reserved that many GPUs. Raises `LimitError` if the
        administrator allows fewer. Raises `ClusterStartError` if the batch system refuses the jobs. Raises `ScaleError`
        if what workers hold cannot be moved to others, or an earlier `scale` is still moving it.
        """
        self._check(workers)
        deadline = asyncio.get_running_loop().time() + _ANSWER_LIMIT
        await self._wait_for_earlier(deadline)
        self._stop_adapting()
        self._scaling = asyncio.create_task(self._scale(workers))
        if await _is_done_by(deadline, self._scaling):
            self._scaling.result()
        else:
            self._scaling.add_done_callback(_log_failure)

    async def adapt(self, minimum: int, maximum: int) -> None:
        """Let Dask close idle workers and start them when there is work, within a range; raises as `scale` does."""
        self._check(maximum)
        await self._wait_for_earlier(asyncio.get_running_loop().time() + _ANSWER_LIMIT)
        self._stop_adapting()
        self._adaptive = self._cluster.adapt(minimum=minimum, maximum=maximum)
        self.range = minimum, maximum

    def close(self) -> None:
        """Stop to move results and to follow the work, before the cluster closes."""
        self._stop_adapting()
        if self._scaling is not None:
            self._scaling.cancel()

    async def _wait_for_earlier(self, deadline: float) -> None:
        if self._scaling is not None and not await _is_done_by(deadline, self._scaling):
            raise ScaleError("still-scaling")

    async def _scale(self, workers: int) -> None:
        surplus = self._surplus(workers)
        staying = await self._retire(surplus)
        for name in surplus:
            if name not in staying:
                self._cluster.worker_spec.pop(name, None)
        # Dask's own choice of workers closes none: so many are left.
        self._cluster.scale(max(workers, len(self._cluster.plan)))
        if self._jobs is not None:
            await self._jobs.submit()
        elif surplus:  # a new worker may have the name of one that leaves, and Dask must not take that for the new one
            await asyncio.wait([self._cluster._correct_state()])  # noqa: SLF001
        if staying:
            raise ScaleError("workers-stay", workers=sum(len(self._names(name)) for name in staying))

    def _surplus(self, workers: int) -> list[Hashable]:
        """The entries of Dask's specification to close: each is a worker, or a job or a host with several.

        First those that are not up, then those that are idle, hold least, and were added last.
        """
        entries = list(self._cluster.worker_spec)
        if not entries:
            return []
        up = {str(worker.name): worker for worker in self._cluster.scheduler.workers.values()}

        def loss(entry: Hashable) -> tuple[Any, ...]:
            states = [up[name] for name in self._names(entry) if name in up]
            return (
                bool(states),
                any(state.actors for state in states),
                any(state.long_running for state in states),
                any(state.processing for state in states),
                sum(state.nbytes for state in states),
                -entries.index(entry),
            )

        kept = math.ceil(workers / len(self._names(entries[0])))
        return sorted(entries, key=loss)[: max(0, len(entries) - kept)]

    async def _retire(self, entries: list[Hashable]) -> list[Hashable]:
        """Move the results of the workers of `entries` to the others; those whose results cannot be moved.

        Dask's `scale` means to do so, but passes the names of the entries for the addresses of workers: their results
        would be computed again, and those of `Client.scatter` would be lost.
        """
        scheduler = self._cluster.scheduler
        names = {name for entry in entries for name in self._names(entry)}
        self.leaving = len(names)
        try:
            await scheduler.retire_workers(names=list(names))
        finally:
            self.leaving = 0
        up = {str(worker.name) for worker in scheduler.workers.values()}
        return [entry for entry in entries if not up.isdisjoint(self._names(entry))]

    def _names(self, entry: Hashable) -> list[str]:
        return worker_names(self._cluster, entry)

    def _stop_adapting(self) -> None:
        if self._adaptive is not None:
            self._adaptive.stop()
        self._adaptive = self.range = None

    def _check(self, workers: int) -> None:
        check_workers(workers, self._gpus, self._limit)
        if self._capacity is not None:
            check_capacity(workers, self._capacity)


async def _is_done_by(deadline: float, task: asyncio.Task[None]) -> bool:
    await asyncio.wait([task], timeout=max(0, deadline - asyncio.get_running_loop().time()))
    return task.done()


def _log_failure(scaling: asyncio.Task[None]) -> None:
    """Log why workers were not closed or started, after the command was answered."""
    if not scaling.cancelled() and (error := scaling.exception()) is not None:
        logger.warning("%s", error, exc_info=None if isinstance(error, GpuDaskError) else error)


def check_workers(workers: int, gpus: int, limit: int | None) -> None:
    """Raise `LimitError` or `GpuUnavailableError` if a cluster with so many GPUs cannot have the workers."""
    check_limit(workers, limit)
    if gpus and workers > gpus:
        raise GpuUnavailableError("too-few-reserved", workers=workers, gpus=gpus)


def check_limit(workers: int, limit: int | None) -> None:
    """Raise `LimitError` if a cluster may not have so many workers."""
    if limit is not None and workers > limit:
        raise LimitError("too-many-workers", limit=limit, workers=workers)


_INTERVAL = 0.5


async def plan_and_lease(request: Start, on_wait: Callable[[str, int], None]) -> tuple[Plan, OwnLease | None]:
    """Plan the cluster of a request, and take the lease on its GPUs.

    `request`: the request; with ``wait`` it stands in line while others have reserved the GPUs, and leaves the line if
    cancelled. `on_wait`: called with a sentence on its place in the line, and the place, whenever that changes. Raises
    `GpuReservedError`, `GpuUnavailableError`, `GpuPackagesMissingError` or `LimitError` if a cluster with these options
    is not possible. Raises `ClusterStartError` if the lease cannot be written.
    """
    folder = LeaseFolder()
    if not request.spec.wait:
        return _try(request, folder, None)
    place: Place | None = None
    said = ""
    try:
        while True:
            try:
                return _try(request, folder, place)
            except GpuReservedError as error:
                place = place or _enter_line(request, folder)
                number = len(folder.line.before(place, place.gpus)) + 1
                sentence = f"Waiting for GPUs at place {number} in line. {error.reason}"
                if sentence != said:
                    on_wait(said := sentence, number)
            await asyncio.sleep(_INTERVAL)
    finally:
        if place is not None:
            place.leave()


def _try(request: Start, folder: LeaseFolder, place: Place | None) -> tuple[Plan, OwnLease | None]:
    spec = request.spec
    try:
        with folder.lock() as leases:
            plan = _plan(spec, folder, leases_of_others(leases, request.kernel_id), place)
            check_limit(plan.workers, request.max_workers)
            if spec.adapt is not None:
                check_workers(spec.adapt[1], len(plan.gpus), request.max_workers)
            check_gpus_of_user(plan.gpus, folder, request.max_gpus)
            check_memory(plan.pool, plan.gpus)  # not in the plan: a cluster that will be replaced still uses memory
            if not plan.gpus:
                return plan, None
            uuids = [gpu.uuid for gpu in plan.gpus]
            return plan, folder.take(uuids, holder=request.holder, kernel_id=request.kernel_id, share=spec.share)
    except OSError as error:
        plan = make_plan(spec)
        if plan.gpus:  # other clusters would not see that these GPUs are reserved
            raise _lease_error(folder, error) from None
    return plan, None


def _plan(spec: ClusterSpec, folder: LeaseFolder, leases: list[Lease], place: Place | None) -> Plan:
    """Plan with the GPUs that neither another cluster has reserved nor a start waits for that came before."""
    plan = make_plan(spec, leases)
    if not plan.gpus:
        return plan
    before = folder.wanted_before(place, place.gpus if place else _wanted_uuids(spec))
    try:
        return make_plan(spec, [*leases, *before]) if before else plan
    except GpuReservedError:
        raise GpuReservedError("others-wait", waiting=before[0].holder) from None


def _wanted_uuids(spec: ClusterSpec) -> list[str]:
    return [gpu.uuid for gpu in wanted_gpus(spec, gpus.require_gpus())]


def _enter_line(request: Start, folder: LeaseFolder) -> Place:
    spec = request.spec
    try:
        with folder.lock():
            wanted = _wanted_uuids(spec)
            count = {"free": 1, "all": len(wanted)}.get(spec.gpus) if isinstance(spec.gpus, str) else None
            count = count or (spec.gpus if isinstance(spec.gpus, int) else len(wanted))
            return folder.line.enter(
                wanted, share=spec.share, count=count, holder=request.holder, kernel_id=request.kernel_id
            )
    except OSError as error:
        raise _lease_error(folder, error) from None


def _lease_error(folder: LeaseFolder, error: OSError) -> ClusterStartError:
    return ClusterStartError("lease-not-written", folder=folder.place_of(error), error=error.strerror)
