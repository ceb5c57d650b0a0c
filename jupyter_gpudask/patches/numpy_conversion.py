"""``np.asarray(x)`` of a collection on GPUs: it returns a NumPy array.

CuPy and cuDF refuse an implicit conversion, which is slow in a loop. A Dask collection is computed here, and its result
is sent over the network in any case: each worker converts its blocks before it sends them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..inspection.arguments import bind
from ..inspection.placement import name_of, to_host
from ..overlay import current_overlay

if TYPE_CHECKING:
    from collections.abc import Callable


def to_numpy(original: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """As ``Array.__array__``; the blocks are converted by the workers that hold them."""
    __tracebackhide__ = True
    call = bind(original, args, kwargs)
    collection = call.arguments["self"]
    on_host = to_host(collection)
    overlay = current_overlay()
    if on_host is not collection and overlay is not None and overlay.record is not None:
        overlay.record.moved_for_result.add(name_of(on_host))  # it did not stay on the CPU
    call.arguments["self"] = on_host
    return original(*call.args, **call.kwargs)
