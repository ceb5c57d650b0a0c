"""Moves between host and device memory within a task, reported to Dask's metrics of the task.

Dask's dashboard shows them as fine performance metrics, and ``%%gpudask --profile`` in its table.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from distributed.metrics import context_meter

if TYPE_CHECKING:
    from collections.abc import Iterator

TO_GPU = "host-to-device"
TO_HOST = "device-to-host"


@contextmanager
def transfer(label: str, size: int) -> Iterator[None]:
    """Measure the move of `size` bytes in this context.

    Parameters
    ----------
    label
        `TO_GPU` or `TO_HOST`.
    size
        In bytes.
    """
    with context_meter.meter(label):
        yield
    context_meter.digest_metric(label, size, "bytes")
