"""What ``%config GpuDask`` shows and sets."""

from __future__ import annotations

from traitlets import Bool
from traitlets.config import Configurable


class GpuDask(Configurable):
    """Settings of the magics in one shell."""

    footer = Bool(
        default_value=True, help="Whether a %%gpudask cell that used the cluster ends with a line on what it did."
    ).tag(config=True)
