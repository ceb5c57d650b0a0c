"""Record the profile of a cell in the kernel: start and end the recording of its cluster."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from .combine import combine
from .scheduler_plugin import start_recording, stop_recording

if TYPE_CHECKING:
    from distributed import Client

    from .measurements import CellProfile

_START_TIMEOUT = 6.0
_STOP_TIMEOUT = 10.0


class Recording:
    """The recording of one cell.

    Parameters
    ----------
    client
        A client of the cluster.
    on_gpus
        Whether the workers have GPUs.
    """

    def __init__(self, client: Client, *, on_gpus: bool) -> None:
        self._client, self._on_gpus = client, on_gpus

    def start(self) -> None:
        """Start to record; raises what Dask raises if the cluster does not respond."""
        self._run(start_recording, _START_TIMEOUT, on_gpus=self._on_gpus)
        self._began = time.monotonic()

    def stop(self) -> CellProfile | None:
        """End it, and return the profile; `None` if another cell was profiled meanwhile."""
        duration = time.monotonic() - self._began
        recorded = self._run(stop_recording, _STOP_TIMEOUT)
        return None if recorded is None else combine(duration, *recorded, on_gpus=self._on_gpus)

    def _run(self, function: Any, limit: float, **options: Any) -> Any:
        client = self._client
        run_on_scheduler = client._run_on_scheduler  # noqa: SLF001 - the public one has no timeout
        return client.sync(run_on_scheduler, function, client.id, callback_timeout=limit, **options)
