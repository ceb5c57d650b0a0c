"""On which GPU the kernel's own CUDA begins: CuPy and cuDF take the one that CUDA numbers first in this process."""

from __future__ import annotations

import ctypes
import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

_NOT_INITIALIZED = 3  # CUDA_ERROR_NOT_INITIALIZED


def number_first(gpus: Sequence[str]) -> None:
    """Have CUDA number the first of `gpus` first in this process, if it can still be told.

    What comes back from a cluster is then on a GPU that the cluster holds, and not on one that somebody else does. All
    others stay visible.

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
    if first and first != visible[:1] and not _has_begun():
        os.environ["CUDA_VISIBLE_DEVICES"] = ",".join([*first, *(uuid for uuid in visible if uuid not in first)])


def _has_begun() -> bool:
    """Whether CUDA has numbered the GPUs of this process for good, which its first call does.

    Source: CUDA Driver API, "Initialization": all other functions answer ``CUDA_ERROR_NOT_INITIALIZED`` before.
    """
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return False
    return int(driver.cuDeviceGetCount(ctypes.byref(ctypes.c_int()))) != _NOT_INITIALIZED
