"""Choose the GPUs of a new cluster and take the lease on them, at once or after waiting in the queue."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from ...errors import ClusterStartError, GpuHeldError
from ...machine import gpus
from ...machine.leases import LeaseFolder, leases_of_others
from ...machine.plan import check_gpus_of_user, check_pool_fits, make_plan, wanted_gpus
from .scaling import check_limit, check_workers

if TYPE_CHECKING:
    from collections.abc import Callable

    from ...machine.leases import HeldLease, Lease
    from ...machine.plan import Plan
    from ...machine.waiting_line import Place
    from ...protocol import ClusterSpec, Start

_INTERVAL = 0.5


async def plan_and_lease(request: Start, on_wait: Callable[[str], None]) -> tuple[Plan, HeldLease | None]:
    """Plan the cluster of a request, and take the lease on its GPUs.

    Parameters
    ----------
    request
        The request; with ``wait`` it stands in line while others hold the GPUs, and leaves the line if cancelled.
    on_wait
        Called with a sentence on its place in the line, whenever that changes.

    Raises
    ------
    GpuHeldError, GpuUnavailableError, GpuPackagesMissingError, LimitError
        A cluster with these options is not possible.
    ClusterStartError
        The lease cannot be written.
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
            except GpuHeldError as error:
                place = place or _enter_line(request, folder)
                number = len(folder.line.before(place, place.gpus)) + 1
                sentence = f"Waiting for GPUs at place {number} in line. {error.reason}"
                if sentence != said:
                    on_wait(said := sentence)
            await asyncio.sleep(_INTERVAL)
    finally:
        if place is not None:
            place.leave()


def _try(request: Start, folder: LeaseFolder, place: Place | None) -> tuple[Plan, HeldLease | None]:
    spec = request.spec
    try:
        with folder.locked() as leases:
            plan = _plan(spec, folder, leases_of_others(leases, request.kernel_id), place)
            check_limit(plan.workers, request.max_workers)
            if spec.adapt is not None:
                check_workers(spec.adapt[1], len(plan.gpus), request.max_workers)
            check_gpus_of_user(plan.gpus, folder, request.max_gpus)
            check_pool_fits(plan)
            if not plan.gpus:
                return plan, None
            uuids = [gpu.uuid for gpu in plan.gpus]
            return plan, folder.take(uuids, holder=request.holder, kernel_id=request.kernel_id, share=spec.share)
    except OSError as error:
        plan = make_plan(spec)
        if plan.gpus:  # other clusters would not see that these GPUs are held
            raise _not_written(folder, error) from None
    return plan, None


def _plan(spec: ClusterSpec, folder: LeaseFolder, leases: list[Lease], place: Place | None) -> Plan:
    """Plan with the GPUs that neither another cluster holds nor a start waits for that came before."""
    plan = make_plan(spec, leases)
    if not plan.gpus:
        return plan
    before = folder.wanted_before(place, place.gpus if place else _wanted(spec))
    try:
        return make_plan(spec, [*leases, *before]) if before else plan
    except GpuHeldError:
        raise GpuHeldError("others-wait", waiting=before[0].holder) from None


def _wanted(spec: ClusterSpec) -> list[str]:
    return [gpu.uuid for gpu in wanted_gpus(spec, gpus.require_gpus())]


def _enter_line(request: Start, folder: LeaseFolder) -> Place:
    spec = request.spec
    try:
        with folder.locked():
            wanted = _wanted(spec)
            count = {"free": 1, "all": len(wanted)}.get(spec.gpus) if isinstance(spec.gpus, str) else None
            count = count or (spec.gpus if isinstance(spec.gpus, int) else len(wanted))
            return folder.line.enter(wanted, share=spec.share, count=count)
    except OSError as error:
        raise _not_written(folder, error) from None


def _not_written(folder: LeaseFolder, error: OSError) -> ClusterStartError:
    return ClusterStartError("lease-not-written", folder=folder.place_of(error), error=error.strerror)
