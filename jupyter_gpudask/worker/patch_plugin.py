"""Applies the patches that a worker needs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from distributed import WorkerPlugin

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
