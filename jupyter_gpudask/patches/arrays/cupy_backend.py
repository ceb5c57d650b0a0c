"""Our CuPy backend for Dask arrays: Dask's own, with names that are its own, and a quicker generator."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dask.array.backends import array_creation_dispatch
from dask.array.cupy_entry_point import CupyBackendEntrypoint

from .array_names import renamed

if TYPE_CHECKING:
    from collections.abc import Callable

    from dask.array import Array


class CupyBackend(CupyBackendEntrypoint):
    """Dask's CuPy backend, whose ``arange`` is never taken for NumPy's.

    Dask's own sets the backend back to NumPy while it creates, for the whole process; of two threads that create at the
    same time one would then get NumPy's blocks, and the setting could stay behind.
    """

    @property
    def default_bit_generator(self) -> Callable[[Any], Any]:
        """What `dask.array.random.default_rng` makes of a seed; a bit generator of CuPy is taken as it is."""
        import cupy

        return lambda seed: seed if isinstance(seed, cupy.random.BitGenerator) else cupy.random.Philox4x3210(seed)

    @staticmethod
    def ones(*args: Any, **kwargs: Any) -> Array:
        """As `dask.array.ones`, of CuPy blocks."""
        return _created("ones", *args, **kwargs)

    @staticmethod
    def zeros(*args: Any, **kwargs: Any) -> Array:
        """As `dask.array.zeros`, of CuPy blocks."""
        return _created("zeros", *args, **kwargs)

    @staticmethod
    def empty(*args: Any, **kwargs: Any) -> Array:
        """As `dask.array.empty`, of CuPy blocks."""
        return _created("empty", *args, **kwargs)

    @staticmethod
    def full(*args: Any, **kwargs: Any) -> Array:
        """As `dask.array.full`, of CuPy blocks."""
        return _created("full", *args, **kwargs)

    @staticmethod
    def arange(*args: Any, like: Any = None, **kwargs: Any) -> Array:
        """As `dask.array.arange`, of CuPy blocks."""
        array = _created("arange", *args, like=_block() if like is None else like, **kwargs)
        return renamed(array, array.name, "cupy")


def _created(function: str, /, *args: Any, **kwargs: Any) -> Array:
    """What Dask's own function gives, which makes blocks like those of ``meta`` or ``like``."""
    if "like" not in kwargs and kwargs.get("meta") is None:
        kwargs["meta"] = _block()
    array: Array = getattr(array_creation_dispatch.dispatch("numpy"), function)(*args, **kwargs)
    return array


def _block() -> Any:
    import cupy

    return cupy.empty(())


def install_array_backend() -> None:
    """Take the place of Dask's CuPy backend."""
    array_creation_dispatch.register_backend("cupy", CupyBackend())
