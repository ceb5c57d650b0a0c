"""The local variables of a stack frame, read safely on every Python release."""

from __future__ import annotations

import dis
import sys
from functools import lru_cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from types import CodeType, FrameType

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
