"""Make Polars ask the running cell for its engine, once the user has imported Polars."""

from __future__ import annotations

import sys
import threading
import warnings
from contextlib import contextmanager
from importlib.abc import MetaPathFinder
from importlib.machinery import PathFinder
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType

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
        self._finder = _WhenImported(self._set)

    @contextmanager
    def by_cell(self) -> Iterator[None]:
        """Let a cell choose the engine in the ``with`` block."""
        with self._lock:
            self._cells += 1
            if _POLARS not in sys.modules and self._cells == 1:
                sys.meta_path.insert(0, self._finder)
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
        if self._finder in sys.meta_path:
            sys.meta_path.remove(self._finder)
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


class _WhenImported(MetaPathFinder):
    """Calls a function after the first import of Polars."""

    def __init__(self, function: Any) -> None:
        self._function = function

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The spec of Polars with a loader that calls the function at its end."""
        if fullname != _POLARS:
            return None
        if self in sys.meta_path:
            sys.meta_path.remove(self)
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is not None and spec.loader is not None:
            loader: Any = spec.loader  # an instance for this module alone
            execute = loader.exec_module

            def execute_and_call(module: ModuleType) -> None:
                execute(module)
                self._function()

            loader.exec_module = execute_and_call
        return spec


choice = Choice()
"""The instance of this process, which has one default engine of Polars."""
