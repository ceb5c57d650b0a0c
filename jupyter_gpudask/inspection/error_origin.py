"""Find the GPU library that raised an error, because NumPy or pandas might not raise it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Literal

from ..device_errors import is_device_error, is_out_of_device_memory
from ..errors import GpuDaskError

if TYPE_CHECKING:
    from collections.abc import Iterator

_ERRORS = (TypeError, RuntimeError, AttributeError, ValueError)  # a NotImplementedError is a RuntimeError
_LIBRARIES: dict[str, Literal["cupy", "cudf"]] = {"cupy": "cupy", "cudf": "cudf", "dask_cudf": "cudf"}
_OTHERS = ("dask", "distributed", "numpy", "pandas")
_CONVERSION = "Implicit conversion to a"  # ... NumPy array, host NumPy array, host PyArrow object
_FILE = re.compile(r'File "(?:[^"]*/)?(cupy|cudf)/')


def library_behind(error: BaseException | None) -> Literal["cupy", "cudf", "result"] | None:
    """Whether CuPy or cuDF raised `error` because it does not support an operation.

    Returns
    -------
    "cupy", "cudf", "result" or None
        ``"result"`` if a result on the GPU was used as a NumPy array; running the cell without the library helps.
        `None` for errors of the user's code, of Dask, and of this package, which say what to do.
    """
    if not isinstance(error, _ERRORS) or isinstance(error, GpuDaskError) or _is_of_gpu(error):
        return None
    text = str(error)
    if text.startswith(_CONVERSION) and _is_of_a_result(error):
        return "result"
    if "NotImplemented from __array_" in text:  # a function that CuPy's arrays do not support
        return "cupy"
    if "Failed to generate metadata" in text:  # Dask chains the two errors
        return library_behind(error.__cause__)
    if "inference failed" in text:  # Dask's message contains the error with its traceback
        files = _FILE.findall(text)
        return _LIBRARIES[files[-1]] if files else None
    innermost = [package for package in _packages(error) if package in (*_LIBRARIES, *_OTHERS)][-1:]
    return _LIBRARIES.get(innermost[0]) if innermost else None


def _is_of_gpu(error: BaseException) -> bool:
    """Whether the GPU or its memory failed, and no library."""
    return is_device_error(str(error)) or is_out_of_device_memory(str(error))


def _is_of_a_result(error: BaseException) -> bool:
    """Whether it was raised outside of a computation: the traceback of a task starts where its result was awaited."""
    entry = error.__traceback__
    while entry is not None:
        name: str = entry.tb_frame.f_globals.get("__name__", "")
        if name.partition(".")[0] in ("dask", "distributed") and entry.tb_frame.f_code.co_name != "__array__":
            return False
        entry = entry.tb_next
    return True


def _packages(error: BaseException) -> Iterator[str]:
    """The package of each entry of the traceback, innermost last."""
    entry = error.__traceback__
    while entry is not None:
        name: str = entry.tb_frame.f_globals.get("__name__", "")
        yield name.partition(".")[0]
        entry = entry.tb_next
