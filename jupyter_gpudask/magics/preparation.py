"""What the kernel itself needs for a cluster, done while the cluster starts."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

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
        self._thread: threading.Thread | None = None
        self._error: BaseException | None = None

    def begin(self, engine: str) -> None:
        """Begin, if it has not begun yet, for a cluster of this engine."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, args=(engine,), name="gpudask-imports", daemon=True)
            self._thread.start()

    def wait(self, meanwhile: Callable[[], None]) -> None:
        """Wait until it is done, and call `meanwhile` ten times a second; raises what went wrong."""
        while self._thread is not None and self._thread.is_alive():
            self._thread.join(_POLL)
            meanwhile()
        if self._error is not None:
            raise self._error

    def _run(self, engine: str) -> None:
        try:
            from ..cluster import connection  # noqa: F401

            if engine == "cuda":
                from ..backends import prepare_gpu_backends

                prepare_gpu_backends(spilling=self._spec.spilling)
        except BaseException as error:  # noqa: BLE001 - raised where it is waited for
            self._error = error
