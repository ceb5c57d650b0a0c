"""Which GPU the kernel itself uses: CuPy and cuDF use device 0, which is the first in ``CUDA_VISIBLE_DEVICES``."""

from __future__ import annotations

import ctypes
import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

_NOT_INITIALIZED = 3  # CUDA_ERROR_NOT_INITIALIZED


def set_first_device(gpus: Sequence[str]) -> None:
    """Make the first of `gpus` device 0 of this process, unless CUDA is initialized already.

    Results that are moved to the kernel are then on a GPU that its cluster holds, and not on a GPU that another cluster
    holds. All other GPUs stay visible.

    Parameters
    ----------
    gpus
        UUIDs of the cluster's GPUs.
    """
    if not gpus:
        return
    from ..machine.gpus import visible_gpus

    visible = [gpu.uuid for gpu in visible_gpus()]
    first = [uuid for uuid in gpus if uuid in visible][:1]
    if first and first != visible[:1] and not _is_initialized():
        os.environ["CUDA_VISIBLE_DEVICES"] = ",".join([*first, *(uuid for uuid in visible if uuid not in first)])


def _is_initialized() -> bool:
    """Whether CUDA is initialized in this process; from then on it ignores changes of ``CUDA_VISIBLE_DEVICES``.

    Source: CUDA Driver API, "Initialization": before, all other functions return ``CUDA_ERROR_NOT_INITIALIZED``.
    """
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return False
    return int(driver.cuDeviceGetCount(ctypes.byref(ctypes.c_int()))) != _NOT_INITIALIZED
