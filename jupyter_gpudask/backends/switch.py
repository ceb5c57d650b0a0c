"""Dask's `array.backend` and `dataframe.backend`, switched for a while and always switched back."""

from __future__ import annotations

import importlib.util
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

import dask.config

from ..errors import BackendUnavailableError

if TYPE_CHECKING:
    from collections.abc import Iterator

_MODULES = {"cupy": ("cupy",), "cudf": ("cudf", "dask_cudf"), "numpy": (), "pandas": ()}


class BackendSwitch:
    """Counts who has the backends switched, and restores what was there before when the last one is done.

    Dask keeps its configuration in one dictionary for the whole process. Entering and leaving it in any other order
    than that of a stack would leave it switched for ever with `dask.config.set` alone; here the order does not matter.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._users: list[dict[str, str]] = []
        self._before: dict[str, str | None] = {}

    @property
    def on(self) -> bool:
        """Whether somebody has the backends switched."""
        return bool(self._users)

    @contextmanager
    def to(self, array: str, dataframe: str, *, scheduler: str | None = None) -> Iterator[None]:
        """Have new arrays made of `array` and new dataframes of `dataframe` inside the ``with``.

        Parameters
        ----------
        array
            ``"cupy"`` or ``"numpy"``.
        dataframe
            ``"cudf"`` or ``"pandas"``.
        scheduler
            What Dask computes with meanwhile, such as ``"dask.distributed"``; `None` leaves it as it is.

        Raises
        ------
        BackendUnavailableError
            This process cannot use one of them; nothing was switched.
        """
        check_backends(array, dataframe)
        if array != "numpy" or dataframe != "pandas":
            from .install import install_backends

            install_backends()
        user = {"array.backend": array, "dataframe.backend": dataframe}
        if scheduler not in (None, dask.config.get("scheduler", None)):  # what is not changed is not restored either
            user["scheduler"] = str(scheduler)
        with self._lock:
            if not self._users:
                self._before = {}
            for name in user:
                self._before.setdefault(name, dask.config.get(name, None))
            self._users.append(user)
            dask.config.set(user)
        try:
            yield
        finally:
            with self._lock:
                self._users = [other for other in self._users if other is not user]
                dask.config.set(self._before | (self._users[-1] if self._users else {}))


switch = BackendSwitch()
"""The one of this process, as Dask's configuration is one."""


def check_backends(array: str, dataframe: str) -> None:
    """See that both backends can be used in this process.

    Raises
    ------
    BackendUnavailableError
        A package is missing, or Dask would ignore the switch.
    """
    missing = [
        module
        for backend in (array, dataframe)
        for module in _MODULES[backend]
        if importlib.util.find_spec(module) is None
    ]
    if missing:
        raise BackendUnavailableError(
            f"This kernel cannot import {' and '.join(missing)}, which the cell needs.",
            'Type: %pip install "jupyter_gpudask[cu13]" (cu12 for CUDA 12) and restart the kernel.',
        )
    if array != "numpy" and dask.config.get("array.query-planning", False):
        raise BackendUnavailableError(
            "Dask ignores the array backend while array.query-planning is on.",
            'Type: dask.config.set({"array.query-planning": False}) before dask.array is imported.',
        )
