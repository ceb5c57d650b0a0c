"""Functions of single numbers of which CuPy 14.2 gets some wrong: angles of NaN and -0.0, ``sinc`` of NaN."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import dask.array as da

from ...inspection.placement import place_of
from ..interception import bind, first_argument, intercept

if TYPE_CHECKING:
    from collections.abc import Callable


def install_elementwise() -> None:
    """Mend `dask.array.angle` and `sinc`; a second time does nothing."""
    intercept(da.angle, _angle)
    intercept(da.sinc, _sinc)


def _angle(angle: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    __tracebackhide__ = True
    x = first_argument(angle, args, kwargs)
    if place_of(x) != "gpu" or x.dtype.kind not in "iuf":
        return angle(*args, **kwargs)
    radians = da.arctan2(0, x)
    return da.rad2deg(radians) if bind(angle, args, kwargs).arguments.get("deg") else radians


def _sinc(sinc: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    __tracebackhide__ = True
    result = sinc(*args, **kwargs)
    x = first_argument(sinc, args, kwargs)
    return da.where(da.isnan(x), x, result) if place_of(x) == "gpu" and x.dtype.kind in "fc" else result
