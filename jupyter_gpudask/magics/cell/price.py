"""The cost of a cell, from a price per GPU and hour."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from ...protocol import Ready
    from ..settings import MagicsSettings

_SECONDS_PER_HOUR = 3600


@dataclass(frozen=True)
class Price:
    """A price; 0 if none is set.

    Attributes
    ----------
    per_gpu_hour
        Of one GPU for one hour.
    currency
        In which it is, as text.
    """

    per_gpu_hour: float
    currency: str

    @classmethod
    def of(cls, settings: MagicsSettings, ready: Ready) -> Self:
        """The price that is set in the kernel, or else in the Jupyter server that holds the cluster."""
        if settings.price_per_gpu_hour:
            return cls(settings.price_per_gpu_hour, settings.currency)
        return cls(ready.price_per_gpu_hour, ready.currency)

    def cost(self, gpus: int, seconds: float) -> str | None:
        """The cost of holding `gpus` GPUs for `seconds` seconds, such as ``0.0057 USD``; `None` without a price."""
        cost = self.per_gpu_hour * gpus * seconds / _SECONDS_PER_HOUR
        if not cost:
            return None
        return f"{cost:.2f} {self.currency}" if cost >= 1 else f"{cost:.2g} {self.currency}"
