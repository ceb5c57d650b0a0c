"""What all Dask clusters of supervisors have in common, wherever their schedulers run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...protocol import TlsCredentials
from ...scheduler.results import release_results
from .reset import reset

if TYPE_CHECKING:
    from collections.abc import Callable


class SupervisedCluster:
    """A Dask cluster; a class overrides what its clusters have: a lease on GPUs, clients to wait for."""

    _cluster: Any = None

    async def on_scheduler(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Call a function in the process of the scheduler, which it gets as ``dask_scheduler``."""
        raise NotImplementedError

    async def reset(self) -> None:
        """Delete every result, task, actor and named object, and keep the workers."""
        await self.on_scheduler(reset)

    async def release(self) -> None:
        """Release the finished results that clients hold; unfinished tasks go on."""
        await self.on_scheduler(release_results)

    def rename(self, holder: str) -> None:
        """Change the name under which the GPUs are held."""

    async def wait_for_clients(self, limit: float) -> None:
        """Wait at most `limit` seconds until the clients have left."""

    async def close(self, grace: float) -> None:
        """Stop the cluster; raises if that takes longer than `grace` seconds."""
        raise NotImplementedError

    async def abandon(self, grace: float) -> None:
        """Stop what is not killed with this process; raises if that takes longer than `grace` seconds."""
        await self.close(grace)

    def end(self, reason: str) -> None:
        """Remove what is left after all processes have ended; the record of the use of GPUs has the reason."""

    def _credentials(self) -> TlsCredentials | None:
        security: Any = getattr(self._cluster, "security", None)  # clusters of Kubernetes have none
        if hasattr(security, "tls_cert"):  # of dask-gateway: one certificate, which has signed itself, for all sides
            return TlsCredentials(ca=security.tls_cert, certificate=security.tls_cert, key=security.tls_key)
        if not getattr(security, "tls_client_cert", None):
            return None
        ca, certificate, key = security.tls_ca_file, security.tls_client_cert, security.tls_client_key
        return TlsCredentials(ca=ca, certificate=certificate, key=key)
