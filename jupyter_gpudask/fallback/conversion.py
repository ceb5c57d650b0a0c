"""Let the user's functions of `dask.delayed` convert blocks on GPUs, which CuPy refuses.

Such a function runs once, because it may have side effects: what CuPy lacks is not repeated on the host.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

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


def to_numpy(original: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """As ``cupy.ndarray.__array__``, which raises an error; in `converting` the array of NumPy."""
    if not getattr(_thread, "converts", False):
        return original(*args, **kwargs)
    array, *others = args
    dtype = others[0] if others else kwargs.get("dtype")
    on_host = array.get()
    return on_host if dtype is None else np.asarray(on_host, dtype)
