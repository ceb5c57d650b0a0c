"""The settings of the magics: ``%config GpuDask`` and ``c.GpuDask`` in ``ipython_config.py``."""

from __future__ import annotations

from traitlets import Bool, Float, Unicode
from traitlets.config import Configurable


class MagicsSettings(Configurable):
    """Settings of the magics in one shell."""

    footer = Bool(
        default_value=True, help="Whether to show a line under each %%gpudask cell that used the cluster."
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


# The class name is the configuration section: `%config GpuDask.footer = False`.
MagicsSettings.__name__ = "GpuDask"
