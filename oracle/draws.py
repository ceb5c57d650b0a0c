"""What the operations of random programs are made of: random choices that fit a value."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Iterator

Made = str | tuple[str, str] | None
"""The text of a step, or the texts for Dask and for NumPy or pandas; `None` if it does not fit the value."""


@dataclass(frozen=True)
class Draw:
    """Random choices beside the values `v`, which the steps change, and `w`."""

    rng: random.Random
    v: Any
    w: Any

    @classmethod
    def maker(cls, make: Callable[[Any], Made]) -> Callable[..., Made]:
        """A function of the generator of random numbers, `v` and `w`."""
        return lambda *values: make(cls(*values))

    def of(self, *options: Any) -> Any:
        return self.rng.choice(options)

    def word(self, words: str) -> str:
        return self.rng.choice(words.split())

    def pick(self, options: list[Any]) -> Any:
        """One of them; `None` if there are none."""
        return self.rng.choice(options) if options else None

    def several(self, options: list[Any]) -> list[Any]:
        """One or more of them, in any order."""
        return self.rng.sample(options, self.rng.randint(1, len(options)))


def fits(needed: Any, made: Any) -> Any:
    """What was made, if there is what it needs."""
    return made if needed else None


@dataclass(frozen=True)
class Operation:
    """An operation that a program can have."""

    name: str
    """Differences are grouped by it."""
    make: Callable[[Any], Made]
    needs_order: bool = False
    """Whether the result depends on the order of rows."""
    opens_order: bool = False
    """Whether Dask leaves the order of the result open."""
    order_of_library: bool = False
    """Whether the order is that of the library: it is compared, and nothing that needs an order follows."""


def entries(table: str) -> Iterator[tuple[str, str, int]]:
    """What stands before the colon, the name, and the weight of each word of a table, such as ``FS:merge*4``."""
    for word in table.split():
        lists, _, name = word.partition(":")
        name, _, weight = name.partition("*")
        yield lists, name, int(weight or 1)
