"""``--move``: collections from outside a cell, moved to the GPUs for the cell."""

from __future__ import annotations

import ast
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from dask.base import is_dask_collection

from ..errors import MoveError
from ..inspection.placement import GPU_BACKENDS, can_move, kind_of, name_of, place_of, to_gpu
from .outside_names import names_read

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, MutableMapping, Sequence

ALL = "all"
"""Selects every collection on the host that the cell names."""


def host_collections(source: str, namespace: Mapping[str, Any], backends: tuple[str, str]) -> dict[str, int]:
    """Collections on the host that the code reads: name -> line of the first use.

    A variable that the code assigns before it reads it is none, nor is one of a function or class.

    Parameters
    ----------
    source
        Python code.
    namespace
        The variables, before the code runs.
    backends
        The backends for arrays and dataframes; collections that need no GPU backend are left out.
    """
    try:
        tree = ast.parse(source)
    except SyntaxError:
        return {}
    found: dict[str, int] = {}
    for line, name in names_read(tree.body):
        if name not in namespace:
            continue
        value = namespace[name]
        # The class first: attribute access on a user's object may raise any exception.
        is_collection = hasattr(type(value), "_meta") and is_dask_collection(value)
        if name not in found and is_collection and place_of(value) == "host":
            backend = backends[0] if kind_of(value) == "array" else backends[1]
            if backend in GPU_BACKENDS:
                found[name] = line
    return found


@contextmanager
def moved(
    names: Sequence[str], namespace: MutableMapping[str, Any], *, mentioned: Sequence[str]
) -> Iterator[frozenset[str]]:
    """Move the collections of these variables to the GPUs inside the ``with`` block, and restore them afterwards.

    A variable that the code reassigns keeps its new value.

    Parameters
    ----------
    names
        Names of Dask arrays and dataframes; ``("all",)`` for those of `mentioned`.
    namespace
        The variables.
    mentioned
        Names of the collections on the host that the code reads.

    Raises
    ------
    MoveError
        A name is not a Dask array or DataFrame that can be moved; nothing was moved.

    Returns
    -------
    frozenset of str
        The names of the moved collections.
    """
    movable = [name for name in mentioned if can_move(namespace[name])]
    wanted = movable if tuple(names) == (ALL,) else list(names)
    before = {name: _movable(name, namespace) for name in wanted}
    after = {name: value if place_of(value) == "gpu" else to_gpu(value) for name, value in before.items()}
    made = {name: name_of(value) for name, value in after.items()}
    namespace.update(after)
    try:
        yield frozenset(after)
    finally:
        for name, value in after.items():
            if (
                namespace.get(name) is value and name_of(value) == made[name]
            ):  # not modified, as by x[0] = 1 or df["a"] = b
                namespace[name] = before[name]


def _movable(name: str, namespace: Mapping[str, Any]) -> Any:
    if name not in namespace:
        raise MoveError("no-such-variable", name=name)
    value = namespace[name]
    if not is_dask_collection(value) or place_of(value) is None:
        raise MoveError("not-a-collection", name=name, type=type(value).__name__)
    if not can_move(value):
        raise MoveError("dtype-not-movable", name=name, dtype=value.dtype)
    return value
