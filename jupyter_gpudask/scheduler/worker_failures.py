"""Which workers have had tasks that failed for want of device memory."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from distributed import SchedulerPlugin

if TYPE_CHECKING:
    from collections import Counter

# In the words of CuPy and PyTorch, of RMM, of CUDA's runtime and of its driver. Host memory has others.
_WORDS = re.compile(r"^OutOfMemoryError\(|out_of_memory: |cudaErrorMemoryAllocation|CUDA_ERROR_OUT_OF_MEMORY")
_LONGEST_TEXT = 4000


class OutOfMemoryPlugin(SchedulerPlugin):
    """Counts them as the scheduler hears of them. It reads what the worker wrote of the error, and unpickles nothing.

    Parameters
    ----------
    scheduler
        Whose tasks they are.
    counts
        Has how many there were, by the name of the worker. A task that is tried again counts when it fails for good.
    """

    name = "gpudask-out_of_memory"

    def __init__(self, scheduler: Any, counts: Counter[str]) -> None:
        self._scheduler = scheduler
        self._counts = counts

    def transition(self, key: Any, start: str, finish: str, *args: Any, **kwargs: Any) -> None:  # noqa: ARG002 - Dask's
        """Called by Dask for every step of every task; those that need the failed one have no text."""
        if finish == "erred" and start == "processing" and tells_of_device_memory(kwargs.get("exception_text")):
            worker = self._scheduler.workers.get(kwargs.get("worker"))
            if worker is not None:
                self._counts[str(worker.name)] += 1


def tells_of_device_memory(text: str | None) -> bool:
    """Whether that is the `repr` of an exception which says that device memory is used up."""
    return text is not None and _WORDS.search(text[:_LONGEST_TEXT]) is not None
