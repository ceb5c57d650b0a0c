"""The environment of a worker: its GPU, and the versions of the libraries that a cell needs."""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import Sequence
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


async def examine_libraries(names: Sequence[str]) -> dict[str, str]:
    """As `versions_of`, in a thread."""
    return await asyncio.to_thread(versions_of, names)


def versions_of(names: Sequence[str]) -> dict[str, str]:
    """Import libraries: the version of each, by name; empty for one that cannot be imported."""
    return {name: _version(name) for name in names}


def _version(name: str) -> str:
    try:
        module: Any = importlib.import_module(name)
    except Exception:  # noqa: BLE001 - a library that fails in any way cannot be used
        return ""
    return str(getattr(module, "__version__", "of an unknown version"))


async def has_gpu() -> bool:
    """Whether this process sees a GPU."""
    return await asyncio.to_thread(first_device) is not None
