"""The import path of the scheduler: modules of graphs are imported from the kernel's `sys.path`."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from distributed import SchedulerPlugin

if TYPE_CHECKING:
    from collections.abc import Sequence

    from distributed import Scheduler


class SchedulerPathPlugin(SchedulerPlugin):
    """Appends the folders of `path` to the scheduler's `sys.path`.

    The scheduler's own folders come first, so that a user's file cannot shadow a module of Python or Dask.
    """

    def __init__(self, path: Sequence[str]) -> None:
        self.name = f"gpudask-path {os.pathsep.join(path)}"
        self._path = list(path)

    async def start(self, scheduler: Scheduler) -> None:  # noqa: ARG002 - as Dask calls it
        """Extend the path; called by Dask when the plugin is registered."""
        sys.path.extend(folder for folder in self._path if folder not in sys.path)
