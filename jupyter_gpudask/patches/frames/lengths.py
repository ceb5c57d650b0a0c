"""The lengths of partitions that Dask knows without a computation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...inspection.arguments import first_argument

if TYPE_CHECKING:
    from collections.abc import Callable


def lengths(original: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """As ``FromPandas._get_lengths``, which keeps the lengths of all partitions when some of them are selected."""
    first_argument(original, args, kwargs)._pd_length_stats = None  # noqa: SLF001
    return original(*args, **kwargs)
