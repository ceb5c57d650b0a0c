"""Decide whether a task calls a function of an installed package or one of the user."""

from __future__ import annotations

import functools
import sys
from pathlib import Path
from typing import Any

from ..inspection.placement import is_type_of_gpu

_FOLDERS = {"site-packages", "dist-packages"}
"""Where Python's installers put packages."""

_OF_THE_USER = {"__main__", "__mp_main__"}
"""Modules of the user's code, also where Python was started as ``python -m PACKAGE``, as some workers are."""


def is_of_installed_package(value: Any) -> bool:
    """Whether an object, and the functions of which it is made, belong to installed packages or to Python.

    The class of an object counts, of a function its module, and of a method the class of its object.
    """
    if isinstance(value, functools.partial):
        return all(map(is_of_installed_package, (value.func, *value.args, *value.keywords.values())))
    if is_type_of_gpu(type(value)):
        return True
    # A function that wraps another one has its ``__module__``.
    code = getattr(value, "__globals__", None)
    module = code.get("__name__", "") if code else getattr(value, "__module__", None) or type(value).__module__
    inner = (getattr(value, name, None) for name in ("__self__", "__wrapped__", "pyfunc"))  # `numpy.vectorize.pyfunc`
    return _is_installed(str(module).partition(".")[0]) and all(
        is_of_installed_package(part) for part in inner if part is not None
    )


@functools.lru_cache(maxsize=1024)
def _is_installed(package: str) -> bool:
    if package in _OF_THE_USER:
        return False
    if package in sys.stdlib_module_names:
        return True
    spec = getattr(sys.modules.get(package), "__spec__", None)
    folders = [getattr(spec, "origin", None) or "", *(getattr(spec, "submodule_search_locations", None) or ())]
    return any(_FOLDERS.intersection(Path(folder).parts) for folder in folders)
