"""What the kernel itself needs for a cluster, done while the cluster starts."""

from __future__ import annotations

import importlib
import threading
from contextlib import suppress
from typing import TYPE_CHECKING

from ..errors import GpuUnavailableError
from .device_order import number_first

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..protocol import ClusterSpec, Progress, Ready

_POLL = 0.1


class Preparation:
    """Imports Dask, and for GPUs CuPy and cuDF, in a thread of its own: seconds that the first cell would wait else.

    No other code of the user's runs meanwhile, so that no import can meet another half-way.

    Parameters
    ----------
    spec
        The cluster that is being started.
    """

    def __init__(self, spec: ClusterSpec) -> None:
        self._spec = spec
        self._error: BaseException | None = None
        self._chosen = threading.Event()
        self._gpus: tuple[str, ...] | None = None
        self._thread = threading.Thread(target=self._run, name="gpudask-imports", daemon=True)
        self._thread.start()

    def learn(self, news: Progress | Ready) -> None:
        """Hear what the cluster will be; the first news counts."""
        if not self._chosen.is_set():
            uuids = tuple(gpu if isinstance(gpu, str) else gpu.uuid for gpu in news.gpus)
            self._gpus = uuids if news.engine == "cuda" else None
            self._chosen.set()

    def abandon(self) -> None:
        """There will be no cluster."""
        self._chosen.set()

    def wait(self, meanwhile: Callable[[], None]) -> None:
        """Wait until it is done, and call `meanwhile` ten times a second; raises what went wrong."""
        while self._thread.is_alive():
            self._thread.join(_POLL)
            meanwhile()
        if self._error is not None:
            raise self._error

    def _run(self) -> None:
        try:
            from ..client import connect as connection  # noqa: F401

            if not self._will_use_gpus():
                return
            for name in ("dask.dataframe", "cupy"):  # those whose import does not begin with CUDA
                with suppress(Exception):  # a cell that needs it gets the error itself
                    importlib.import_module(name)
            self._chosen.wait()
            if self._gpus is not None:
                number_first(self._gpus)
                from ..switch.gpu_libraries import prepare_gpu_backends

                prepare_gpu_backends(spilling=self._spec.spilling)
        except BaseException as error:  # noqa: BLE001 - raised where it is waited for
            self._error = error

    def _will_use_gpus(self) -> bool:
        from ..machine.gpus import visible_gpus

        try:
            return self._spec.engine != "cpu" and bool(visible_gpus())
        except GpuUnavailableError:
            return False
