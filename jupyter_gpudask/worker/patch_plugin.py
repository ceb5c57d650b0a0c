"""Apply the patches that a worker needs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from distributed import WorkerPlugin
from distributed.core import Status

from ..patches.apply import patches

if TYPE_CHECKING:
    from distributed import Worker

PATCH_PLUGIN = "gpudask-patches"
"""The name of the plugin."""


class PatchPlugin(WorkerPlugin):
    """Applies the rows of `jupyter_gpudask.patches.table` that run in workers."""

    def setup(self, worker: Worker) -> None:  # noqa: ARG002 - as Dask calls it
        """Called by Dask when the worker has joined the scheduler, before it gets tasks."""
        patches.apply("worker")

    def teardown(self, worker: Worker) -> None:
        """Undo them; called by Dask when the plugin is unregistered, or when the worker closes.

        A worker that closes may share its process with another one, which still needs them.
        """
        if worker.status in (Status.running, Status.paused):
            patches.undo("worker")
