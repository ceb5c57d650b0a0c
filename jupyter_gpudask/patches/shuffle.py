"""How data goes from all workers to all: by tasks, where it is on GPUs.

Dask's peer-to-peer way has the scheduler unpickle a cuDF frame, and it has no GPU; and it writes the parts of arrays to
files. dask-cuda has frames shuffled by tasks, too.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import dask.config
from dask.array.rechunk import rechunk
from dask.utils import get_default_shuffle_method

from ..inspection.placement import place_of
from .interception import bind, intercept

if TYPE_CHECKING:
    from collections.abc import Callable


def install_shuffling() -> None:
    """Change what Dask chooses by itself; what the user asks for stays. A second time does nothing."""
    intercept(get_default_shuffle_method, _shuffle_method)
    intercept(rechunk, _rechunk)


def _shuffle_method(choose: Callable[..., str], /) -> str:
    chosen = dask.config.get("dataframe.shuffle.method", None)
    method = choose()
    return "tasks" if method == "p2p" and not chosen and "cudf" in sys.modules else method


def _rechunk(change: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    __tracebackhide__ = True
    call = bind(change, args, kwargs)
    if call.arguments.get("method") is None and place_of(call.arguments["x"]) == "gpu":
        call.arguments["method"] = dask.config.get("array.rechunk.method", None) or "tasks"
        return change(*call.args, **call.kwargs)
    return change(*args, **kwargs)
