"""The CUDA context of this process: whether an error has made it unusable."""

from __future__ import annotations

import sys
from typing import Any

from ..device_errors import is_device_error


def broken_context(*, wait: bool = True) -> str:
    """The error that has broken the CUDA context; empty if it works, or if this process has not imported CuPy.

    Such an error, as of an illegal address, is returned by each later call of CUDA until the process ends. This thread
    must have used CUDA, or the process gets a context.

    Parameters
    ----------
    wait
        Whether to wait until the GPU has done what it was given, which may be what breaks the context.
    """
    cuda: Any = getattr(sys.modules.get("cupy"), "cuda", None)
    if cuda is None:
        return ""
    words = ""
    try:
        if wait:
            cuda.runtime.deviceSynchronize()
        elif status := cuda.runtime.streamQuery(0):  # also while the GPU computes
            words = str(cuda.runtime.CUDARuntimeError(status))
    except Exception as error:  # noqa: BLE001 - of CUDA
        words = str(error)
    return words if is_device_error(words) else ""


def uses_cuda() -> bool:
    """Whether this thread has a CUDA context, by CuPy or a library beside it."""
    cuda: Any = getattr(sys.modules.get("cupy"), "cuda", None)
    if cuda is None:
        return False
    try:
        return bool(cuda.driver.ctxGetCurrent())
    except Exception as error:  # noqa: BLE001 - CUDA is not initialized, or the context is broken
        return is_device_error(str(error))
