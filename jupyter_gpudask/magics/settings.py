"""The settings of the magics: ``%config GpuDask`` and ``c.GpuDask`` in ``ipython_config.py``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from traitlets import Bool, Enum, Float, Unicode
from traitlets.config import Configurable

from ..overlay.cell_record import DEFAULT_FALLBACK

if TYPE_CHECKING:
    from ..overlay.cell_record import Fallback


class MagicsSettings(Configurable):
    """Settings of the magics in one shell."""

    footer = Bool(
        default_value=True, help="Whether to show a line under each %%gpudask cell that used the cluster."
    ).tag(config=True)
    fallback = Enum(
        ("error", "host"),
        default_value=DEFAULT_FALLBACK,
        help="What happens to an operation that CuPy or cuDF lack: its error is raised, or it is computed on the host.",
    ).tag(config=True)
    on = Bool(
        default_value=False, help="Whether every cell that uses Dask runs as if %%gpudask stood above it: %gpudask on."
    ).tag(config=True)
    on_options = Unicode(
        default_value="", help="The options of %%gpudask for these cells, such as --to-host --dataframe pandas."
    ).tag(config=True)
    optimize = Bool(
        default_value=True,
        help="Whether to optimize graphs of arrays beyond what Dask does: fewer, larger tasks, with the same results.",
    ).tag(config=True)
    price_per_gpu_hour = Float(
        0.0,
        min=0.0,
        help="What a GPU costs per hour, for the cost of each cell; 0 for the price that the Jupyter server has set.",
    ).tag(config=True)
    currency = Unicode("USD", help="The currency of the price.").tag(config=True)

    def fallback_of(self, *, strict: bool) -> Fallback:
        """The fallback of a cell with or without ``--strict``."""
        if strict:
            return "strict"
        return "host" if self.fallback == "host" else "error"


# The class name is the configuration section: `%config GpuDask.footer = False`.
MagicsSettings.__name__ = "GpuDask"
