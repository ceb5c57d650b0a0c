"""Makes `device`, which gives CuPy or its stand-in, importable from tests/switch; and a context for a cell."""

import sys
from contextlib import ExitStack, nullcontext
from pathlib import Path
from types import SimpleNamespace

import dask
import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "switch"))

import device  # before whatever imports CuPy
from cudf_stand_in import in_use

from jupyter_gpudask.fallback import page_locked
from jupyter_gpudask.fallback.log import fallback_log
from jupyter_gpudask.overlay import CellRecord
from jupyter_gpudask.switch.context import switched_to


@pytest.fixture
def cudf_stand_in():
    """As in tests/switch."""
    with in_use():
        yield


@pytest.fixture
def cell():
    """A context for a cell with a fallback; the log of what has run on the host in it."""

    def enter(fallback="host"):
        before = fallback_log.blocks.copy()
        stack.enter_context(switched_to("cupy", "pandas", CellRecord(fallback=fallback)))
        stack.enter_context(dask.config.set(scheduler="sync"))
        return lambda: {place.operation: blocks for place, blocks in (fallback_log.blocks - before).items()}

    with ExitStack() as stack:
        yield enter


class PinnedMemoryPointer(bytearray):
    """As CuPy's, memory that an array can have."""


@pytest.fixture
def pool(monkeypatch):
    """CuPy's pool of page-locked memory, with no limits of sizes."""
    pool = SimpleNamespace(unused=0, freed=0, made=[])

    def empty_pinned(shape, dtype):
        if pool.made is None:
            raise MemoryError
        memory = PinnedMemoryPointer(int(np.prod(shape)) * np.dtype(dtype).itemsize)
        pool.made.append(memory)
        return np.ndarray(shape, dtype, buffer=memory)

    def free_all_blocks():
        pool.freed += 1

    pool.n_free_blocks, pool.free_all_blocks = lambda: pool.unused, free_all_blocks
    monkeypatch.setitem(
        sys.modules, "cupyx", SimpleNamespace(empty_pinned=empty_pinned, errstate=lambda **_: nullcontext())
    )
    monkeypatch.setattr(device.cupy, "get_default_pinned_memory_pool", lambda: pool)
    monkeypatch.setattr(page_locked, "_LEAST", 1)
    return pool
