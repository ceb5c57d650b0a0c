"""NumPy arrays of collections on GPUs: ``np.asarray(x)`` asks for one in so many words, and gets it.

CuPy and cuDF refuse it of data that is there, for it is slow in a loop. A collection is computed, and its result goes
over the network in any case; each worker hands out its blocks as NumPy's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dask.array import Array
from dask.dataframe.dask_expr import FrameBase

from ..inspection.placement import name_of, to_host
from ..overlay.config_overlay import current_overlay
from .interception import bind, intercept

if TYPE_CHECKING:
    from collections.abc import Callable


def install_conversion() -> None:
    """Have collections on GPUs become NumPy arrays where that is asked for; a second time does nothing."""
    intercept(Array.__array__, _to_numpy)
    intercept(FrameBase.__array__, _to_numpy)


def _to_numpy(convert: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    __tracebackhide__ = True
    call = bind(convert, args, kwargs)
    collection = call.arguments["self"]
    on_host = to_host(collection)
    overlay = current_overlay()
    if on_host is not collection and overlay is not None and overlay.watch is not None:
        overlay.watch.brought.add(name_of(on_host))  # it did not stay on the CPU
    call.arguments["self"] = on_host
    return convert(*call.args, **call.kwargs)
