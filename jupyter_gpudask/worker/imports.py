"""What a worker imports after its start, and from where: the kernel's path, and cuDF before the first graph or task.

A start and queries of Polars do not wait for cuDF. Large libraries are imported in the event loop, which also unpickles
what is sent, and starts the threads of tasks: no thread then waits for an import of the loop while the loop waits for
one of that thread.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from importlib import import_module
from typing import Any

from distributed import Worker, WorkerPlugin


class PathPlugin(WorkerPlugin):
    """Puts the kernel's import path in front of the worker's; registering another one replaces it.

    It is registered after the worker has imported its own modules, so that a user's file cannot shadow a module of
    Python or Dask.
    """

    name = "gpudask-path"

    def __init__(self, path: Sequence[str]) -> None:
        self._path = list(path)
        self._before: list[str] = []

    def setup(self, worker: Worker) -> None:  # noqa: ARG002 - as Dask calls it
        """Change the path; called by Dask when the worker has started."""
        self._before = sys.path[:]
        own = [folder for folder in sys.path if folder not in self._path]
        sys.path[:] = self._path + own

    def teardown(self, worker: Worker) -> None:  # noqa: ARG002 - as Dask calls it
        """Change it back; called by Dask when another one replaces this one, or when the worker closes."""
        sys.path[:] = self._before

    @contextmanager
    def as_before(self) -> Iterator[None]:
        """Import from the worker's own path in the ``with`` block, which runs in the event loop."""
        changed, sys.path[:] = sys.path[:], self._before
        try:
            yield
        finally:
            sys.path[:] = changed


def import_in_loop(worker: Worker, *names: str) -> None:
    """Import modules from the worker's own path, where no file of the user has their names; called in its event loop.

    What uses one that cannot be imported raises the error again.
    """
    path = worker.plugins.get(PathPlugin.name)
    with path.as_before() if isinstance(path, PathPlugin) else nullcontext():
        for name in names:
            with suppress(Exception):
                import_module(name)


class CudfPlugin(WorkerPlugin):
    """Imports cuDF when the worker gets its first task, and dask_cudf with it, which registers functions for cuDF."""

    name = "gpudask-cudf"
    is_imported = False

    def setup(self, worker: Worker) -> None:
        """Remember the worker; called by Dask when the worker has joined the scheduler, before it gets tasks."""
        self._worker = worker

    def transition(self, *_: Any, **__: Any) -> None:
        """Called by Dask when the state of a task changes, first when the worker has received it."""
        if not self.is_imported:
            import_in_loop(self._worker, "cudf", "dask_cudf")
            self.is_imported = True


def import_cudf(dask_worker: Worker) -> None:
    """Import cuDF in a worker that has the plugin; called in its event loop, before a thread of it may need cuDF."""
    plugin = dask_worker.plugins.get(CudfPlugin.name)
    if isinstance(plugin, CudfPlugin):
        plugin.transition()
