"""Say in one sentence what cannot be sent to the workers, or from them to the kernel."""

from __future__ import annotations

import logging
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ..errors import PicklingError, ResultPicklingError

if TYPE_CHECKING:
    from collections.abc import Iterator

_OF_DISTRIBUTED = "Could not serialize object of type "
_LOGGED = ("Failed to serialize", "Unserializable Message")


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
def explaining_what_cannot_be_pickled() -> Iterator[None]:
    """Inside, Dask's error for a graph that cannot be pickled names the graph's part.

    Raises
    ------
    PicklingError
        The graph cannot be pickled.
    """
    try:
        yield
    except TypeError as error:
        explained = explain_pickling(error)
        if explained is None:
            raise
        raise explained from None
