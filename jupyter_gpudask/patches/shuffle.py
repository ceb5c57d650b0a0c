"""Shuffles and rechunks of data on GPUs: by tasks.

In Dask's peer-to-peer shuffle the scheduler, which has no GPU, unpickles a cuDF dataframe, and workers write parts of
arrays to files. dask-cuda also shuffles dataframes by tasks.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import dask.config

from ..inspection.arguments import bind
from ..inspection.placement import place_of

if TYPE_CHECKING:
    from collections.abc import Callable


def default_shuffle_method(original: Callable[..., str], /) -> str:
    """As Dask's function; ``tasks`` if Dask would select ``p2p`` and cuDF is in use."""
    chosen = dask.config.get("dataframe.shuffle.method", None)
    method = original()
    return "tasks" if method == "p2p" and not chosen and "cudf" in sys.modules else method


def rechunk(original: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """As `dask.array.rechunk`; arrays on GPUs are rechunked by tasks unless the user has chosen a method."""
    __tracebackhide__ = True
    call = bind(original, args, kwargs)
    if call.arguments.get("method") is None and place_of(call.arguments["x"]) == "gpu":
        call.arguments["method"] = dask.config.get("array.rechunk.method", None) or "tasks"
        return original(*call.args, **call.kwargs)
    return original(*args, **kwargs)
