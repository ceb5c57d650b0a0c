"""The GPU of a worker."""

from __future__ import annotations

from typing import Any

from ..errors import GpuUnavailableError
from ..machine.gpus import visible_gpus


def first_device() -> dict[str, Any] | None:
    """Index, UUID and product name of the GPU that is device 0 of this process; `None` without a GPU."""
    try:
        gpu = next(iter(visible_gpus()), None)
    except GpuUnavailableError:
        return None
    return None if gpu is None else {"index": gpu.index, "uuid": gpu.uuid, "name": gpu.name}
