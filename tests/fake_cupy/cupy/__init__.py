"""A stand-in for CuPy on machines without a GPU: NumPy's arrays, behind what CuPy refuses.

It answers to CuPy's names only, keeps 0-d results as arrays, and takes no NumPy array where CuPy takes none, so that a
mix of the two fails here as it does on a GPU. What it computes, NumPy computes. It shows nothing about CuPy's numbers.
"""

import sys
import types

import numpy as np

from . import cuda, random
from ._arrays import array, asarray, asnumpy, missing, ndarray, on_device

__all__ = ["array", "asarray", "asnumpy", "cuda", "ndarray", "random"]
__version__ = "14.2.0"

# Dask's serialization of CuPy arrays copies device memory; these travel by pickle.
sys.modules.setdefault("distributed.protocol.cupy", types.ModuleType("distributed.protocol.cupy"))


class _Functions(types.ModuleType):
    """A module of CuPy, made of the module of NumPy with its name."""

    def __getattr__(self, name):
        return on_device(getattr(getattr(np, self.__name__.rpartition(".")[2]), name))


linalg = sys.modules["cupy.linalg"] = _Functions("cupy.linalg")
fft = sys.modules["cupy.fft"] = _Functions("cupy.fft")
fft.config = types.SimpleNamespace(get_plan_cache=dict)


def get_default_memory_pool():
    return cuda.MemoryPool()


def get_default_pinned_memory_pool():
    return cuda.MemoryPool()


def __getattr__(name):
    if name.startswith("_") or missing(name):
        raise AttributeError(f"module 'cupy' has no attribute {name!r}")
    return on_device(getattr(np, name))
