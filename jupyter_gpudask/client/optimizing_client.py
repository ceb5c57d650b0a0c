"""A Dask client whose graphs of arrays are optimized by `graph` where they are materialized."""

from __future__ import annotations

from typing import Any

from ..graph.optimize import ArrayOptimizer, with_optimizer
from ..graph.subtrees import ClusterSize
from .fallback_client import FallbackClient


class OptimizingClient(FallbackClient):
    """A `distributed.Client` that sends graphs of arrays with an optimizer in the place of Dask's.

    Attributes
    ----------
    optimizes
        Whether it does; without it, Dask's own optimization is the only one.
    is_on_gpus
        Whether the workers of its cluster have GPUs.
    """

    optimizes: bool = True
    is_on_gpus: bool = False

    def _graph_to_futures(self, expr: Any, *args: Any, **kwargs: Any) -> Any:
        if self.optimizes:
            expr = with_optimizer(expr, ArrayOptimizer(self._size(), self.is_on_gpus))
        return super()._graph_to_futures(expr, *args, **kwargs)

    def _size(self) -> ClusterSize:
        """As the scheduler said some seconds ago at most."""
        identity = self._scheduler_identity
        return ClusterSize(identity.get("n_workers", 1), identity.get("total_threads", 1))
