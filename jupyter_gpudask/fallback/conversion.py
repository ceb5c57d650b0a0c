"""Let the user's functions of `dask.delayed` convert blocks on GPUs, which CuPy refuses.

Such a function runs once, because it may have side effects: what CuPy lacks cannot be repeated on the host.
"""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_thread = threading.local()


@contextmanager
def converting() -> Iterator[None]:
    """In it, ``np.asarray`` and the like convert arrays on the GPU, in this thread."""
    before = getattr(_thread, "converts", False)
    _thread.converts = True
    try:
        yield
    finally:
        _thread.converts = before


class Converting:
    """A function of the user, called in `converting`."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        self.__wrapped__ = function

    @property
    def __name__(self) -> str:
        return str(getattr(self.function, "__name__", type(self.function).__name__))

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The result of the function."""
        with converting():
            return self.function(*args, **kwargs)

    def __reduce__(self) -> tuple[Any, ...]:
        return Converting, (self.function,)


def to_numpy(original: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """As ``cupy.ndarray.__array__``, which raises an error; in `converting` the array of NumPy."""
    if not getattr(_thread, "converts", False):
        return original(*args, **kwargs)
    array, *others = args
    dtype = others[0] if others else kwargs.get("dtype")
    on_host = array.get()
    return on_host if dtype is None else np.asarray(on_host, dtype)
