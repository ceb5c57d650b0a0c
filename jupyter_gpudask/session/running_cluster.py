"""A cluster that is up, as the kernel sees it."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Future

    from ..client.kernel_client import KernelClient
    from ..launcher.cluster_process import ClusterProcess
    from ..protocol import ClusterSpec, Ready
    from .attach import ServerCluster


_FORGET_LIMIT = 0.1


@dataclass
class RunningCluster:
    """A cluster that is up, and this kernel's client of it."""

    process: ServerCluster | ClusterProcess
    client: KernelClient
    stand_in_told: bool = False

    @property
    def ready(self) -> Ready:
        """What came up."""
        return self.process.ready

    @property
    def spec(self) -> ClusterSpec:
        """What was asked for."""
        return self.process.spec

    @property
    def tasks_submitted(self) -> int:
        """How many tasks the scheduler has made of what this kernel's client submitted."""
        return self.client.tasks_submitted

    def disconnect(self, end: str, timeout: float) -> None:
        """Close the client of a cluster that is no more.

        Parameters
        ----------
        end
            What happened to the cluster, as a sentence for those who wait for results.
        timeout
            Seconds.
        """
        self.client.end = end
        self.client.close(timeout=timeout)

    def wait_until_counted(self, limit: float) -> None:
        """Wait until `tasks_submitted` has all that was submitted, at most `limit` seconds."""
        if self.client.status == "running":
            self.client.wait_until_counted(limit)

    def forget_peaks(self) -> None:
        """Have `take_peaks` tell of what happens from now on; workers that are busy are not waited for."""
        if self.ready.engine == "cuda" and self.client.status == "running":
            from ..worker.allocator import take_peak

            with suppress(Exception):  # a metric that cannot be had must not end a cell with an error
                self._ask(take_peak).result(_FORGET_LIMIT)

    def take_peaks(self, limit: float) -> dict[str, int]:
        """The most device memory that each worker's allocator had handed out, in bytes, since this was asked last.

        Parameters
        ----------
        limit
            Seconds after which a worker that does not answer is left out.
        """
        from ..worker.allocator import take_peak

        answers = self.ask_workers(take_peak, limit) if self.ready.engine == "cuda" else {}
        return {name: peak for name, peak in answers.values() if peak is not None}

    def ask_workers(self, function: Callable[..., Any], limit: float) -> dict[str, Any]:
        """What `function` gives in each worker, by address, of those that answer within `limit` seconds."""
        if self.client.status != "running":
            return {}
        end = time.monotonic() + limit
        asked = {
            address: self._ask(function, workers=[address]) for address in self.client.scheduler_info(-1)["workers"]
        }
        answers: dict[str, Any] = {}
        for question in asked.values():
            try:
                answers |= question.result(max(0.0, end - time.monotonic()))
            except Exception:  # noqa: BLE001 - a metric that cannot be had must not end a cell with an error
                question.cancel()
        return answers

    def _ask(self, function: Callable[..., Any], **options: Any) -> Future[Any]:
        loop: Any = self.client.loop
        asking = self.client._run(function, on_error="ignore", **options)  # noqa: SLF001 - `run` waits without a limit
        return asyncio.run_coroutine_threadsafe(asking, loop.asyncio_loop)
