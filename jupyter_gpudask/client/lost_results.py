"""Explain which of the user's variables need lost results."""

from __future__ import annotations

import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from dask.base import is_dask_collection
from distributed import Client, Future
from distributed.client import FutureCancelledError, FuturesCancelledError, futures_of

from ..errors import ResultsLostError
from ..inspection.local_variables import local_variables
from ..scheduler.results import RELEASED

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

_CONNECTION_LOST = "scheduler-connection-lost"
_LOST = {"lost dependencies", _CONNECTION_LOST, RELEASED}
"""The reasons of futures whose results are lost; those of Dask, and that of this package."""


def explain_loss(error: BaseException, client: Client) -> ResultsLostError | None:
    """The error to raise if results are lost; `None` if the user cancelled them."""
    end, reasons = _end_of(client), _reasons(error)
    if end:
        return cluster_ended(end)
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


def cluster_ended(end: str) -> ResultsLostError:
    """The error of code that needs a cluster which has ended."""
    return ResultsLostError("cluster-ended", end=end)


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
