"""Recognize errors which mean that a GPU library lacks something that NumPy or pandas has.

The patterns were collected from the docstring examples of Dask that fail on an H200
(benchmarks/results/2026-11-21-docstring-examples-h200.json).
"""

from __future__ import annotations

import re
import sys
from traceback import walk_tb
from types import ModuleType, TracebackType
from typing import Any

import numpy as np
import pandas as pd

from ..device_errors import is_device_error, is_out_of_device_memory
from ..errors import GpuDaskError
from ..inspection.placement import is_type_of_gpu

POSSIBLE = (
    TypeError,
    ValueError,
    NotImplementedError,
    AttributeError,
    IndexError,
    OverflowError,
    RuntimeError,
    SyntaxError,
    StopIteration,
)
"""Classes of such errors; Numba has classes of its own."""

_OF_ARGUMENT = re.compile("<class '(cupy|cudf)|'ndarray' object cannot be interpreted as an integer")
_GIVEN_ARGUMENTS = ("dask", "numpy", "pandas", "scipy")
"""Packages that refuse an argument by naming its type."""
_CONVERTING = ("numpy", "pandas", "scipy")
"""Packages that raise an error of their own for that of a conversion."""

_LIBRARIES = ("cupy", "cupyx", "cudf", "dask_cudf", "pylibcudf")
_USED_BY_CUDF = ("pyarrow", "ast")
_OF_CPU = ("numpy", "pandas")
"""Packages that a GPU library calls, too, for example for the columns of a result, and that raise the error there."""

_CALLING_CUDF = ("dask", __name__.partition(".")[0])
"""Packages that call a function of cuDF with the arguments of one of pandas."""

_COMPILERS = ("cuda", "llvmlite", "numba", "numba_cuda", "numba_cuda_mlir")
"""Packages that compile the functions of users for cuDF."""
_OF_COMPILER = re.compile(r"^(nvjitlink|nvrtc|nvvm|linker)\w*error$", re.IGNORECASE)
_OF_CUPY_COMPILER = "cupy.cuda.compiler.CompileException"
_PLACE_OF_COMPILER = re.compile(r"^\S+\(\d+\): error: ")
_OF_DEVICE = ".cudadrv."
"""Part of the modules of Numba whose errors are those of the device, unless they have one of these names."""
_COLOUR = re.compile(r"\x1b\[\d*m")

_CALLER = "dask._task_spec"  # it calls the function of a task, and lacks nothing
_OF_NUMPY = re.compile(
    r"no implementation found for '.*' on types that implement __array_function__: \[.*(cupy|cudf)"
    r"|operand type\(s\) all returned NotImplemented from __array_ufunc__"
    r"|(Argument '.*' has incorrect type|unexpected keyword|does not support|Unsupported).*cupy"
    r"|cannot concatenate object of type '<class 'cudf"
    r"|[Cc]annot determine Numba type of <class '(cupy|cudf)"
    r"|Grouping by an unaligned column"  # of Dask, which compares an index of cuDF with one of pandas
    r"|requires .*\bnp\.ndarray\b.* got ndarray"  # of pandas, which accepts that of NumPy
    r"|unhashable type: 'ndarray'"  # an element of CuPy; one of NumPy is a number
)
_OF_SIGNATURE = re.compile(
    r"^(\w+)(\.\w+)?\(\) (got an unexpected keyword argument|takes .*positional argument|missing \d+ required)"
)
_ACCESSORS = ("CategoricalAccessor", "DatetimeProperties", "StringMethods", "TimedeltaProperties")
_OF_CUDF = re.compile("^CUDF failure")
_OF_METADATA = re.compile("Failed to generate metadata|Metadata inference failed|An error occurred while calling the")
_LENGTH = 200
_CYCLE = 30
"""The functions at the end of an endless recursion among which is each of those that call each other."""


class DifferentResultError(NotImplementedError):
    """Raised by a function of this package if cuDF's result for its partition differs from pandas."""


def implemented(result: Any) -> Any:
    """A result, unless it is `NotImplemented`, as of cuDF's methods for operands of NumPy and pandas."""
    if result is NotImplemented:
        raise DifferentResultError("the GPU library does not implement it for these operands")
    return result


