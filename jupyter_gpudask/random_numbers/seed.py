"""``da.random.seed`` seeds the generators of all backends.

The functions of ``da.random`` use one generator for each backend. Dask's ``seed`` seeds only the generator of the
current backend.
"""

from __future__ import annotations

import hashlib
import sys
from typing import TYPE_CHECKING, Any

import numpy as np
from dask.array.random import RandomState

from ..inspection.arguments import bind

if TYPE_CHECKING:
    from collections.abc import Callable

_CPU = "numpy"


class SharedStates(dict[str, Any]):
    """The generators of ``da.random`` by backend; GPU generators start from the state of the CPU's generator.

    Parameters
    ----------
    states
        Dask's own.
    """

    def __init__(self, states: dict[str, Any]) -> None:
        super().__init__(states)
        self._replaced = states  # restored when the patches are undone

    def __missing__(self, backend: str) -> Any:
        if backend == _CPU or _CPU not in self:
            state = RandomState()
        else:
            # Not the CPU's own stream: both would draw the same numbers.
            _, words, place, *_ = self[_CPU]._numpy_state.get_state(legacy=True)  # noqa: SLF001
            digest = hashlib.sha256(f"{backend} {place}".encode() + np.asarray(words).tobytes())
            state = RandomState(np.frombuffer(digest.digest(), dtype=np.uint32))
        self[backend] = state
        if backend == _CPU:
            self._replaced[_CPU] = state
        return state

    def seed(self, seed: Any) -> None:
        """Seed the CPU's generator as Dask does; GPU generators restart from its state."""
        self[_CPU] = self._replaced[_CPU] = RandomState(seed, RandomState=np.random.RandomState)
        for backend in set(self) - {_CPU}:
            self.pop(backend, None)


def seed(original: Callable[..., None], /, *args: Any, **kwargs: Any) -> None:
    """As `RandomState.seed`; the generators of ``da.random`` are seeded for all backends."""
    __tracebackhide__ = True
    call = bind(original, args, kwargs).arguments
    states: Any = vars(sys.modules[type(call["self"]).__module__]).get("_cached_states", {})
    if any(call["self"] is state for state in list(states.values())):
        states.seed(call.get("seed"))
    else:
        original(*args, **kwargs)
