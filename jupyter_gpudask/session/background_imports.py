"""Imports of Dask, CuPy and cuDF in the kernel, in a thread that runs while the cluster starts."""

from __future__ import annotations

import importlib
import threading
from contextlib import suppress
from typing import TYPE_CHECKING

from ..errors import GpuUnavailableError
from .device_order import set_first_device

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..protocol import ClusterSpec, Progress, Ready

_POLL_INTERVAL = 0.1


class BackgroundImports:
    """Imports Dask and, for GPUs, CuPy and cuDF early, so that the first cell does not wait for these imports.

    The kernel runs no user code meanwhile, so no import meets another one that is half done.
    """

    def __init__(self, spec: ClusterSpec) -> None:
        self._spec = spec
        self._error: BaseException | None = None
        self._gpus_known = threading.Event()
        self._gpus: tuple[str, ...] | None = None
        self._thread = threading.Thread(target=self._run, name="gpudask-imports", daemon=True)
        self._thread.start()

    def on_progress(self, progress: Progress | Ready) -> None:
        """Read from the first message of the supervisor which GPUs the cluster will have; later ones are ignored.

        A start that waits for GPUs reports no number of workers.
        """
        is_waiting = getattr(progress, "total", 1) == 0
        if not self._gpus_known.is_set() and not is_waiting:
            uuids = tuple(gpu if isinstance(gpu, str) else gpu.uuid for gpu in progress.gpus)
            self._gpus = uuids if progress.engine == "cuda" else None
            self._gpus_known.set()

    def cancel(self) -> None:
        """Let the thread end without CUDA: the cluster did not start."""
        self._gpus_known.set()

    def wait(self, while_waiting: Callable[[], None]) -> None:
        """Wait for the imports, and call `while_waiting` ten times a second; raises what an import of Dask raised."""
        while self._thread.is_alive():
            self._thread.join(_POLL_INTERVAL)
            while_waiting()
        if self._error is not None:
            raise self._error

    def _run(self) -> None:
        try:
            from ..client import connect  # noqa: F401

            if not self._will_use_gpus():
                return
            for name in ("dask.dataframe", "cupy"):  # these do not initialize CUDA when they are imported
                with suppress(Exception):  # a cell that needs the library shows the error
                    importlib.import_module(name)
            self._gpus_known.wait()
            if self._gpus is not None:
                set_first_device(self._gpus)
                from ..gpu_libraries.preparation import prepare_gpu_backends

                prepare_gpu_backends(spilling=self._spec.spilling)
        except BaseException as error:  # noqa: BLE001 - raised by `wait`
            self._error = error

    def _will_use_gpus(self) -> bool:
        from ..machine.gpus import visible_gpus

        try:
            return self._spec.engine != "cpu" and bool(visible_gpus())
        except GpuUnavailableError:
            return False
