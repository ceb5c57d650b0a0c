"""The engine with which Polars runs a query, chosen by the cell in which it runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from distributed import default_client
from polars.lazyframe import engine_config
from polars.lazyframe.engine import Engine

from ..inspection.placement import GPU_BACKENDS
from ..overlay import current_overlay
from .cluster_engine import engines

_config: Any = engine_config  # its functions are private, or not exported
_STREAMING = "streaming"
_ON_CPU = ("collect_async", "collect_all_async", "collect_batches")
"""Methods for which Polars does not call an engine for GPUs."""


def _delegate(method: str) -> Callable[..., Any]:
    def call(self: CellEngine, *args: Any, **kwargs: Any) -> Any:
        __tracebackhide__ = True
        return self._call(method, *args, **kwargs)

    call.__name__, call.__doc__ = method, "As the chosen engine does."
    return call


class CellEngine(Engine):
    """In a cell for GPUs, the engine of its cluster; in one on a CPU cluster, Polars' streaming engine.

    Elsewhere Polars chooses, as it does without this engine: in other threads, in callbacks, and after the cell.
    """

    @property
    def name(self) -> str:
        """The name of the engine that Polars would use, of which it makes plans."""
        return str(self._without_gpus().name)

    @property
    def plan_engine(self) -> str:
        """The engine whose plan ``explain`` shows."""
        return str(self._without_gpus().plan_engine)

    def _without_gpus(self) -> Engine:
        is_on_cpu_cluster = current_overlay() is not None and not getattr(default_client(), "is_on_gpus", True)
        name = _STREAMING if is_on_cpu_cluster else _config.get_engine_affinity()
        engine: Engine = _config._engine_from_name(name)  # noqa: SLF001
        return engine

    def _call(self, method: str, *args: Any, **kwargs: Any) -> Any:
        __tracebackhide__ = True
        overlay = current_overlay()
        if overlay is None or overlay.record is None:
            return getattr(self._without_gpus(), method)(*args, **kwargs)
        overlay.record.polars_queries += 1
        if overlay.get("dataframe") not in GPU_BACKENDS:
            return getattr(self._without_gpus(), method)(*args, **kwargs)
        if method in _ON_CPU:
            engines.note_on_cpu(method, "Polars does not call an engine for GPUs.")
            return getattr(_config._engine_from_name(_STREAMING), method)(*args, **kwargs)  # noqa: SLF001
        return engines.run(method, *args, **kwargs)

    collect, execute = _delegate("collect"), _delegate("execute")  # which are abstract in the base class


for _method in ("collect_all", *_ON_CPU, *(name for name in vars(Engine) if name.startswith("sink_"))):
    setattr(CellEngine, _method, _delegate(_method))
