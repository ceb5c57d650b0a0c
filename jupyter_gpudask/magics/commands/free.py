"""``%gpudask free``: release unused device memory in the kernel and the workers."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Any

from ...quantities import format_bytes
from ..views.base import View

if TYPE_CHECKING:
    from ...protocol import WorkerState
    from ...session.running_cluster import RunningCluster
    from ...session.session import Session

_RESPONSE_TIMEOUT = 20.0


class FreeView(View):
    """How much device memory was released, and how much is still in use.

    Attributes
    ----------
    freed
        Released bytes, by GPU of a worker, and for the kernel.
    """

    def __init__(self, freed: dict[str, int], workers: tuple[WorkerState, ...], *, pool: bool) -> None:
        self.freed = freed
        self._workers = workers
        self._pool = pool

    def __str__(self) -> str:
        lines = [f"{format_bytes(sum(self.freed.values()))} of device memory freed."]
        lines += [f"  {name}: {format_bytes(freed)}" for name, freed in self.freed.items() if freed]
        in_use = sum(worker.pool_used or 0 for worker in self._workers)
        if in_use:
            lines.append(
                f"{format_bytes(in_use)} is in use by results on the workers. "
                "To see which variables hold them, type: %gpudask held"
            )
        if self._pool:
            lines.append("The pool stays reserved. To release it, type: %gpudask restart --pool none")
        return "\n".join(lines)

    def to_html(self) -> str:
        """The lines, with their indentation."""
        return f'<div style="white-space: pre-wrap">{escape(str(self))}</div>'


def free(session: Session) -> FreeView:
    """Release unused device memory in the workers and in the kernel."""
    from ...gpu_libraries.free_memory import release_memory

    cluster: RunningCluster | None = session.cluster
    freed: dict[str, int] = {}
    workers: tuple[WorkerState, ...] = ()
    if cluster is not None and cluster.ready.engine == "cuda":
        addresses = {worker: str(name) for worker, name in cluster.run_on_workers(_name_of, _RESPONSE_TIMEOUT).items()}
        released = cluster.run_on_workers(release_memory, _RESPONSE_TIMEOUT)
        workers = session.state().workers
        sizes = {addresses.get(address, address): size for address, size in released.items()}
        has_hosts = not cluster.is_owned or len({worker.host for worker in workers}) > 1
        for worker in workers:  # several workers of somebody else may share a GPU
            gpu = f"{worker.host} GPU {worker.gpu_index}" if has_hosts else f"GPU {worker.gpu_index}"
            freed[gpu] = freed.get(gpu, 0) + sizes.get(worker.name, 0)
    freed["kernel"] = release_memory()
    return FreeView(freed, workers, pool=cluster is not None and cluster.spec.pool is not None)


def _name_of(dask_worker: Any) -> str:
    return str(dask_worker.name)
