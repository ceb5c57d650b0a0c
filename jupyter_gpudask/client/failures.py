"""The errors of this package in the place of Dask's: for lost results, ended workers, and what cannot be pickled."""

from __future__ import annotations

import logging
import sys
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from dask.base import is_dask_collection
from dask.utils import key_split
from distributed import Client, Future
from distributed.client import FutureCancelledError, FuturesCancelledError, futures_of

from ..errors import PicklingError, ResultPicklingError, ResultsLostError, WorkersEndedError
from ..inspection.user_code import local_variables
from ..scheduler.results import RELEASED
from ..scheduler.workers import exit_of
from .calls import ask_scheduler

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from distributed.scheduler import KilledWorker

    from ..protocol import WorkerExit

_CONNECTION_LOST = "scheduler-connection-lost"
_LOST = {"lost dependencies", _CONNECTION_LOST, RELEASED}
"""The reasons of futures whose results are lost; those of Dask, and that of this package."""

_RESPONSE_TIMEOUT = 5.0
_OF_DISTRIBUTED = "Could not serialize object of type "
_LOGGED = ("Failed to serialize", "Unserializable Message")


def explain_loss(error: BaseException, client: Client) -> ResultsLostError | None:
    """The error to raise if results are lost; `None` if the user cancelled them."""
    end, reasons = _end_of(client), _reasons(error)
    if end:
        return ResultsLostError("cluster-ended", end=end)
    if _CONNECTION_LOST in reasons and client.status != "running":
        return ResultsLostError("scheduler-lost")
    if not _LOST & reasons:
        return None
    needed = dict(_lost_variables(client))
    lost = {name: _end_of(future.client) for name, future in needed.items() if not _is_elsewhere(future, client)}
    if needed and not lost:
        return ResultsLostError("of-other-client", need=_need(needed))
    end = next(filter(None, lost.values()), "")
    return ResultsLostError("results-lost", need=_need(lost), end=end)


def _need(names: Collection[str]) -> str:
    return f"{' and '.join(names) or 'This'} need{'' if len(names) > 1 else 's'}"


def _is_elsewhere(future: Future[Any], client: Client) -> bool:
    """Whether another client has it on a cluster that runs."""
    return future.client is not client and future.client.status == "running" and not future.cancelled()


def _end_of(client: Client) -> str:
    end: str = getattr(client, "end", "")
    return end


def _reasons(error: BaseException) -> set[str]:
    if isinstance(error, FutureCancelledError):
        return {error.reason}
    return {group.reason for group in error.error_groups} if isinstance(error, FuturesCancelledError) else set()


def _lost_variables(client: Client) -> Iterator[tuple[str, Future[Any]]]:
    """The variables that the running code uses, with a future that `client` has lost."""
    seen = set()
    for name, value in _named_variables():
        if name in seen or not (isinstance(value, Future) or is_dask_collection(value)):
            continue
        seen.add(name)
        with suppress(Exception):  # a graph that cannot be built does not show what is lost
            for future in futures_of(value):
                if future.client is not client or future.cancelled():
                    yield name, future
                    break


def _named_variables() -> Iterator[tuple[str, Any]]:
    frame = sys._getframe(1)  # noqa: SLF001
    while frame is not None:
        if frame.f_globals.get("__name__") == "__main__":
            code, variables = frame.f_code, {**frame.f_globals, **local_variables(frame)}
            for name in (*code.co_names, *code.co_varnames, *code.co_freevars):
                if name in variables:
                    yield name, variables[name]
        frame = frame.f_back  # type: ignore[assignment]


def explain_killed_worker(error: KilledWorker, client: Client) -> WorkersEndedError | None:
    """The error to raise instead of Dask's, which counts one worker as several; `None` if the exit is not known."""
    end: WorkerExit | None = None
    with suppress(Exception):  # a cluster that does not respond does not explain it
        end = ask_scheduler(client, exit_of, error.last_worker.pid, limit=_RESPONSE_TIMEOUT)
    if end is None:
        return None
    name, count = key_split(error.task), error.allowed_failures + 1
    return WorkersEndedError(
        "workers-over-memory" if end.over_memory_limit else "workers-ended", task=name, count=count, end=end.reason
    )


def _is_not_raised(record: logging.LogRecord) -> bool:
    """Whether to log a record: Dask logs the whole traceback of an error of pickling before it raises the error."""
    error = record.exc_info[1] if record.exc_info else None
    return not (str(record.msg).startswith(_LOGGED) or _is_of_distributed(error))


for _name in ("protocol.pickle", "protocol.core", "comm.utils"):
    logging.getLogger(f"distributed.{_name}").addFilter(_is_not_raised)


def _is_of_distributed(error: BaseException | None) -> bool:
    return isinstance(error, TypeError) and bool(error.args) and str(error.args[0]).startswith(_OF_DISTRIBUTED)


def explain_pickling(error: BaseException) -> PicklingError | ResultPicklingError | None:
    """The error to raise instead of Dask's, if something cannot be pickled here or on a worker."""
    if not _is_of_distributed(error):
        return None
    # A worker sends the text of its traceback in the place of the result.
    first, *traceback = str(error.args[0]).strip().splitlines()
    if traceback:
        return ResultPicklingError(
            type=first.removeprefix(_OF_DISTRIBUTED), error=traceback[-1].partition(": ")[2].rstrip(".")
        )
    return PicklingError(error=str(error.__cause__).rstrip("."))


@contextmanager
def explain_pickling_errors() -> Iterator[None]:
    """Inside, Dask's error for a graph that cannot be pickled becomes a `PicklingError` that names the graph's part."""
    try:
        yield
    except TypeError as error:
        explained = explain_pickling(error)
        if explained is None:
            raise
        raise explained from None
