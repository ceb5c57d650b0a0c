"""The interface through which a kernel uses a cluster, whoever started it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..protocol import ClusterSpec, ClusterState, Ready


class ClusterControl(Protocol):
    """The control of one cluster: over its supervisor, or over the client of a scheduler that somebody else started.

    Attributes
    ----------
    ready
        Engine, address, credentials, dashboard and GPUs of the cluster.
    spec
        Its options.
    """

    ready: Ready
    spec: ClusterSpec

    @property
    def is_owned(self) -> bool:
        """Whether this kernel or its server started the cluster: only then it is scaled, restarted and closed."""

    @property
    def running(self) -> bool:
        """Whether it responds, as far as is known."""

    async def state(self) -> ClusterState:
        """The current state; raises `ClusterLostError` if the cluster does not respond."""

    async def scale(self, workers: int) -> ClusterState:
        """Scale to `workers` workers; raises `NotOwnedError` if the cluster cannot do that."""

    async def adapt(self, minimum: int, maximum: int) -> ClusterState:
        """Let the number of workers follow the work; raises `NotOwnedError` if the cluster cannot do that."""

    async def check_libraries(self, names: Sequence[str]) -> None:
        """Raise `BackendUnavailableError` unless each worker has these libraries in the kernel's version."""

    async def worker_log(self, worker: str, lines: int = 50) -> str:
        """The last lines of the log of a worker."""

    def log(self, lines: int = 200) -> str:
        """The last lines of the log of the supervisor, or of the scheduler."""

    async def report_automatic(self, *, on: bool) -> None:
        """Report whether every cell runs as if ``%%gpudask`` stood above it, to a server that shows it."""

    async def report_cell(self, fallback_blocks: int) -> None:
        """Report that a cell has ended, to a server that counts cells; see `ReportCell`."""

    async def keep(self) -> str:
        """Keep the GPUs that somebody waits for; who waits, empty without a notice. `NotOwnedError` if not ours."""

    async def leave(self) -> None:
        """Remove what this kernel has added to a cluster that keeps running; called before the client is closed."""

    async def close(self) -> None:
        """Close the cluster if this kernel owns it; called after the client was closed."""
