"""CuPy for the tests of this folder: the real one where there is a GPU, the stand-in of tests/fake_cupy elsewhere."""

import importlib.util
import sys
from pathlib import Path

import pytest

from jupyter_gpudask.errors import GpuUnavailableError
from jupyter_gpudask.machine.gpus import list_gpus

FAKE_CUPY = Path(__file__).parents[1] / "fake_cupy"


def has_gpu():
    try:
        return bool(list_gpus()) and importlib.util.find_spec("cupy") is not None
    except GpuUnavailableError:
        return False


HAS_GPU = has_gpu()
if not HAS_GPU:
    sys.path.insert(0, str(FAKE_CUPY))

import cupy  # noqa: E402 - only now it can be found
import dask  # noqa: E402
from dask.array.chunk_types import register_chunk_type  # noqa: E402

register_chunk_type(cupy.ndarray)  # Dask does it by itself if it is imported after CuPy


def block_of(array, place):
    """One block of a Dask array, as the worker has it."""
    (array,) = dask.optimize(array)
    return dask.get(array.__dask_graph__(), (array.name, *place))


MARKS = [pytest.mark.gpu] if HAS_GPU else []
"""Of the tests that use it: with a GPU they are among those of ``pytest -m gpu``."""
