"""Recognize errors of a GPU itself and of its memory, by their texts: a library lacks nothing then.

Sources: CUDA Runtime API, `cudaError_t` (the errors that leave the process in an inconsistent state); CUDA Driver API,
`CUresult`; NVIDIA XID errors.
"""

from __future__ import annotations

import re
import sys
from typing import Any

_NAMES = [
    "Assert",
    "AssertionFailed",
    "Contained",
    "DevicesUnavailable",
    "ECCUncorrectable",
    "ExternalDevice",
    "HardwareStackError",
    "IllegalAddress",
    "IllegalInstruction",
    "InvalidAddressSpace",
    "InvalidPc",
    "LaunchFailure",
    "LaunchTimeout",
    "MisalignedAddress",
    "MpsClientTerminated",
    "NvlinkUncorrectable",
    "TensorMemoryLeak",
]
_WORDS = (
    "an illegal memory access was encountered",
    "an illegal instruction was encountered",
    "device-side assert triggered",
    "fallen off the bus",
    "misaligned address",
    "GPU is lost",
    "uncorrectable ECC error",
    "unspecified launch failure",
)
_OF_DEVICE = re.compile(
    "|".join(
        [
            *(f"cudaError{name}" for name in _NAMES),
            *("CUDA_ERROR_" + re.sub(r"(?<=[a-z])(?=[A-Z])|(?<=C)(?=U)", "_", name).upper() for name in _NAMES),
            *_WORDS,
        ]
    )
)
# The messages of CuPy and PyTorch, of RMM, of the CUDA runtime and of the CUDA driver. Host memory has other ones.
_OF_MEMORY = re.compile(r"^OutOfMemoryError\(|out_of_memory: |cudaErrorMemoryAllocation|CUDA_ERROR_OUT_OF_MEMORY")
_MAX_TEXT = 20_000


def is_device_error(text: str) -> bool:
    """Whether this is the text of an error after which the process cannot use its GPU any more."""
    return _OF_DEVICE.search(text[:_MAX_TEXT]) is not None


def is_out_of_device_memory(text: str) -> bool:
    """Whether this text, or `repr`, of an exception says that device memory is exhausted."""
    return _OF_MEMORY.search(text[:_MAX_TEXT]) is not None and not is_device_error(text)


def out_of_device_memory_in(error: BaseException) -> BaseException | None:
    """The outermost exception that says that device memory is exhausted: this one, one of its group, or a cause."""
    found: list[BaseException | None] = [error]
    seen: set[int] = set()
    for each in found:  # which grows
        if each is None or id(each) in seen:
            continue
        seen.add(id(each))
        if is_out_of_device_memory(str(each)):
            return each
        found += [*(each.exceptions if isinstance(each, BaseExceptionGroup) else ()), each.__cause__]
    return None


def broken_context(*, wait: bool = True) -> str:
    """The error that has broken the CUDA context; empty if it works, or if this process has not imported CuPy.

    Such an error, as of an illegal address, is returned by each later call of CUDA until the process ends. This thread
    must have used CUDA, or the process gets a context.

    `wait`: whether to wait until the GPU has done what it was given, which may be what breaks the context.
    """
    cuda: Any = getattr(sys.modules.get("cupy"), "cuda", None)
    if cuda is None:
        return ""
    reason = ""
    try:
        if wait:
            cuda.runtime.deviceSynchronize()
        elif status := cuda.runtime.streamQuery(0):  # also while the GPU computes
            reason = str(cuda.runtime.CUDARuntimeError(status))
    except Exception as error:  # noqa: BLE001 - of CUDA
        reason = str(error)
    return reason if is_device_error(reason) else ""


def uses_cuda() -> bool:
    """Whether this thread has a CUDA context, by CuPy or a library beside it."""
    cuda: Any = getattr(sys.modules.get("cupy"), "cuda", None)
    if cuda is None:
        return False
    try:
        return bool(cuda.driver.ctxGetCurrent())
    except Exception as error:  # noqa: BLE001 - CUDA is not initialized, or the context is broken
        return is_device_error(str(error))
