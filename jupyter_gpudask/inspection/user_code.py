"""The user's code: the line that called Dask, its variables, and whether an error is that of a GPU library."""

from __future__ import annotations

import dis
import re
import sys
from collections.abc import Iterator
from functools import lru_cache
from traceback import walk_tb
from types import CodeType, FrameType
from typing import Any, Literal

from dask.base import is_dask_collection
from dask.utils import key_split

from ..device_errors import is_device_error, is_out_of_device_memory
from ..errors import GpuDaskError
from .placement import Place, ancestors, kind_of, name_of, place_of

# https://github.com/python/cpython/issues/128396
_READING_MAY_CRASH = (3, 13) <= sys.version_info < (3, 13, 3)


def local_variables(frame: FrameType) -> dict[str, Any]:
    """Values of the local variables of a stack frame, by name.

    Python 3.13.0 to 3.13.2 crash on reading a closure variable while a comprehension has a variable of that name, as
    in `dask.array.core.unify_chunks`; on these versions such variables are left out.
    """
    variables = frame.f_locals
    if not _READING_MAY_CRASH or isinstance(variables, dict):  # those of a module, which other threads may change
        return dict(variables)
    unsafe = _shared_with_comprehensions(frame.f_code)
    return {name: variables[name] for name in variables if name not in unsafe}


@lru_cache(maxsize=1000)
def _shared_with_comprehensions(code: CodeType) -> frozenset[str]:
    """Names of closure variables that are also variables of comprehensions in the same function."""
    if not code.co_cellvars:
        return frozenset()
    inlined = {step.argval for step in dis.get_instructions(code) if step.opname == "LOAD_FAST_AND_CLEAR"}
    return frozenset(inlined.intersection(code.co_cellvars))


_LIBRARIES = (
    "dask",
    "dask_cudf",
    "distributed",
    "jupyter_gpudask",
    "numpy",
    "pandas",
    "polars",
    "functools",
    "contextlib",
)
_MAIN = "__main__"


def user_frame() -> FrameType | None:
    """The stack frame that called a library; preferably one of the notebook or script itself."""
    frame: FrameType | None = sys._getframe(1)  # noqa: SLF001
    while frame is not None and _library_of(frame) in _LIBRARIES:
        frame = frame.f_back
    called = frame
    while frame is not None and frame.f_globals.get("__name__") != _MAIN:
        frame = frame.f_back
    return frame or called


def user_line() -> int:
    """The line of the cell or script that made the call; 0 if there is none."""
    frame = user_frame()
    line = 0 if frame is None else frame.f_lineno
    outer = frame
    while frame is not None and outer is not None:
        if outer.f_globals is frame.f_globals:
            line = outer.f_lineno
        outer = outer.f_back
    return line


def names_of(value: Any) -> list[str]:
    """The name of the user's variable for `value`; else the names of its input collections on the same device."""
    named = list(_variables())
    exact = [name for name, other in named if other is value]
    if exact or not is_dask_collection(value):
        return exact[:1]
    return names_behind(value)[place_of(value)]


def description_of(collection: Any) -> str:
    """What to call a collection that no variable names, such as by the user's function that returns its blocks."""
    kind = "an array" if kind_of(collection) == "array" else "a dataframe"
    function = key_split(name_of(collection))
    is_of_user = any(name == function and callable(value) for name, value in _variables())
    return f"{kind} that {function} returns" if is_of_user else f"{kind} without a name"


def names_behind(value: Any) -> dict[Place | None, list[str]]:
    """The names of the user's variables for the input collections of `value`, by device."""
    parts = ancestors(value)
    found: dict[Place | None, list[str]] = {"host": [], "gpu": [], None: []}
    for name, other in _variables():
        # The class first: attribute access on a user's object may raise any exception.
        if hasattr(type(other), "_meta") and is_dask_collection(other) and name_of(other) in parts:
            names = found[place_of(other)]
            names += [] if name in names else [name]
    return found


def _variables() -> Iterator[tuple[str, Any]]:
    frame = user_frame()
    if frame is None:
        return
    yield from ((name, value) for name, value in local_variables(frame).items() if not name.startswith("_"))
    if frame.f_globals is not frame.f_locals:
        yield from ((name, value) for name, value in list(frame.f_globals.items()) if not name.startswith("_"))


def _library_of(frame: FrameType) -> str:
    name: str = frame.f_globals.get("__name__", "")
    return name.partition(".")[0]


_ERRORS = (TypeError, RuntimeError, AttributeError, ValueError)  # a NotImplementedError is a RuntimeError
_LIBRARIES_OF_GPUS: dict[str, Literal["cupy", "cudf"]] = {"cupy": "cupy", "cudf": "cudf", "dask_cudf": "cudf"}
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
    text = str(error)
    is_of_gpu = is_device_error(text) or is_out_of_device_memory(text)  # and of no library
    if not isinstance(error, _ERRORS) or isinstance(error, GpuDaskError) or is_of_gpu:
        return None
    if text.startswith(_CONVERSION) and _is_of_a_result(error):
        return "result"
    if "NotImplemented from __array_" in text:  # a function that CuPy's arrays do not support
        return "cupy"
    if "Failed to generate metadata" in text:  # Dask chains the two errors
        return library_behind(error.__cause__)
    if "inference failed" in text:  # Dask's message contains the error with its traceback
        files = _FILE.findall(text)
        return _LIBRARIES_OF_GPUS[files[-1]] if files else None
    packages = [_library_of(frame) for frame, _ in walk_tb(error.__traceback__)]
    innermost = [package for package in packages if package in (*_LIBRARIES_OF_GPUS, *_OTHERS)][-1:]
    return _LIBRARIES_OF_GPUS.get(innermost[0]) if innermost else None


def _is_of_a_result(error: BaseException) -> bool:
    """Whether it was raised outside of a computation: the traceback of a task starts where its result was awaited."""
    frames = [frame for frame, _ in walk_tb(error.__traceback__)]
    of_dask = (frame for frame in frames if _library_of(frame) in ("dask", "distributed"))
    return all(frame.f_code.co_name == "__array__" for frame in of_dask)
