"""Angles of real numbers on GPUs: CuPy 14.2 takes NaN for negative, and -0.0 for positive."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import dask.array as da

from .interception import intercept
from .placement import place_of

if TYPE_CHECKING:
    from collections.abc import Callable


def install_angles() -> None:
    """Mend `dask.array.angle`; a second time does nothing."""
    intercept(da.angle, _angle)


def _angle(angle: Callable[..., Any], x: Any, deg: Any = 0) -> Any:
    __tracebackhide__ = True
    if place_of(x) != "gpu" or x.dtype.kind not in "iuf":
        return angle(x, deg)
    radians = da.arctan2(0, x)
    return da.rad2deg(radians) if deg else radians
