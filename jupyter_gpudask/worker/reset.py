"""The part of a reset that runs in each worker: collect garbage, and release unused device memory."""

from __future__ import annotations

import gc

from ..comm import device_memory
from .allocator import release_unused


def reset_worker() -> None:
    """Delete what nothing refers to any more, and return its device memory."""
    gc.collect()
    release_unused()
    device_memory.release_unused()
