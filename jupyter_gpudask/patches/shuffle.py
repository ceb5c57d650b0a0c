"""Shuffles and rechunks of data on GPUs: by tasks.

Dask's peer-to-peer way has the scheduler unpickle a cuDF frame, and it has no GPU; and it writes the parts of arrays to
files. dask-cuda has frames shuffled by tasks, too.
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
    """As Dask's; ``tasks`` where it chooses ``p2p`` by itself and cuDF is in use."""
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
