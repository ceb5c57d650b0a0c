"""CuPy for the tests of this folder: the real one where there is a GPU, the stand-in of tests/fake_cupy elsewhere."""

import importlib.util
import sys
from pathlib import Path

import pytest

from jupyter_gpudask.errors import GpuUnavailableError
from jupyter_gpudask.gpus import list_gpus

FOLDER = Path(__file__).parent


def has_gpu():
    try:
        return bool(list_gpus()) and importlib.util.find_spec("cupy") is not None
    except GpuUnavailableError:
        return False


HAS_GPU = has_gpu()
if not HAS_GPU:
    sys.path.insert(0, str(FOLDER.parent / "fake_cupy"))

import cupy  # noqa: E402 - only now it can be found
from dask.array import register_chunk_type  # noqa: E402

register_chunk_type(cupy.ndarray)  # Dask does it by itself if it is imported after CuPy


def pytest_collection_modifyitems(items):
    """With a GPU these tests are among those of `pytest -m gpu`."""
    for item in items:
        if HAS_GPU and FOLDER in item.path.parents:
            item.add_marker(pytest.mark.gpu)
