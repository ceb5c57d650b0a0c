"""The Dask client of a cluster that somebody else started: connect, query, and disconnect without changing it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from distributed.protocol.pickle import dumps

from ..scheduler.joined_client import JoinedClientPlugin, leave, read_joined_state, worker_names
from ..worker.environment import examine_libraries, has_gpu, versions_of
from .connect import connect_to

if TYPE_CHECKING:
    from collections.abc import Sequence

    from distributed import Security

    from ..protocol import JoinedState
    from .kernel_client import KernelClient

__all__ = ["versions_of"]


def connect_joined(address: str, security: Security | None, timeout: float) -> KernelClient:
    """Connect a client, which becomes Dask's default client, and register its plugins.

    Parameters
    ----------
    address, security
        The scheduler, and the credentials; `None` for a protocol without TLS.
    timeout
        Seconds for the connection, and for the plugins.

    Raises
    ------
    OSError
        The connection failed.
    Exception
        Whatever Dask or a worker raises if the plugins cannot be registered; they were removed again.
    """
    client = connect_to(address, security, timeout=timeout)
    client.is_joined = True
    scheduler: Any = client.scheduler
    try:
        # Interrupts, the state and leaving need it: a scheduler that refuses it must not be joined.
        client.sync(client._run_on_scheduler, worker_names, callback_timeout=timeout)  # noqa: SLF001
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


async def read_state(client: KernelClient, start_timeout: float) -> JoinedState:
    """The state of the cluster; to be run in the event loop of the client, as the functions below.

    Parameters
    ----------
    client
        The client.
    start_timeout
        Seconds after which the state says that the cluster has no worker.
    """
    state: JoinedState = await client._run_on_scheduler(read_joined_state, client.id, start_timeout)  # noqa: SLF001
    return state


async def leave_cluster(client: KernelClient) -> None:
    """Release the results of the client, and remove its plugins; it stays connected."""
    await client._run_on_scheduler(leave, client.id)  # noqa: SLF001


async def read_worker_names(client: KernelClient) -> dict[str, str]:
    """The name of each worker, by address."""
    names: dict[str, str] = await client._run_on_scheduler(worker_names)  # noqa: SLF001
    return names


async def worker_log(client: KernelClient, address: str, lines: int) -> str:
    """The last lines of the log that a worker keeps in memory."""
    logs = await _operations(client).worker_logs(n=lines, workers=[address])
    return _text_of(logs.get(address, ()))


async def scheduler_log(client: KernelClient, lines: int) -> str:
    """The last lines of the log that the scheduler keeps in memory."""
    return _text_of(await _operations(client).logs(n=lines))


async def versions_on_workers(
    client: KernelClient, names: Sequence[str], workers: Sequence[str]
) -> dict[str, dict[str, str]]:
    """The versions of libraries on workers, by address and name; empty for one that cannot be imported."""
    return await _run(client, examine_libraries, list(names), workers=list(workers))


async def workers_without_gpu(client: KernelClient, workers: Sequence[str]) -> list[str]:
    """The addresses of those of `workers` that see no GPU."""
    answers = await _run(client, has_gpu, workers=list(workers))
    return [address for address, answer in answers.items() if not answer]


async def _ask_for_gpus(client: KernelClient) -> list[bool]:
    """Whether each worker has a GPU, without those that have ended; raises the error of one that refuses the question.

    A worker that has not answered must not count as one without a GPU, with which cells would run on the CPU.
    """
    answers = await client._run(has_gpu, on_error="return")  # noqa: SLF001
    errors = [answer for answer in answers.values() if isinstance(answer, Exception)]
    refused = [error for error in errors if not isinstance(error, OSError)]
    if refused:
        raise refused[0]
    return [answer for answer in answers.values() if not isinstance(answer, Exception)]


async def _run(client: KernelClient, function: Any, *args: Any, **options: Any) -> dict[str, Any]:
    # Not `Client.run`, which has no timeout.
    answers: dict[str, Any] = await client._run(function, *args, on_error="ignore", **options)  # noqa: SLF001
    return answers


def _operations(client: KernelClient) -> Any:
    return client.scheduler


def _text_of(log: Any) -> str:
    """A log as Dask sends it, pairs of a level and a text with the newest first, as lines."""
    return "\n".join(text for _, text in reversed(log))
