"""What the kernel itself needs for a cluster, done while the cluster starts."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from ..errors import GpuUnavailableError

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..models import ClusterSpec

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
        self._thread = threading.Thread(target=self._run, name="gpudask-imports", daemon=True)
        self._thread.start()

    def wait(self, meanwhile: Callable[[], None]) -> None:
        """Wait until it is done, and call `meanwhile` ten times a second; raises what went wrong."""
        while self._thread.is_alive():
            self._thread.join(_POLL)
            meanwhile()
        if self._error is not None:
            raise self._error

    def _run(self) -> None:
        try:
            if self._will_use_gpus():
                from ..backends import prepare_gpu_backends

                prepare_gpu_backends(spilling=self._spec.spilling)
            from ..cluster import connection  # noqa: F401
        except BaseException as error:  # noqa: BLE001 - raised where it is waited for
            self._error = error

    def _will_use_gpus(self) -> bool:
        from ..gpus import visible_gpus

        try:
            return self._spec.engine != "cpu" and bool(visible_gpus())
        except GpuUnavailableError:
            return False
