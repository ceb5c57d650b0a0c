"""A Dask client that submits a graph only after the workers have answered what they were asked before."""

from __future__ import annotations

from concurrent.futures import wait
from typing import TYPE_CHECKING, Any

from distributed.utils import in_async_call

from .counting_client import CountingClient

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Future

_LIMIT = 0.1


class WaitingClient(CountingClient):
    """A `distributed.Client` whose next graph waits for calls; code that submits no graph does not wait."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._first: dict[Future[Any], Callable[[], None]] = {}
        super().__init__(*args, **kwargs)

    def answer_first(self, call: Future[Any], on_late: Callable[[], None]) -> None:
        """Submit no graph before `call` is done; the first one waits a tenth of a second at most.

        Parameters
        ----------
        call
            Of this client to the scheduler or to workers.
        on_late
            Called before a graph is submitted without the answer.
        """
        self._first = {other: late for other, late in self._first.items() if not other.done()}
        self._first[call] = on_late

    def _graph_to_futures(self, *args: Any, **kwargs: Any) -> Any:
        if self._first:
            self._wait_for_answers()
        return super()._graph_to_futures(*args, **kwargs)

    def _wait_for_answers(self) -> None:
        first = dict(self._first)
        # In the event loop, which receives the answers, waiting would be in vain.
        _, late = wait(first, 0 if in_async_call(self.loop) else _LIMIT)
        for call in late:
            first[call]()
        for call in first:
            self._first.pop(call, None)
