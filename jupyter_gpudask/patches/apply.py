"""Apply and undo the patches of the table in this process; those of optional libraries after their import."""

from __future__ import annotations

import sys
import threading
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from importlib import import_module
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from operator import attrgetter
from types import ModuleType
from typing import Any

from ..errors import PatchError
from .interception import intercept, make_caller, release
from .parameters import PARAMETERS
from .patch import Change, Patch, Process, is_set, owner_of, resolve, untested_rapids
from .private_names import PRIVATE_NAMES
from .table import PATCHES

_MISSING = object()


class Patches:
    """The patches that are active in this process.

    - `rows`: in any order: no two change the same function.
    """

    def __init__(self, rows: Sequence[Patch]) -> None:
        self._rows = tuple(rows)
        self._lock = threading.RLock()
        self._done: set[tuple[Process, bool]] = set()
        self._applied: dict[str, list[Callable[[], None]]] = {}
        self._imports = ImportWatch()

    @property
    def applied(self) -> tuple[str, ...]:
        """The names of the applied rows."""
        return tuple(self._applied)

    def are_applied(self, process: Process) -> bool:
        """Whether all rows of `process` that are needed here are applied."""
        return (process, False) in self._done

    def apply(self, process: Process, *, on_cpu: bool = False, wrappers: Mapping[str, Any] | None = None) -> None:
        """Apply the rows of `process` that are not applied yet; all of them, or none.

        With a newer Dask than tested there is a warning, and only the rows that fit are applied. With a newer RAPIDS
        there is a warning.

        Thread-safe: concurrent calls return after the patches are applied.

        - `process`: the kind of this process.
        - `on_cpu`: apply only the rows that cells with NumPy and pandas need.
        - `wrappers`: wrappers by target, for changes without one in the table. They replace those of an earlier call.

        Raises `PatchError`: a row does not fit the tested version of a library that is installed; nothing was changed.
        """
        if (process, on_cpu) in self._done and not wrappers:
            return
        with self._lock:
            given = dict(wrappers or {})
            for row in self._rows:
                if any(change.target in given for change in row.changes):
                    self._undo(row.name)
            rows = [row for row in self._rows if row.process == process and (row.on_cpu or not on_cpu)]
            rows = [row for row in rows if row.name not in self._applied and not row.why_skipped()]
            of_libraries = [row for row in rows if row.module]
            rows = [row for row in rows if not row.module]
            for_gpus = process == "kernel" and not on_cpu
            rows = _select_fitting(rows, import_all=for_gpus)
            if for_gpus and (newer := untested_rapids()):
                warnings.warn(str(newer), stacklevel=2)
            wrapped = [
                (row, change, given[change.target] if not change.wrapper else resolve(change.wrapper))
                for row in rows
                for change in row.changes
            ]
            try:
                for row, change, wrapper in wrapped:
                    undos = self._applied.setdefault(row.name, [])
                    if not is_set(change.unless):
                        undos.append(_make(change, wrapper))
            except BaseException:  # also after an interrupt, all rows are applied or none
                self.undo()
                raise
            for row in of_libraries:
                if row.waits:
                    self._imports.add(row.module, partial(self._apply_imported, row))
                else:
                    self._apply_imported(row)
            self._done.add((process, on_cpu))

    def _apply_imported(self, row: Patch) -> None:
        """Apply the row of a library that is imported; if it does not fit, there is a warning."""
        with self._lock:
            try:
                row.check(PARAMETERS, missing_names(import_all=False))
            except PatchError as misfit:
                warnings.warn(str(misfit), stacklevel=2)
                return
            undos = self._applied.setdefault(row.name, [])
            undos += [_make(change, resolve(change.wrapper)) for change in row.changes]

    def undo(self, process: Process | None = None) -> None:
        """Undo every change that was made in this process, or only those of the rows of `process`."""
        with self._lock:
            self._imports.forget(row.module for row in self._rows if process in (None, row.process))
            kept = {row.name for row in self._rows if process is not None and row.process != process}
            for name in reversed([name for name in self._applied if name not in kept]):
                self._undo(name)
            self._done = {done for done in self._done if process is not None and done[0] != process}

    def _undo(self, name: str) -> None:
        for undo in reversed(self._applied.pop(name, [])):
            undo()

    def examine(self, process: Process) -> Iterator[tuple[str, str, PatchError | None]]:
        """Each row of `process`: its name, why it is skipped, and the error if it does not fit the installed libraries.

        Before the rows are applied, none counts as skipped: importing CuPy takes seconds and device memory. Those of
        libraries that are not imported are left out.
        """
        missing = missing_names(import_all=process == "kernel")
        for row in self._rows:
            if row.process == process and row.name in self._applied:
                yield row.name, "", None
            elif row.process == process and not row.waits:
                try:
                    row.check(PARAMETERS, missing)
                except PatchError as misfit:
                    yield row.name, "", misfit
                else:
                    yield row.name, row.why_skipped() if self.are_applied(process) else "", None


def _select_fitting(rows: Sequence[Patch], *, import_all: bool) -> list[Patch]:
    """The rows that fit the installed libraries; a row that does not fit a tested version is an error."""
    missing = missing_names(import_all=import_all)
    misfits = {}
    for row in rows:
        try:
            row.check(PARAMETERS, missing)
        except PatchError as misfit:
            if row.is_tested:
                raise
            misfits[row.name] = misfit
    newer = next((row for row in rows if not row.is_tested), None)
    if newer is not None:
        off = " ".join(misfit.reason for misfit in misfits.values())
        warnings.warn(str(newer.newer_than_tested(off, missing)), stacklevel=2)
    return [row for row in rows if row.name not in misfits]


def missing_names(*, import_all: bool) -> list[str]:
    """The private names of Dask that this package uses and that do not exist.

    - `import_all`: whether modules that this process has not imported are imported; else they are not looked at.
    """
    missing = []
    for module, names in PRIVATE_NAMES.items():
        try:
            found = import_module(module) if import_all else sys.modules.get(module)
        except ImportError:
            found = None
        if found is not None or import_all:
            missing += [f"{module}.{name}" for name in names.split() if not _has(found, name)]
    return missing


def _has(owner: Any, path: str) -> bool:
    try:
        attrgetter(path)(owner)
    except AttributeError:
        return False
    return True


def _make(change: Change, wrapper: Any) -> Callable[[], None]:
    """Make one change, and return a function that undoes it."""
    if change.how == "call":
        wrapper()
        undo: Callable[[], None] = resolve(change.undo)
        return undo
    owner, name = owner_of(change.target)
    before = vars(owner).get(name, _MISSING)
    original = getattr(owner, name)
    if change.how == "code":
        intercept(original, wrapper)
        return lambda: release(original)
    after = wrapper(original) if change.how == "value" else make_caller(wrapper, original)
    setattr(owner, name, staticmethod(after) if isinstance(before, staticmethod) else after)
    return lambda: delattr(owner, name) if before is _MISSING else setattr(owner, name, before)


class ImportWatch(MetaPathFinder):
    """Calls functions after modules have been imported; it is in `sys.meta_path` while it waits for one."""

    def __init__(self) -> None:
        self._waiting: dict[str, list[Callable[[], None]]] = {}

    def add(self, module: str, call: Callable[[], None]) -> None:
        """Call a function once, when a module that is not imported yet has been."""
        self._waiting.setdefault(module, []).append(call)
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
            calls = self._waiting.get(name, [])
            self.forget([name])
            for call in calls:
                call()

        spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


patches = Patches(PATCHES)
"""The patches applied in this process."""
