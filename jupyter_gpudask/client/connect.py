"""A Dask client for a cluster that is up."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import TYPE_CHECKING, Any

from distributed import Security
from distributed.client import AllExit
from distributed.protocol.pickle import dumps

from ..scheduler.import_path import SchedulerPathPlugin
from ..scheduler.log_lengths import shorten_logs
from ..worker.preload import PATH_PLUGIN, PathPlugin
from .kernel_client import KernelClient

if TYPE_CHECKING:
    from collections.abc import Sequence

    from distributed import Client

    from ..protocol import Ready

_ANSWER_LIMIT = 3.0


def connect(ready: Ready, *, set_as_default: bool = True, timeout: float = 30.0) -> KernelClient:
    """A client of the cluster, with its credentials.

    Parameters
    ----------
    ready
        What the supervisor said when the cluster was up.
    set_as_default
        Whether Dask's collections compute on it from now on.
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
    logging.getLogger("distributed.client").addFilter(_is_trouble)
    with shorten_logs():
        client = KernelClient(ready.address, security=security, set_as_default=set_as_default, timeout=timeout)
    loop: Any = client.loop
    loop.asyncio_loop.set_exception_handler(_handle_loop_exception)
    return client


def import_from(client: Client, path: Sequence[str]) -> None:
    """Have the workers, also those to come, import modules from the folders of `path` before any others.

    The scheduler imports from there what it does not have itself. A worker that does not answer within some seconds
    does so when it can.
    """
    scheduler: Any = client.scheduler
    with contextlib.suppress(OSError, TimeoutError):
        client.sync(
            scheduler.register_scheduler_plugin,
            plugin=dumps(SchedulerPathPlugin(path)),
            idempotent=True,
            callback_timeout=_ANSWER_LIMIT,
        )
        client.sync(
            scheduler.register_worker_plugin,
            plugin=dumps(PathPlugin(path)),
            name=PATH_PLUGIN,
            idempotent=False,
            callback_timeout=_ANSWER_LIMIT,
        )


def _is_trouble(record: logging.LogRecord) -> bool:
    """Whether something went wrong: a client that is closed while it tries to connect again logs that as an error."""
    return not (record.exc_info and isinstance(record.exc_info[1], asyncio.CancelledError))


def _handle_loop_exception(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Say nothing of the tasks of Dask's that waited for a result which was cancelled; report all else."""
    if not isinstance(context.get("exception"), AllExit):
        loop.default_exception_handler(context)
