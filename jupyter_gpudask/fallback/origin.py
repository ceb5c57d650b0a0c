"""Whether a task calls a function of an installed package, or one that the user has written."""

from __future__ import annotations

import functools
import sys
from pathlib import Path
from typing import Any

_FOLDERS = {"site-packages", "dist-packages"}
"""Where Python's installers put packages."""

_OF_THE_USER = {"__main__", "__mp_main__"}
"""Modules of the user's code, also where Python was started as ``python -m PACKAGE``, as some workers are."""


def is_of_installed_package(function: Any) -> bool:
    """Whether a function, or a callable object, and what it wraps, belong to installed packages or to Python."""
    if isinstance(function, functools.partial):
        passed = (function.func, *function.args, *function.keywords.values())
        return all(map(is_of_installed_package, filter(callable, passed)))
    # A function that wraps another one has its ``__module__``.
    code = getattr(function, "__globals__", None)
    module = code.get("__name__", "") if code else getattr(function, "__module__", None) or type(function).__module__
    wrapped = getattr(function, "__wrapped__", None)
    return _is_installed(str(module).partition(".")[0]) and (wrapped is None or is_of_installed_package(wrapped))


@functools.lru_cache(maxsize=1024)
def _is_installed(package: str) -> bool:
    if package in _OF_THE_USER:
        return False
    if package in sys.stdlib_module_names:
        return True
    spec = getattr(sys.modules.get(package), "__spec__", None)
    folders = [getattr(spec, "origin", None) or "", *(getattr(spec, "submodule_search_locations", None) or ())]
    return any(_FOLDERS.intersection(Path(folder).parts) for folder in folders)
