"""A Dask client whose graphs run operations on the host that CuPy or cuDF lack."""

from __future__ import annotations

from typing import Any

from dask._expr import LLGExpr

from ..fallback.graph import WithFallback
from ..fallback.log import TOPIC, fallback_log
from ..overlay.config_overlay import current_record
from .counting_client import CountingClient


class FallbackClient(CountingClient):
    """A `distributed.Client` that submits graphs with the fallback of the running cell."""

    _receives_fallbacks = False

    def _graph_to_futures(self, expr: Any, *args: Any, **kwargs: Any) -> Any:
        record = current_record()
        if record is None or not record.watches or isinstance(expr, LLGExpr):
            return super()._graph_to_futures(expr, *args, **kwargs)
        if not self._receives_fallbacks:
            self._receives_fallbacks = True
            self.subscribe_topic(TOPIC, fallback_log.on_event)
        fallback_log.note_cell(record.id)
        expr = WithFallback(expr, cell=record.id, refuse=record.fallback == "strict")
        return super()._graph_to_futures(expr, *args, **kwargs)
