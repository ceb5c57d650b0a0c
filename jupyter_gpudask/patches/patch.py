"""A row of the table of patches: what it changes, why, and for which versions."""

from __future__ import annotations

import inspect
import platform
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module, metadata
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

from packaging.specifiers import SpecifierSet
from packaging.version import Version

from ..errors import PatchError

Process = Literal["kernel", "worker", "supervisor"]

How = Literal["attribute", "code", "value", "call"]

DASK = {"dask": ">=2026.7.1,<2026.8.1", "distributed": ">=2026.7.1,<2026.8.1"}
"""The tested versions, see docs/versions.md; pyproject.toml allows newer ones."""

RAPIDS = ">=26.10,<26.11"
"""The same for RAPIDS, whose number dask-cuda has."""


@dataclass(frozen=True)
class Change:
    """One function or attribute that a patch replaces. Modules are imported only when they are needed.

    - `target`: import path of what is changed, as ``module:attribute.attribute``.
    - `wrapper`: import path of the wrapper, or of the function that makes the new value. A wrapper of a function is
      called as ``wrapper(original, *args, **kwargs)``. Empty if the caller of `Patches.apply` passes it.
    - `how`: ``attribute``: the attribute of the class or module is set to a function that calls the wrapper. This is
      enough for methods, which are looked up in the class, and for functions that only their own module calls.
      ``code``: the function stays the same object, and its code calls the wrapper. For functions that modules of Dask,
      or the user, have imported by name. ``value``: the attribute is set to what the wrapper returns for the original
      value. ``call``: the wrapper is called without arguments, and makes the change with a public function of the
      library.
    - `undo`: for ``call``: import path of the function that undoes it.
    - `unless`: import path of a flag, as ``module:attribute``; if it is set, the change is not made.
    """

    target: str
    wrapper: str
    how: How = "attribute"
    undo: str = ""
    unless: str = ""

    @property
    def name(self) -> str:
        """The dotted name of the target."""
        return self.target.replace(":", ".")


@dataclass(frozen=True)
class Patch:
    """One row of the table of patches.

    - `name`: the name in the output of ``%gpudask doctor``.
    - `changes`: in the order in which they are made.
    - `reason`: why the change is needed.
    - `upstream`: names of texts to file, which are in ``docs/upstream``, and addresses of issues.
    - `test`: the test of the changed behaviour, in ``tests/``.
    - `process`: the kind of process in which it is applied.
    - `requires`: versions of libraries that the row was tested with. With an older version no patch is applied, and
      cells for GPUs are refused; with a newer one a row that does not fit is not applied.
    - `needed`: versions with the bug that the row fixes; with other versions it is skipped.
    - `on_cpu`: whether cells with NumPy and pandas need it too.
    - `module`: the module of an optional library, with all targets. The row is applied when it has been imported.
    """

    name: str
    changes: Sequence[Change]
    reason: str
    upstream: Sequence[str]
    test: str
    process: Process = "kernel"
    requires: Mapping[str, str] = field(default_factory=DASK.copy)
    needed: Mapping[str, str] = field(default_factory=dict)
    on_cpu: bool = False
    module: str = ""

    @property
    def waits(self) -> bool:
        """Whether its library is not imported."""
        return bool(self.module) and self.module not in sys.modules

    def why_skipped(self) -> str:
        """Why the row is not needed here; empty if it is. Imports the libraries whose bugs it fixes."""
        for library, specifier in self.needed.items():
            version = version_of(library)
            if version and not _contains(specifier, version):
                return f"{library} {version}"
        return ""

    @property
    def is_tested(self) -> bool:
        """Whether no library is newer than the versions that it was tested with."""
        return not any(_is_newer(specifier, version_of(library)) for library, specifier in self.requires.items())

    def check(self, parameters: Mapping[str, str], missing: Sequence[str] = ()) -> None:
        """Check that the row fits the installed libraries.

        - `parameters`: the parameters of each target in the tested versions; a target without an entry only has to
          exist.
        - `missing`: private names of Dask that do not exist; its wrappers must not use them.

        Raises `PatchError`: the row does not fit.
        """
        for library, specifier in self.requires.items():
            version = version_of(library)
            if not (_contains(specifier, version) or _is_newer(specifier, version)):
                raise self._misfit(f"it was written for {library}{specifier}")
        for change in self.changes:
            try:
                has = parameters_of(resolve(change.target))
            except (ImportError, AttributeError):
                raise self._misfit(f"{change.name} does not exist") from None
            if has not in parameters.get(change.target, has).split(" | "):
                raise self._misfit(f"{change.name} has other parameters ({has.replace(' ', ', ')})")
            for name in missing:
                if change.wrapper and re.search(rf"\b{name.rpartition('.')[2]}\b", _source_of(change.wrapper)):
                    raise self._misfit(f"{name} does not exist")
            try:
                _ = change.wrapper and resolve(change.wrapper)
            except ImportError as error:
                raise self._misfit(str(error)) from None

    def newer_than_tested(self, off: str, missing: Sequence[str]) -> PatchError:
        """What to say of a newer library than tested.

        - `off`: sentences about the rows that are not applied.
        - `missing`: private names of Dask that do not exist.
        """
        if off:
            off += " Without it, cells fail or their results differ from those of NumPy and pandas."
        if missing:
            off += f" Dask has no longer: {', '.join(missing)}."
        return self._error("newer-than-tested", why=off)

    def _misfit(self, why: str) -> PatchError:
        code = "patch-misfit-in-cell" if self.process == "kernel" and not self.on_cpu else "patch-misfit"
        return self._error(code, why=why)

    def _error(self, code: str, why: str) -> PatchError:
        installed = " and ".join(f"{library} {version_of(library)}" for library in self.requires)
        wanted = " ".join(f'"{name}{versions}"' for name, versions in self.requires.items())
        return PatchError(code, patch=repr(self.name), installed=installed, why=why, wanted=wanted)


