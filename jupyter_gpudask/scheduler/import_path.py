"""The scheduler imports modules from where the kernel does, as it would if it ran in the kernel's process."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from distributed import SchedulerPlugin

if TYPE_CHECKING:
    from collections.abc import Sequence

    from distributed import Scheduler


class SchedulerPathPlugin(SchedulerPlugin):
    """Adds the folders of `path` behind those of the scheduler's process.

    Its own come first, so that a file of the user's that is named like a module of Python's or Dask's does no harm.
    """

    def __init__(self, path: Sequence[str]) -> None:
        self.name = f"gpudask-path {os.pathsep.join(path)}"
        self._path = list(path)

    async def start(self, scheduler: Scheduler) -> None:  # noqa: ARG002 - as Dask calls it
        """Called by Dask when the plugin is registered."""
        sys.path.extend(folder for folder in self._path if folder not in sys.path)
