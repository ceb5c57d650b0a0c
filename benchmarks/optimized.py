"""Dask's schedulers of one process, with graphs of arrays as a cluster of one GPU gets them.

The scripts that compare many small results compute without a cluster, whose client optimizes these graphs.
"""

from __future__ import annotations

import contextlib
from functools import partial
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_LARGEST_STACK = 10**6
"""Bytes."""


@contextlib.contextmanager
def optimized_graphs(*, on_gpus: bool) -> Iterator[None]:
    """Inside, the schedulers optimize, by whatever name they are chosen, such as ``scheduler="sync"``.

    Parameters
    ----------
    on_gpus
        Whether the blocks are on GPUs.
    """
    from dask.base import named_schedulers

    local = {name: get for name, get in named_schedulers.items() if name not in ("processes", "multiprocessing")}
    optimizing = {name: partial(_get, get, on_gpus) for name, get in local.items()}
    with patch.dict(named_schedulers, optimizing):
        yield


def _get(get: Callable[..., Any], on_gpus: bool, expression: Any, keys: Any, **options: Any) -> Any:
    from jupyter_gpudask.graph.optimize import ArrayOptimizer, WithOptimizer, may_have_arrays
    from jupyter_gpudask.graph.subtrees import ClusterSize

    if may_have_arrays(expression):
        optimizer = ArrayOptimizer(ClusterSize(1, 1), is_on_gpus=on_gpus, largest_stack=_LARGEST_STACK)
        expression = WithOptimizer(expression, optimizer).__dask_graph__()
    return get(expression, keys, **options)
