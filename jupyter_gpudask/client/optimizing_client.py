"""A Dask client whose graphs of arrays are optimized by `graph` where they are materialized."""

from __future__ import annotations

from typing import Any

import dask.config

from ..graph.optimize import ArrayOptimizer, WithOptimizer, may_have_arrays
from ..graph.subtrees import ClusterSize
from .fallback_client import FallbackClient

_LARGEST_STACK = 10**9
_PARTS_OF_MEMORY = 40  # a QR decomposition takes several times the size of its stack


class OptimizingClient(FallbackClient):
    """A `distributed.Client` that sends graphs of arrays with an optimizer in the place of Dask's.

    Attributes
    ----------
    optimizes
        Whether it does; without it, Dask's own optimization is the only one.
    is_on_gpus
        Whether the workers of its cluster have GPUs.
    device_memory
        Of the smallest GPU of a worker, in bytes; 0 if it is not known.
    """

    optimizes: bool = True
    is_on_gpus: bool = False
    device_memory: int = 0

    def _graph_to_futures(self, expr: Any, *args: Any, **kwargs: Any) -> Any:
        if self.optimizes and may_have_arrays(expr):
            size = self._size()
            fuses = dask.config.get("optimization.fuse.active", None) is not False
            expr = WithOptimizer(expr, ArrayOptimizer(size, self.is_on_gpus, self._largest_stack(size), fuses))
        return super()._graph_to_futures(expr, *args, **kwargs)

    def _largest_stack(self, size: ClusterSize) -> int:
        """Bytes of the blocks that one QR decomposition takes together."""
        threads = max(1, size.threads // max(1, size.workers))
        return min(_LARGEST_STACK, self.device_memory // _PARTS_OF_MEMORY // threads)

    def _size(self) -> ClusterSize:
        """As the scheduler said some seconds ago at most."""
        identity = self._scheduler_identity
        return ClusterSize(identity.get("n_workers", 1), identity.get("total_threads", 1))
