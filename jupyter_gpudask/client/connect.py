"""Connect a Dask client to a running cluster, of this kernel or of somebody else."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Sequence
from typing import Any

from distributed import Client, Security
from distributed.client import AllExit
from distributed.protocol.pickle import dumps

from ..protocol.messages import Ready
from ..protocol.state import ClusterState, TlsCredentials
from ..scheduler.joined_client import JoinedClientPlugin, dashboard_token, leave, read_joined_state
from ..scheduler.settings import SchedulerPathPlugin, record_less
from ..scheduler.workers import worker_addresses
from ..worker.imports import PathPlugin
from ..worker.joined import examine_libraries, has_gpu, read_log_file, versions_of
from .kernel_client import KernelClient, reconnecting

_RESPONSE_TIMEOUT = 3.0


def connect(ready: Ready, *, set_as_default: bool = True, timeout: float = 30.0) -> KernelClient:
    """Connect a client with the credentials of the cluster."""
    security = None if ready.credentials is None else security_of(ready.credentials)
    client = connect_to(ready.address, security, set_as_default=set_as_default, timeout=timeout)
    client.dashboard = ready.dashboard_link
    client.is_on_gpus = ready.has_gpus
    client.device_memory = min((gpu.memory_total or 0 for gpu in ready.gpus), default=0)
    return client


def security_of(credentials: TlsCredentials) -> Security:
    """Credentials, as Dask takes them."""
    return Security(
        require_encryption=True,
        tls_ca_file=credentials.ca,
        tls_client_cert=credentials.certificate,
        tls_client_key=credentials.key,
    )


def connect_to(
    address: str, security: Security | None, *, set_as_default: bool = True, timeout: float = 30.0
) -> KernelClient:
    """Connect a client to the scheduler at `address`; `security` is `None` for a protocol without TLS."""
    if address.startswith("gateway://"):
        import dask_gateway  # noqa: F401 - it registers the protocol
    logging.getLogger("distributed.client").addFilter(_is_error)
    with record_less():
        client = KernelClient(address, security=security, set_as_default=set_as_default, timeout=timeout)
    loop: Any = client.loop
    loop.asyncio_loop.set_exception_handler(_handle_loop_exception)
    return client


def import_from(client: Client, path: Sequence[str]) -> None:
    """Put the folders of `path` at the front of the import path of all current and future workers.

    On the scheduler they are added at the end. A worker that does not respond in time does it later.
    """
    scheduler: Any = client.scheduler
    with contextlib.suppress(OSError, TimeoutError):
        client.sync(
            scheduler.register_scheduler_plugin,
            plugin=dumps(SchedulerPathPlugin(path)),
            idempotent=True,
            callback_timeout=_RESPONSE_TIMEOUT,
        )
        client.sync(
            scheduler.register_worker_plugin,
            plugin=dumps(PathPlugin(path)),
            name=PathPlugin.name,
            idempotent=False,
            callback_timeout=_RESPONSE_TIMEOUT,
        )


def _is_error(record: logging.LogRecord) -> bool:
    """Whether to log a record; a client that is closed while it reconnects logs errors that are none."""
    if record.exc_info and isinstance(record.exc_info[1], asyncio.CancelledError):
        return False
    client = reconnecting.get()
    is_closed = client is not None and client.status != "connecting"
    return not (is_closed and str(record.msg).startswith("Failed to reconnect"))


def _handle_loop_exception(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Report exceptions, except of Dask's tasks that waited for a cancelled result."""
    if not isinstance(context.get("exception"), AllExit):
        loop.default_exception_handler(context)


__all__ = ["versions_of"]


def connect_joined(address: str, security: Security | None, timeout: float) -> KernelClient:
    """Connect a client, which becomes Dask's default client, and register its plugins.

    Raises `OSError` if the connection failed. Raises whatever Dask or a worker raises if the plugins cannot be
    registered; they were removed again.
    """
    client = connect_to(address, security, timeout=timeout)
    client.is_joined = True
    scheduler: Any = client.scheduler
    try:
        # Interrupts, the state and leaving need it: a scheduler that refuses it must not be joined.
        ask = client._run_on_scheduler  # noqa: SLF001
        client.dashboard_token = client.sync(ask, dashboard_token, callback_timeout=timeout)
        client.sync(
            scheduler.register_scheduler_plugin,
            plugin=dumps(JoinedClientPlugin(client.id)),
            idempotent=False,
            callback_timeout=timeout,
        )
        client.is_on_gpus = any(client.sync(_ask_for_gpus, client, callback_timeout=timeout))
    except BaseException:
        client.close(timeout=2)
        raise
    return client


async def read_state(client: KernelClient, start_timeout: float) -> ClusterState:
    """The state of the cluster; to be run in the event loop of the client, as the functions below."""
    state: ClusterState = await client._run_on_scheduler(read_joined_state, client.id, start_timeout)  # noqa: SLF001
    return state


async def leave_cluster(client: KernelClient) -> None:
    """Release the results of the client, and remove its plugins; it stays connected."""
    await client._run_on_scheduler(leave, client.id)  # noqa: SLF001


async def read_addresses(client: KernelClient) -> dict[str, str]:
    """The addresses of the workers, by name."""
    addresses: dict[str, str] = await client._run_on_scheduler(worker_addresses)  # noqa: SLF001
    return addresses


async def worker_log(client: KernelClient, address: str, lines: int) -> str:
    """The last lines of the log file of a worker, else of the log that it keeps in memory, as the scheduler does.

    `address`: that of the worker; empty for the scheduler.
    """
    scheduler: Any = client.scheduler
    if address:
        found = await client._run(read_log_file, lines, workers=[address], on_error="ignore")  # noqa: SLF001
        if text := found.get(address, ""):
            return str(text)
    logs = (
        {"": await scheduler.logs(n=lines)} if not address else await scheduler.worker_logs(n=lines, workers=[address])
    )
    return "\n".join(text for _, text in reversed(logs.get(address, ())))  # Dask sends the newest first


async def versions_on_workers(
    client: KernelClient, names: Sequence[str], workers: Sequence[str]
) -> dict[str, dict[str, str]]:
    """The versions of libraries on workers, by address and name; empty for one that cannot be imported."""
    # Not `Client.run`, which has no timeout.
    run: Any = client._run  # noqa: SLF001
    return await run(examine_libraries, list(names), on_error="ignore", workers=list(workers))  # type: ignore[no-any-return]


async def workers_without_gpu(client: KernelClient, workers: Sequence[str]) -> list[str]:
    """The addresses of those of `workers` that see no GPU."""
    answers = await client._run(has_gpu, on_error="ignore", workers=list(workers))  # noqa: SLF001
    return [address for address, answer in answers.items() if not answer]


async def _ask_for_gpus(client: KernelClient) -> list[bool]:
    """Whether each worker has a GPU, without those that have ended; raises the error of one that refuses the question.

    A worker that has not answered must not count as one without a GPU, with which cells would run on the CPU.
    """
    answers = list((await client._run(has_gpu, on_error="return")).values())  # noqa: SLF001
    for answer in answers:
        if isinstance(answer, Exception) and not isinstance(answer, OSError):
            raise answer
    return [answer for answer in answers if not isinstance(answer, Exception)]
