"""The Dask client of a kernel."""

from __future__ import annotations

import copy
import time
from concurrent.futures import CancelledError
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

from ..overlay.config_overlay import current_record
from ..overlay.thread_context import in_context_of_cell
from .counting_client import CountingClient
from .lost_results import explain_loss

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..errors import ResultsLostError

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
        func = in_context_of_cell(func)
        try:
            with self.around_waits():
                return super().sync(func, *args, asynchronous=asynchronous, **kwargs)
        except Exception as error:
            loss = self._explain(error)
            free = _without_frames(error, self) if loss is None else None
            if loss is None and free is None:
                raise
        if loss is not None:
            raise loss from None
        assert free is not None
        raise free

    def compute(self, *args: Any, **kwargs: Any) -> Any:
        """As Dask's; in a GPU cell with the cell's ``--to-host``, and refused if the kernel's GPU cannot hold it."""
        __tracebackhide__ = True
        if current_record() is None:
            return super().compute(*args, **kwargs)
        from ..patches.computation import client_compute

        return client_compute(CountingClient.compute, self, *args, **kwargs)

    def persist(self, *args: Any, **kwargs: Any) -> Any:
        """As Dask's; in a GPU cell with all partitions of a frame that its optimizer splits."""
        __tracebackhide__ = True
        if current_record() is None:
            return super().persist(*args, **kwargs)
        from ..patches.computation import client_persist

        return client_persist(CountingClient.persist, self, *args, **kwargs)

    def gather(self, *args: Any, **kwargs: Any) -> Any:
        """As Dask's; in a GPU cell results are refused that the kernel's GPU cannot hold."""
        __tracebackhide__ = True
        if current_record() is None:
            return super().gather(*args, **kwargs)
        from ..patches.result_size import check_what_was_computed

        return check_what_was_computed(CountingClient.gather, self, *args, **kwargs)

    def _explain(self, error: Exception) -> ResultsLostError | None:
        """What happened, if results are lost."""
        is_end = isinstance(error, RuntimeError) and bool(self.end) and self.status == "closed"
        if not (is_end or isinstance(error, CancelledError)):
            return None
        self._await_news()
        return explain_loss(error, self)

    def _await_news(self) -> None:
        """The connection may be lost before it is known why."""
        limit = time.monotonic() + _NEWS_LIMIT
        while self.status != "running" and not self.end and time.monotonic() < limit:
            time.sleep(_POLL)


def _without_frames(error: Exception, client: KernelClient) -> Exception | None:
    """A copy of `error` with its traceback, if Dask keeps the error itself; `None` if not, or if it has no copy.

    A client keeps the error of each future that failed. Raised, that would get the frames which waited, those hold the
    futures, and none of them would ever be released: on the workers the results of a computation that failed would stay
    for good.
    """
    if not any(state.exception is error for state in list(client.futures.values())):
        return None
    try:
        free = copy.copy(error)
    except Exception:  # noqa: BLE001 - the class of the error is anybody's
        return None
    if type(free) is not type(error):
        return None
    traceback = error.__traceback__
    free.__traceback__ = traceback.tb_next if traceback is not None else None  # without the caller, which raises it
    free.__context__, free.__cause__ = error.__context__, error.__cause__
    free.__suppress_context__ = error.__suppress_context__
    error.__traceback__ = error.__context__ = None
    return free
