"""The Dask client of a kernel."""

from __future__ import annotations

import time
from concurrent.futures import CancelledError
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

from .counting_client import CountingClient
from .lost import explain_loss

if TYPE_CHECKING:
    from collections.abc import Callable

_NEWS_LIMIT = 2.0
_POLL = 0.05


class KernelClient(CountingClient):
    """A client that says in one sentence what happened to results that are lost.

    Attributes
    ----------
    end
        What happened to its cluster, as a sentence; empty while it is there.
    around_waits
        Makes a context for each time that somebody waits for the cluster.
    """

    end: str = ""
    around_waits: Callable[[], AbstractContextManager[None]] = staticmethod(nullcontext)

    def sync(self, func: Any, *args: Any, asynchronous: bool | None = None, **kwargs: Any) -> Any:
        """As Dask's; everything that blocks until the cluster answers passes here.

        Raises
        ------
        ResultsLostError
            What was waited for is no longer there.
        """
        __tracebackhide__ = True
        if self.asynchronous if asynchronous is None else asynchronous:
            return super().sync(func, *args, asynchronous=asynchronous, **kwargs)
        try:
            with self.around_waits():
                return super().sync(func, *args, asynchronous=asynchronous, **kwargs)
        except (CancelledError, RuntimeError) as error:
            if isinstance(error, RuntimeError) and not (self.end and self.status == "closed"):
                raise
            self._await_news()
            loss = explain_loss(error, self)
            if loss is None:
                raise
        raise loss from None

    def _await_news(self) -> None:
        """The connection may be lost before it is known why."""
        limit = time.monotonic() + _NEWS_LIMIT
        while self.status != "running" and not self.end and time.monotonic() < limit:
            time.sleep(_POLL)
