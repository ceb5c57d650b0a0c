"""Our CuPy backend for Dask arrays: Dask's own, with names that are its own, and a quicker generator."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dask.array.backends import array_creation_dispatch
from dask.array.cupy_entry_point import CupyBackendEntrypoint

from .names import renamed

if TYPE_CHECKING:
    from collections.abc import Callable

    from dask.array import Array


class CupyBackend(CupyBackendEntrypoint):
    """Dask's CuPy backend, whose ``arange`` is never taken for NumPy's."""

    @property
    def default_bit_generator(self) -> Callable[[Any], Any]:
        """What `dask.array.random.default_rng` makes of a seed; a bit generator of CuPy is taken as it is."""
        import cupy

        return lambda seed: seed if isinstance(seed, cupy.random.BitGenerator) else cupy.random.Philox4x3210(seed)

    @staticmethod
    def arange(*args: Any, like: Any = None, **kwargs: Any) -> Array:
        """As `dask.array.arange`, of CuPy blocks."""
        array: Array = CupyBackendEntrypoint.arange(*args, like=like, **kwargs)
        return renamed(array, array.name, "cupy")


def install_array_backend() -> None:
    """Take the place of Dask's CuPy backend."""
    array_creation_dispatch.register_backend("cupy", CupyBackend())
