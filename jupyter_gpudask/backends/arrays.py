"""Our CuPy backend for Dask arrays: Dask's own, with names that are its own, and with all of NumPy's random numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import dask.array.random as dask_random
import numpy as np
from dask.array import Array
from dask.array.backends import array_creation_dispatch
from dask.array.cupy_entry_point import CupyBackendEntrypoint
from dask.array.random import Generator, RandomState
from dask.utils import typename

from .names import renamed

if TYPE_CHECKING:
    from collections.abc import Callable


class CupyBackend(CupyBackendEntrypoint):
    """Dask's CuPy backend, whose ``arange`` is never taken for NumPy's."""

    @staticmethod
    def arange(*args: Any, like: Any = None, **kwargs: Any) -> Array:
        """As `dask.array.arange`, of CuPy blocks."""
        array: Array = CupyBackendEntrypoint.arange(*args, like=like, **kwargs)
        return renamed(array, array.name, "cupy")


def install_array_backend() -> None:
    """Take the place of Dask's CuPy backend, and mend its random numbers; a second time does nothing."""
    if isinstance(array_creation_dispatch._lookup.get("cupy"), CupyBackend):  # noqa: SLF001
        return
    array_creation_dispatch.register_backend("cupy", CupyBackend())
    _draw: Callable[..., Array] = dask_random._wrap_func  # noqa: SLF001

    def draw(rng: Generator | RandomState, name: str, *args: Any, **kwargs: Any) -> Any:
        if not _is_cupy(rng):
            return _draw(rng, name, *args, **kwargs)
        if isinstance(rng, Generator) and name == "normal" and all(np.isscalar(arg) for arg in args):
            mean, deviation = args
            return draw(rng, "standard_normal", **kwargs) * deviation + mean
        if not hasattr(_library_of(rng), name):
            return _to_gpu(_draw(_host_twin(rng), name, *args, **kwargs))
        stream = _stream(rng)
        drawn = _draw(rng, name, *args, **kwargs)
        # Dask names what a RandomState draws without its library, and what a CuPy Generator draws by chance.
        return renamed(drawn, stream or drawn.name, name, args, kwargs, "cupy")

    dask_random._wrap_func = draw  # type: ignore[assignment]  # noqa: SLF001
    for kind, name in ((Generator, "choice"), (Generator, "permutation"), (RandomState, "choice")):
        _draw_on_host(kind, name)


def _draw_on_host(kind: type, name: str) -> None:
    """Have a method that CuPy has not, or that Dask runs on NumPy, draw with NumPy and move the result."""
    method = getattr(kind, name)

    def draw(self: Any, *args: Any, **kwargs: Any) -> Any:
        if not _is_cupy(self):
            return method(self, *args, **kwargs)
        args = tuple(_to_host(arg) for arg in args)
        return _to_gpu(method(_host_twin(self), *args, **{key: _to_host(arg) for key, arg in kwargs.items()}))

    draw.__name__, draw.__doc__ = name, method.__doc__
    setattr(kind, name, draw)


def _is_cupy(rng: Generator | RandomState) -> bool:
    made_of = type(rng._bit_generator) if isinstance(rng, Generator) else rng._RandomState  # noqa: SLF001
    # A RandomState that was given no class takes that of the backend when it is made, in Dask's own way.
    return made_of is not None and typename(made_of).startswith("cupy")


def _stream(rng: Generator | RandomState) -> tuple[Any, ...] | None:
    """What decides the next numbers of a CuPy generator; `None` for a RandomState, which Dask names by its state."""
    if not isinstance(rng, Generator):
        return None
    seeds = rng._bit_generator._seed_seq  # noqa: SLF001
    kind = typename(type(rng._bit_generator))  # noqa: SLF001
    return kind, seeds.entropy, seeds.spawn_key, seeds.n_children_spawned


def _library_of(rng: Generator | RandomState) -> Any:
    return rng._backend.random.Generator if isinstance(rng, Generator) else rng._RandomState  # noqa: SLF001


def _host_twin(rng: Generator | RandomState) -> Generator | RandomState:
    """A NumPy generator with a stream of its own, drawn from that of `rng`, so that a seed still decides everything."""
    if isinstance(rng, Generator):
        (child,) = rng._bit_generator._seed_seq.spawn(1)  # noqa: SLF001
        return Generator(np.random.PCG64(child))
    return RandomState(int(rng._numpy_state.randint(2**31)), RandomState=np.random.RandomState)  # noqa: SLF001


def _to_gpu(array: Array) -> Array:
    moved: Array = CupyBackend.to_backend(array)
    return moved


def _to_host(value: Any) -> Any:
    if isinstance(value, Array):
        return value.to_backend("numpy")
    return value.get() if typename(type(value)).startswith("cupy") else value