def reason_to_fall_back(error: BaseException) -> str:
    """What a GPU library says that it lacks; empty for every other error.

    Errors of memory and of the device are never a lack. Of a `RuntimeError` only `NotImplementedError`, and cuDF's
    errors about its input and about functions that it cannot compile, are one; so is every error of a compiler that it
    has called. An error that the user's code raises is none either: what counts is where the error was raised, not
    which functions are on the stack.
    """
    if isinstance(error, GpuDaskError | MemoryError):
        return ""
    if isinstance(error, DifferentResultError):
        return str(error)
    text = _PLACE_OF_COMPILER.sub("", _COLOUR.sub("", str(error)))
    if is_device_error(text) or is_out_of_device_memory(text):
        return ""
    if _is_of_compiler(type(error)):
        is_lack = _raised_in(error.__traceback__) in _LIBRARIES or bool(_OF_NUMPY.search(text))
    elif not isinstance(error, POSSIBLE):
        is_lack = False
    elif isinstance(error, RuntimeError) and not isinstance(error, NotImplementedError):
        is_lack = _is_of_cudf(error, text)
    elif isinstance(error, AttributeError) and _is_of_library(error.obj):
        is_lack = True
    else:
        is_lack = _is_of_input(error, text) or bool(_OF_NUMPY.search(text)) or _is_of_signature(error, text)
    cause = error.__cause__
    if not is_lack and cause is not None and _raised_in(error.__traceback__) in _CONVERTING:
        return reason_to_fall_back(cause)  # as of SciPy's sparse arrays, for what they cannot convert
    return f"{type(error).__name__}: {text}".splitlines()[0][:_LENGTH] if is_lack else ""


def reason_behind(error: BaseException) -> str:
    """As `reason_to_fall_back`, also for an error of Dask that says so while it infers metadata."""
    reason = reason_to_fall_back(error)
    if reason or not _OF_METADATA.match(str(error)):
        return reason
    causes = [cause for cause in (error.__cause__, error.__context__) if cause is not None]
    return next(filter(None, map(reason_behind, causes)), "")


def _is_of_compiler(kind: type) -> bool:
    """Whether it is an error of CuPy's or Numba's compiler, or of the libraries of CUDA by which they compile."""
    if f"{kind.__module__}.{kind.__name__}" == _OF_CUPY_COMPILER:
        return True
    package = kind.__module__.partition(".")[0]
    is_of_numba = package.startswith("numba") and _OF_DEVICE not in kind.__module__
    return is_of_numba or (package in _COMPILERS and bool(_OF_COMPILER.match(kind.__name__)))


def _is_of_cudf(error: RuntimeError, text: str) -> bool:
    """Whether cuDF refuses its input, such as objects into which it looks without end, or cannot compile a function."""
    if isinstance(error, RecursionError):  # raised in whatever function the library has called last
        return any(name.partition(".")[0] in _LIBRARIES for name in _modules(error.__traceback__)[-_CYCLE:])
    name = f"{type(error).__module__}.{type(error).__name__}"
    return name == "cudf.core.udf.utils.UDFError" or (type(error) is RuntimeError and bool(_OF_CUDF.search(text)))


def _is_of_input(error: BaseException, text: str) -> bool:
    """Whether a GPU library raised the error, or a library of the CPU one about the type of an argument."""
    raised_in = _raised_in(error.__traceback__)
    is_type = isinstance(error, TypeError) and bool(_OF_ARGUMENT.search(text))
    return raised_in in _LIBRARIES or (is_type and raised_in in _GIVEN_ARGUMENTS)


def _is_of_signature(error: BaseException, text: str) -> bool:
    """Whether a function of CuPy or cuDF has other parameters than that of NumPy or pandas: no code of it has run."""
    match = _OF_SIGNATURE.match(text) if isinstance(error, TypeError) else None
    if match is None:
        return False
    name = match[1]
    if hasattr(np, name) and hasattr(sys.modules.get("cupy"), name):
        return True
    is_of_cudf = name in _ACCESSORS or (hasattr(pd, name) and hasattr(sys.modules.get("cudf"), name))
    return is_of_cudf and _raised_in(error.__traceback__) in _CALLING_CUDF


def _is_of_library(owner: object) -> bool:
    if isinstance(owner, ModuleType):
        return owner.__name__.partition(".")[0] in _LIBRARIES
    return is_type_of_gpu(type(owner))


def _raised_in(traceback: TracebackType | None) -> str:
    """The package whose code raised the error; if it is PyArrow, Python's parser or a compiler, the one that called it.

    Likewise if it is NumPy or pandas, and a GPU library called it.
    """
    raised_in = ""
    for module in _modules(traceback):
        package = module.partition(".")[0]
        is_called = package in _USED_BY_CUDF or package in _COMPILERS or module == _CALLER
        if not is_called and not (package in _OF_CPU and raised_in in _LIBRARIES):
            raised_in = package
    return raised_in


def _modules(traceback: TracebackType | None) -> list[str]:
    """The module of each function of a traceback."""
    # A frame of Cython may have no globals; its code has the full name: pylibcudf.io.csv.read_csv.
    return [frame.f_globals.get("__name__") or frame.f_code.co_name for frame, _ in walk_tb(traceback)]
