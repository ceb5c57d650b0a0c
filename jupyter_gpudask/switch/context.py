"""Set `array.backend`, `dataframe.backend` and Dask's default client for one cell or ``with`` block."""

from __future__ import annotations

import importlib.util
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import dask.array
import dask.config
from distributed import Client
from distributed import client as distributed_client

from ..device_errors import broken_context, uses_cuda
from ..errors import BackendUnavailableError, BrokenContextError
from ..inspection.placement import GPU_BACKENDS
from ..installation import pip_install
from ..overlay import CellRecord, Overlay
from ..patches.apply import patches
from ..polars.choice import choice

_MODULES = {"cupy": ("cupy",), "cudf": ("cudf", "dask_cudf"), "numpy": (), "pandas": ()}

_SCHEDULER = "dask.distributed"


@contextmanager
def switched_to(array: str, dataframe: str, record: CellRecord | None = None) -> Iterator[None]:
    """Create new arrays with `array` and new dataframes with `dataframe` inside the ``with`` block.

    Code outside of the block does not see the switch. It ends everywhere at once, also in threads and tasks that were
    started inside, and may be left from another context than the one in which it was entered.

    Raises `BackendUnavailableError` if this process cannot use one of them; nothing was switched. Raises
    `BrokenContextError` if the CUDA context of this process is broken; nothing was switched. Raises `PatchError` if a
    patch does not fit the installed version of Dask; nothing was switched.
    """
    check_backends(array, dataframe)
    if {array, dataframe} & GPU_BACKENDS:
        check_context()
    patches.apply("kernel", on_cpu=(array, dataframe) == ("numpy", "pandas"))
    overlay = Overlay({"array": array, "dataframe": dataframe}, record)
    try:
        overlay.enter()
        with choice.by_cell():
            yield
    finally:
        overlay.leave()


def check_context() -> None:
    """Raise `BrokenContextError` if an earlier error has broken the CUDA context of this process."""
    if uses_cuda() and (reason := broken_context(wait=False)):
        raise BrokenContextError("context-of-kernel", error=reason.rstrip(". "))


def check_arrays() -> None:
    """Raise an error if Dask's arrays are expressions: `dask.array` was imported with ``array.query-planning``."""
    if dask.array.ARRAY_EXPR_ENABLED:
        raise BackendUnavailableError("query-planning")


def check_backends(array: str, dataframe: str) -> None:
    """Raise an error if this process cannot use one of the backends: a package is missing, or cudf.pandas."""
    check_arrays()
    missing = [
        module
        for backend in (array, dataframe)
        for module in _MODULES[backend]
        if importlib.util.find_spec(module) is None
    ]
    if missing:
        raise BackendUnavailableError("backend-missing", modules=" and ".join(missing), install=pip_install("cu13"))
    if dataframe == "cudf" and getattr(sys.modules.get("cudf.pandas"), "LOADED", False):
        raise BackendUnavailableError("cudf-pandas")


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

    def refuse(self, client: Client, error: Callable[[], Exception]) -> bool:
        """Raise an error where the cells that use `client` compute; returns whether there are some.

        When it is closed, they have no client, and Dask would use threads.
        """

        def raise_error(*_: Any, **__: Any) -> Any:
            __tracebackhide__ = True
            raise error()

        with self._lock:
            is_used = bool(self._users) and self._users[-1][0] is client
            if is_used:
                self._refusing = raise_error
                dask.config.set(scheduler=raise_error)
            return is_used

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
