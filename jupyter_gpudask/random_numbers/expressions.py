"""Arrays of random numbers as expressions, for Dask's setting ``array.query-planning``."""

from __future__ import annotations

from typing import Any

from dask._collections import new_collection
from dask.array._array_expr._io import IO


class Draw(IO):
    """Blocks of random numbers.

    Dask's own expression has the same name for numbers of NumPy and of CuPy with one seed, and is drawn by methods that
    CuPy lacks.
    """

    _parameters = ["key", "layer", "chunks", "meta"]  # noqa: RUF012 - as in Dask

    @property
    def _name(self) -> str:
        name: str = self.operand("key")
        return name

    @property
    def _meta(self) -> Any:
        return self.operand("meta")

    def __dask_tokenize__(self) -> str:
        return self._name

    def _layer(self) -> dict[Any, Any]:
        layer: dict[Any, Any] = self.operand("layer")
        return layer


def drawn(key: str, layer: dict[Any, Any], chunks: tuple[tuple[int, ...], ...], meta: Any) -> Any:
    """A Dask array with these tasks, whose name is `key`."""
    return new_collection(Draw(key, layer, chunks, meta))
