"""The arguments and the caller of a patched function, for its wrapper.

A wrapper is called as ``wrapper(original, *args, **kwargs)``: with the wrapped function and the unchanged arguments of
the call. Its own parameter is positional-only, because the call may have any keyword.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Mapping
from functools import lru_cache
from types import FrameType
from typing import Any

PACKAGE = "jupyter_gpudask"

CODE_FILE = "<jupyter_gpudask>"
"""The file name of the code that calls wrappers."""


def signature_of(function: Any) -> inspect.Signature:
    """The signature of a function, cached because `inspect.signature` takes about 10 µs."""
    signature: inspect.Signature | None = getattr(function, "__signature__", None)
    return _signature_of(function) if signature is None else signature


@lru_cache(maxsize=1024)
def _signature_of(function: Any) -> inspect.Signature:
    return inspect.signature(function)


def bind(original: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> inspect.BoundArguments:
    """The arguments of a call of `original`, by parameter name.

    Raises the `TypeError` of `original` itself, which does not accept these arguments.
    """
    try:
        return signature_of(original).bind(*args, **kwargs)
    except TypeError:
        __tracebackhide__ = True
        original(*args, **kwargs)
        raise


def first_argument(original: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    """The first argument of a call, positional or keyword; `None` if there is none."""
    return args[0] if args else kwargs.get(next(iter(signature_of(original).parameters), ""))


def calling_frame() -> FrameType:
    """The stack frame that called the patched function."""
    frame = sys._getframe(1)  # noqa: SLF001
    while frame.f_back is not None and is_own_frame(frame):
        frame = frame.f_back
    return frame


def is_own_frame(frame: FrameType) -> bool:
    """Whether this is a stack frame of this package, or of the code that calls a wrapper."""
    name: str = frame.f_globals.get("__name__", "")
    return name.startswith(PACKAGE) or frame.f_code.co_filename == CODE_FILE
