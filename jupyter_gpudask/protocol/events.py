"""Reading what a supervisor sends: its events, and what they tell of."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .. import errors
from ..errors import ClusterStartError, GpuDaskError, LoggedError, ProtocolError
from . import parse_event

if TYPE_CHECKING:
    import asyncio

    from . import Event, Failed


class EndlessLineError(ProtocolError):
    """A line is longer than any message; nothing after it can be told apart."""

    def __init__(self) -> None:
        super().__init__("The cluster's process sent a line without end.")


async def read_event(reader: asyncio.StreamReader) -> Event | None:
    """The next event, or `None` when there are no more.

    Raises
    ------
    EndlessLineError, ProtocolError
        What comes is no event.
    """
    try:
        line = await reader.readline()
    except ValueError:
        raise EndlessLineError from None
    except ConnectionError:
        return None
    return parse_event(line) if line else None


def error_of(failure: Failed) -> GpuDaskError:
    """The exception of `errors` that `failure` tells of."""
    kind = getattr(errors, failure.kind, ClusterStartError)
    if not (isinstance(kind, type) and issubclass(kind, GpuDaskError)):
        kind = ClusterStartError
    if issubclass(kind, LoggedError):
        return kind(failure.reason, failure.fix, failure.log)
    error: GpuDaskError = kind.__new__(kind)
    GpuDaskError.__init__(error, failure.reason, failure.fix)
    return error
