"""The settings of the magics: ``%config GpuDask`` and ``c.GpuDask`` in ``ipython_config.py``."""

from __future__ import annotations

from traitlets import Bool
from traitlets.config import Configurable


class MagicsSettings(Configurable):
    """Settings of the magics in one shell."""

    footer = Bool(
        default_value=True, help="Whether a %%gpudask cell that used the cluster ends with a line on what it did."
    ).tag(config=True)


# The class name is the configuration section: `%config GpuDask.footer = False`.
MagicsSettings.__name__ = "GpuDask"
