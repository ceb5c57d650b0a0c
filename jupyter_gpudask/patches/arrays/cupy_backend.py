"""The CuPy backend for Dask arrays: Dask's own, with keys that differ from NumPy's, and a faster bit generator.

With the fallback to the host, arrays whose dtype CuPy lacks are created with NumPy.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from dask.array.backends import array_creation_dispatch
from dask.array.core import Array, broadcast_to, map_blocks, normalize_chunks
from dask.array.cupy_entry_point import CupyBackendEntrypoint
from dask.base import tokenize
from dask.highlevelgraph import HighLevelGraph

from ...fallback.missing import reason_behind
from ...fallback.page_locked import is_locked, to_device
from ...inspection.placement import can_move, place_of, to_gpu, to_host
from ...overlay import current_record


def _create(function: str, /, *args: Any, **kwargs: Any) -> Any:
    """Call Dask's function for NumPy."""
    return create_on_gpu(getattr(array_creation_dispatch.dispatch("numpy"), function), *args, **kwargs)


class CupyBackend(CupyBackendEntrypoint):
    """Dask's CuPy backend, with keys of ``arange`` that differ from NumPy's.

    Dask's own backend sets `array.backend` to NumPy for the whole process while it creates an array. If two threads
    create arrays at the same time, one could get NumPy blocks, and the setting could remain.

    - `replaced`: the backend whose place it takes.
    """

    def __init__(self, replaced: CupyBackendEntrypoint) -> None:
        super().__init__()
        self.replaced = replaced

    @property
    def default_bit_generator(self) -> Callable[[Any], Any]:
        """A function that returns the bit generator for a seed; a bit generator of CuPy is returned unchanged."""
        import cupy

        return lambda seed: seed if isinstance(seed, cupy.random.BitGenerator) else cupy.random.Philox4x3210(seed)

    @classmethod
    def to_backend(cls, data: Array, **kwargs: Any) -> Array:
        """The array with its blocks on the GPUs; blocks that are there, or that CuPy cannot hold, stay as they are."""
        if place_of(data) == "gpu":
            return data
        moved: Array = map_blocks(to_cupy, data, **kwargs)
        return moved

    # As those of `dask.array`, of CuPy blocks.
    ones, zeros, empty = (staticmethod(partial(_create, name)) for name in ("ones", "zeros", "empty"))

    @staticmethod
    def full(*args: Any, **kwargs: Any) -> Any:
        """As `dask.array.full`, of CuPy blocks; the value may be a Dask array, which NumPy would compute."""
        if isinstance(kwargs.get("fill_value"), Array):
            return _fill(**kwargs)
        return _create("full", *args, **kwargs)

    @staticmethod
    def arange(*args: Any, like: Any = None, **kwargs: Any) -> Any:
        """As `dask.array.arange`, of CuPy blocks."""
        array = _create("arange", *args, like=like, **kwargs)
        return rename_array(array, array.name, "cupy")


def to_cupy(block: Any) -> Any:
    """A block on the GPU, if CuPy can hold it; Dask's dispatcher refuses scalars of NumPy and blocks of CuPy."""
    if not isinstance(block, np.ndarray | np.generic) or not can_move(np.asanyarray(block)):
        return block
    if is_locked(block):
        return to_device(block)
    import cupy

    return cupy.asarray(block)


def create_on_gpu(create: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """Call a function that creates blocks of the type of ``meta``, or of ``like`` if it is ``arange``."""
    parameter = "like" if create.__name__ == "arange" else "meta"
    is_given = any(kwargs.get(name) is not None for name in (parameter, "like"))
    of_cupy = kwargs if is_given else {**kwargs, parameter: _block()}
    record = current_record()
    if record is None or record.fallback != "host":
        return create(*args, **of_cupy)
    try:
        return create(*args, **of_cupy)
    except Exception as error:
        if not reason_behind(error):
            raise
    on_host = {name: value for name, value in kwargs.items() if place_of(value) != "gpu"}  # without `meta` and `like`
    return create(*args, **on_host)


def _fill(
    *, shape: Any, fill_value: Array, dtype: Any, chunks: Any = "auto", meta: Any = None, like: Any = None, **_: Any
) -> Array:
    """An array of a value that is computed; CuPy does not take one, and Dask would return functions for its blocks."""
    shape = (shape,) if isinstance(shape, int | np.integer) else tuple(shape)
    value = fill_value.astype(dtype)
    if place_of(like if meta is None else meta) == "host":
        value = to_host(value)
    elif can_move(value):
        value = to_gpu(value)
    filled: Array = broadcast_to(value, shape, chunks=normalize_chunks(chunks, shape, dtype=value.dtype))
    return filled


def _block() -> Any:
    """Zero, as Dask includes its value in the names of what it creates; one value, so that CuPy checks dtypes."""
    import cupy

    return cupy.zeros(())


def rename_array(array: Array, *token: Any) -> Array:
    """The same array with a name derived from `token`, which includes the backend.

    Dask derives the names of some arrays from their arguments only, so the NumPy and the CuPy version of
    ``da.arange(10)`` share a key. If a cluster holds one of them, it would return it for the other.

    - `array`: whose last layer makes its blocks.
    - `token`: what makes the array what it is. Equal tokens give equal names.
    """
    graph = array.dask
    name = f"{array.name.rsplit('-', 1)[0]}-{tokenize(token)}"
    layer = {_new_key(key, array.name, name): task for key, task in graph.layers[array.name].items()}
    layer = {key: task if task.key == key else task.substitute({}, key=key) for key, task in layer.items()}
    layers = {other: content for other, content in graph.layers.items() if other != array.name} | {name: layer}
    dependencies = {other: needs for other, needs in graph.dependencies.items() if other != array.name}
    dependencies[name] = graph.dependencies[array.name]
    return Array(HighLevelGraph(layers, dependencies), name, array.chunks, meta=array._meta)  # noqa: SLF001


def _new_key(key: Any, old: str, new: str) -> Any:
    return (new, *key[1:]) if isinstance(key, tuple) and key[0] == old else key


def register() -> None:
    """Register `CupyBackend` as the backend ``cupy`` of `dask.array`."""
    array_creation_dispatch.register_backend("cupy", CupyBackend(array_creation_dispatch.dispatch("cupy")))


def unregister() -> None:
    """Register Dask's own backend again."""
    backend = array_creation_dispatch.dispatch("cupy")
    if isinstance(backend, CupyBackend):
        array_creation_dispatch.register_backend("cupy", backend.replaced)
