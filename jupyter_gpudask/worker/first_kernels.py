"""Compile and load what every notebook needs, while a new worker has nothing to do.

CuPy compiles a kernel when it is needed for the first time: a reduction takes some seconds on a machine that has never
run it, and some milliseconds when it is in ``~/.cupy/kernel_cache``, where it is kept.
"""

from __future__ import annotations

import fcntl
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from distributed import WorkerPlugin

from .imports import CudfPlugin, import_cudf

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from distributed import Worker

_PAUSE = 1.0
_SHAPE = 64, 4096  # CuPy compiles another kernel for rows of fewer than 2,048 numbers


class FirstKernelsPlugin(WorkerPlugin):
    """Runs small computations in a thread of its own; the other workers of the machine wait, and find the kernels."""

    name = "gpudask-first-kernels"

    def __init__(self) -> None:
        self._is_closed: Any = None

    def setup(self, worker: Worker) -> None:
        """Called by Dask when the worker has joined the scheduler."""
        self._is_closed = threading.Event()
        threading.Thread(target=self._run, args=(worker,), name=self.name, daemon=True).start()

    def teardown(self, worker: Worker) -> None:  # noqa: ARG002 - as Dask calls it
        """Called by Dask when the worker closes."""
        self._is_closed.set()

    def _run(self, worker: Worker) -> None:
        self._is_closed.wait(_PAUSE)  # what starts the cluster comes first
        self._wait_for_cudf(worker)
        with suppress(Exception), (_cache() / "jupyter_gpudask.lock").open("w") as lock:
            while not self._is_closed.is_set():
                try:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    self._is_closed.wait(_PAUSE)
                else:
                    break
            for compute in first_computations():
                if self._is_closed.is_set():
                    return
                with suppress(Exception):  # of memory, or of a GPU that lacks it: a cell will say so
                    compute()

    def _wait_for_cudf(self, worker: Worker) -> None:
        """Let the event loop import cuDF; in a worker with queries of Polars, wait until a task needs it."""
        if "cudf_polars" not in sys.modules:
            loop: Any = worker.loop
            loop.add_callback(import_cudf, worker)
        plugin = worker.plugins[CudfPlugin.name]
        while not getattr(plugin, "is_imported", True) and not self._is_closed.is_set():
            self._is_closed.wait(_PAUSE)


def _cache() -> Path:
    from cupy.cuda import compiler

    folder = Path(compiler.get_cache_dir())
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def first_computations() -> Iterator[Callable[[], Any]]:
    """What most notebooks compute, the most frequent first."""
    import cudf
    import cupy

    from ..patches.shuffle import split_in_order

    for dtype in ("f8", "i8", "f4"):
        x = cupy.ones(_SHAPE, dtype)
        yield from (lambda x=x: x + x, lambda x=x: x * 2 - 1, lambda x=x: x > 0, x.T.copy, x.sum, x.max, x.min, x.mean)
        yield from (lambda x=x: x.sum(axis=0), lambda x=x: x.sum(axis=1), lambda x=x: x**2, x.std)
        yield from (x.argmax, x.argsort, x.cumsum, lambda x=x: x.mean(axis=0), lambda x=x: cupy.concatenate([x, x]))
    frame = cudf.DataFrame({"k": [1, 2, 1], "x": [1.0, 2.0, None], "t": ["a", "b", "a"]})
    groups = frame.groupby("k", sort=True)
    yield from (groups.x.sum, lambda: groups.agg({"x": ["sum", "count"]}), groups.size, frame.drop_duplicates)
    yield from (lambda: frame.merge(frame, on="k"), lambda: frame.sort_values("x"), lambda: frame[frame.x > 1])
    yield lambda: split_in_order(frame, frame.k % 2, 2, ignore_index=False)
    yield from (frame.t.str.upper, lambda: frame.t == "a", lambda: frame.x.fillna(0).sum())
