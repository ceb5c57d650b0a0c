"""Say in one sentence what of a graph cannot be sent to the workers."""

from __future__ import annotations

import logging
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

from ..errors import PicklingError

if TYPE_CHECKING:
    from collections.abc import Iterator

_OF_DISTRIBUTED = "Could not serialize object of type"

_is_explained: ContextVar[bool] = ContextVar("is_explained", default=False)


def _is_logged(_: logging.LogRecord) -> bool:
    return not _is_explained.get()


logging.getLogger("distributed.protocol.pickle").addFilter(_is_logged)  # it logs the whole traceback before it raises


@contextmanager
def explaining_what_cannot_be_pickled() -> Iterator[None]:
    """Inside, Dask's error for a graph that cannot be pickled names the graph's part, and nothing is logged.

    Raises
    ------
    PicklingError
        The graph cannot be pickled.
    """
    token = _is_explained.set(True)
    try:
        yield
    except TypeError as error:
        if not error.args or not str(error.args[0]).startswith(_OF_DISTRIBUTED):
            raise
        raise PicklingError(str(error.__cause__)) from None
    finally:
        _is_explained.reset(token)
