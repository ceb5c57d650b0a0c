"""Connect a Dask client to a running cluster."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import TYPE_CHECKING, Any

from distributed import Security
from distributed.client import AllExit
from distributed.protocol.pickle import dumps

from ..scheduler.settings import SchedulerPathPlugin, shorten_logs
from ..worker.preload import PATH_PLUGIN, PathPlugin
from .kernel_client import KernelClient, reconnecting

if TYPE_CHECKING:
    from collections.abc import Sequence

    from distributed import Client

    from ..protocol import Ready

_RESPONSE_TIMEOUT = 3.0


def connect(ready: Ready, *, set_as_default: bool = True, timeout: float = 30.0) -> KernelClient:
    """Connect a client with the credentials of the cluster.

    Parameters
    ----------
    ready
        The event with which the supervisor reported the cluster.
    set_as_default
        Whether the client becomes Dask's default client.
    timeout
        Seconds for the first connection.
    """
    credentials = ready.credentials
    security = None
    if credentials is not None:
        security = Security(
            require_encryption=True,
            tls_ca_file=credentials.ca,
            tls_client_cert=credentials.certificate,
            tls_client_key=credentials.key,
        )
    client = connect_to(ready.address, security, set_as_default=set_as_default, timeout=timeout)
    client.dashboard = ready.dashboard_link
    client.is_on_gpus = ready.engine == "cuda"
    client.device_memory = min((gpu.memory_total or 0 for gpu in ready.gpus), default=0)
    return client


def connect_to(
    address: str, security: Security | None, *, set_as_default: bool = True, timeout: float = 30.0
) -> KernelClient:
    """Connect a client to the scheduler at `address`; `security` is `None` for a protocol without TLS."""
    if address.startswith("gateway://"):
        import dask_gateway  # noqa: F401 - it registers the protocol
    logging.getLogger("distributed.client").addFilter(_is_error)
    with shorten_logs():
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
            name=PATH_PLUGIN,
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