def resolve(path: str) -> Any:
    """Import the object with the path ``module:attribute.attribute``.

    Raises `ImportError` or `AttributeError`: it does not exist.
    """
    found, name = owner_of(path)
    return getattr(found, name)


def owner_of(path: str) -> tuple[Any, str]:
    """The module or class that has the attribute, and the name of the attribute."""
    module, _, names = path.partition(":")
    *outer, name = names.split(".")
    owner: Any = import_module(module)
    for each in outer:
        owner = getattr(owner, each)
    return owner, name


def is_set(flag: str) -> bool:
    """Whether the flag with the path ``module:attribute`` exists and is set."""
    try:
        return bool(flag) and bool(resolve(flag))
    except (ImportError, AttributeError):
        return False


def parameters_of(function: Any) -> str:
    """The names of its parameters, ``*args`` and ``**kwargs`` with their stars; empty if it is not a function."""
    if not (inspect.isroutine(function) and callable(function)):  # a cached property is a routine, too
        return ""
    stars: dict[object, str] = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}
    try:
        parameters = inspect.signature(function).parameters.values()
    except ValueError:  # of a compiled function
        return ""
    return " ".join(stars.get(parameter.kind, "") + parameter.name for parameter in parameters)


def version_of(library: str) -> str:
    """Its version; empty if it cannot be imported."""
    if library == "python":
        return platform.python_version()
    try:
        return str(getattr(import_module(library), "__version__", ""))
    except Exception:  # noqa: BLE001 - a GPU library may fail in any way; the cell that needs it gets the error
        return ""


def untested_rapids() -> PatchError | None:
    """What to say of a RAPIDS that is newer than tested; `None` without one. Nothing is imported."""
    try:
        version = metadata.version("dask-cuda")
    except metadata.PackageNotFoundError:
        return None
    if not _is_newer(RAPIDS, version):
        return None
    why = "The results of new or changed functions of cuDF may differ from those of pandas."
    return PatchError("newer-than-tested", installed=f"RAPIDS {version}", why=why, wanted=f'"dask-cuda{RAPIDS}"')


def _source_of(path: str) -> str:
    """The source of the module of a wrapper, which need not be importable."""
    module = find_spec(path.partition(":")[0])
    return Path(module.origin).read_text() if module and module.origin else ""


def _is_newer(specifier: str, version: str) -> bool:
    """Whether a version is above a range."""
    above = bool(version) and all(Version(version) >= Version(each.version) for each in SpecifierSet(specifier))
    return above and not _contains(specifier, version)


def _contains(specifier: str, version: str) -> bool:
    return SpecifierSet(specifier).contains(version, prereleases=True)
