"""Make Polars ask the running cell for its engine, once the user has imported Polars."""

from __future__ import annotations

import sys
import threading
import warnings
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from ..patches.apply import ImportWatch

if TYPE_CHECKING:
    from collections.abc import Iterator

    from distributed import Client

_POLARS = "polars"
_ENGINES = "polars.lazyframe.engine_config"


class Choice:
    """Polars' default engine while there are cells: `cell_engine.CellEngine`, unless the user has chosen another one.

    It is the setting of ``polars.Config.set_engine_affinity``, which belongs to the process. Outside of the cells, the
    engine does what Polars does without it.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._cells = 0
        self._has_warned = False
        self._imports = ImportWatch()

    @contextmanager
    def by_cell(self) -> Iterator[None]:
        """Let a cell choose the engine in the ``with`` block."""
        with self._lock:
            self._cells += 1
            if _POLARS not in sys.modules and self._cells == 1:
                self._imports.add(_POLARS, self._set)
        self._set()
        try:
            yield
        finally:
            with self._lock:
                self._cells -= 1
                if not self._cells:
                    self._reset()

    def _set(self) -> None:
        engines = _engines()
        if engines is None and hasattr(sys.modules.get(_POLARS), "LazyFrame"):
            self._warn_of_version()
        with self._lock:
            if engines is None or not self._cells or engines.get_engine_affinity_override() is not None:
                return
            if engines.get_engine_affinity() == "auto":
                from .cell_engine import CellEngine

                engines.set_engine_affinity_override(CellEngine())

    def _warn_of_version(self) -> None:
        from ..errors import BackendUnavailableError
        from ..installation import pip_install

        if not self._has_warned:
            self._has_warned = True
            version, install = sys.modules[_POLARS].__version__, pip_install("polars-cu13")
            warnings.warn(str(BackendUnavailableError("polars-old", version=version, install=install)), stacklevel=4)

    def _reset(self) -> None:
        self._imports.forget([_POLARS])
        engines = _engines()
        if engines is None or "jupyter_gpudask.polars.cell_engine" not in sys.modules:
            return
        from .cell_engine import CellEngine

        if isinstance(engines.get_engine_affinity_override(), CellEngine):
            engines.set_engine_affinity_override(None)


def leave(client: Client) -> None:
    """End the engine of a client that leaves its cluster, or of which `free` releases the memory."""
    module = sys.modules.get("jupyter_gpudask.polars.cluster_engine")
    if module is not None:
        module.engines.shut_down(client)


def kept_bytes(client: Client) -> int | None:
    """The device memory that Polars' engine keeps on the workers of a client, in bytes; `None` without an engine."""
    module = sys.modules.get("jupyter_gpudask.polars.cluster_engine")
    return None if module is None else module.engines.kept_bytes(client)


def _engines() -> Any:
    """Polars' module of the default engine; `None` before Polars is imported, and for a Polars below 1.44."""
    module = sys.modules.get(_ENGINES)
    return module if hasattr(module, "get_engine_affinity") else None


choice = Choice()
"""The instance of this process, which has one default engine of Polars."""
