"""Make the cluster's client Dask's default client for one cell."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import dask.config
from distributed import client as distributed_client

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from distributed import Client

_SCHEDULER = "dask.distributed"


class DefaultClient:
    """Counts the cells that compute with a client, and restores Dask's previous default client after the last one.

    `Client.as_current` would suffice for a ``with`` block; a cell with ``await`` starts and ends in different contexts.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._users: list[list[Client]] = []
        self._before: Client | None = None
        self._scheduler: Any = _SCHEDULER
        self._refusing: Callable[..., Any] | None = None

    @contextmanager
    def computing_on(self, client: Client) -> Iterator[None]:
        """Compute collections with `client`, even if the user has set another default client."""
        user = [client]  # compared by identity
        try:
            with self._lock:
                if not self._users:
                    self._before = distributed_client._get_global_client()  # noqa: SLF001
                    self._scheduler = dask.config.get("scheduler", None)
                self._users.append(user)
                self._take(client)
            yield
        finally:
            with self._lock:
                is_counted = any(other is user for other in self._users)
                self._users = [other for other in self._users if other is not user]
                if self._users:
                    self._take(self._users[-1][0])
                elif is_counted:
                    self._give_back(client)

    def refuse(self, client: Client, error: Callable[[], Exception]) -> None:
        """Raise an error where the cells that use a closed client compute: without a client, Dask would use threads.

        Parameters
        ----------
        client
            The client.
        error
            Makes the error.
        """

        def raise_error(*_: Any, **__: Any) -> Any:
            __tracebackhide__ = True
            raise error()

        with self._lock:
            if self._users and self._users[-1][0] is client:
                self._refusing = raise_error
                dask.config.set(scheduler=raise_error)

    def _take(self, client: Client) -> None:
        if distributed_client._get_global_client() is not client:  # noqa: SLF001
            distributed_client._set_global_client(client)  # noqa: SLF001
        if dask.config.get("scheduler", None) != _SCHEDULER:
            dask.config.set(scheduler=_SCHEDULER)

    def _give_back(self, client: Client) -> None:
        before, self._before = self._before, None
        # Keep what the cell itself has set.
        refusing, self._refusing = self._refusing, None
        is_ours = distributed_client._get_global_client() in (client, None)  # noqa: SLF001 - none if it was closed
        has_other = before is not None and before.status == "running" and before is not client
        if has_other and is_ours:
            distributed_client._set_global_client(before)  # noqa: SLF001
        scheduler = dask.config.get("scheduler", None)
        if refusing is not None and scheduler is refusing:
            dask.config.set(scheduler=self._scheduler if has_other or self._scheduler != _SCHEDULER else None)
        elif self._scheduler != _SCHEDULER and scheduler == _SCHEDULER:
            dask.config.set(scheduler=self._scheduler)


default_client = DefaultClient()
"""The instance of this process, which also has one default client."""
