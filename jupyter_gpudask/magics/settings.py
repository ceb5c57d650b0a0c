"""The settings of ``%config GpuDask``."""

from __future__ import annotations

from traitlets import Bool
from traitlets.config import Configurable


class GpuDask(Configurable):
    """Settings of the magics in one shell."""

    footer = Bool(
        default_value=True, help="Whether to show a line under each %%gpudask cell that used the cluster."
    ).tag(config=True)
