"""Makes `device`, which gives CuPy or its stand-in, importable from tests/switch; and a context for a cell."""

import sys
from contextlib import ExitStack
from pathlib import Path

import dask
import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "switch"))

import device  # noqa: F401 - before whatever imports CuPy
from cudf_stand_in import in_use

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
