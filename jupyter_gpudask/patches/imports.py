"""Do something as soon as a module has been imported."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any


class ImportWatch(MetaPathFinder):
    """Calls functions after modules have been imported; it is in `sys.meta_path` while it waits for one."""

    def __init__(self) -> None:
        self._waiting: dict[str, Callable[[], None]] = {}

    def add(self, module: str, call: Callable[[], None]) -> None:
        """Call a function once, when a module that is not imported yet has been."""
        self._waiting[module] = call
        if self not in sys.meta_path:
            sys.meta_path.insert(0, self)

    def forget(self, modules: Iterable[str]) -> None:
        """Wait no longer for some modules."""
        for name in modules:
            self._waiting.pop(name, None)
        if not self._waiting and self in sys.meta_path:
            sys.meta_path.remove(self)

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        """How the other finders load a module for which this one waits; nothing for any other."""
        if name not in self._waiting:
            return None
        found = (finder.find_spec(name, path, target) for finder in sys.meta_path if finder is not self)
        spec = next((each for each in found if each is not None), None)
        if spec is None or spec.loader is None:
            return None
        run = spec.loader.exec_module

        def exec_module(module: Any) -> None:
            run(module)
            call = self._waiting.get(name)
            self.forget([name])
            if call is not None:
                call()

        spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec
