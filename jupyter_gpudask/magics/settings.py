"""The settings of the magics: ``%config GpuDask`` and ``c.GpuDask`` in ``ipython_config.py``."""

from __future__ import annotations

from traitlets import Bool
from traitlets.config import Configurable


class MagicsSettings(Configurable):
    """Settings of the magics in one shell."""

    footer = Bool(
        default_value=True, help="Whether to show a line under each %%gpudask cell that used the cluster."
    ).tag(config=True)
    optimize = Bool(
        default_value=True,
        help="Whether to optimize graphs of arrays beyond what Dask does: fewer, larger tasks, with the same results.",
    ).tag(config=True)


# The class name is the configuration section: `%config GpuDask.footer = False`.
MagicsSettings.__name__ = "GpuDask"
