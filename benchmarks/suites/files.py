"""The files of Dask's tests, in a folder of their own, and the portions in which they are run."""

from __future__ import annotations

import shutil
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import dask

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

PORTION = 40
"""Tests that are run at once, of one file."""

PARAMETERS = 6
"""Of each test function as many are run before the others."""

SUITES = {
    "array": "array/tests/test_*.py",
    "dataframe": "dataframe/tests/test_*.py",
    "expressions": "dataframe/dask_expr/tests/test_*.py",
    "io": "dataframe/io/tests/test_*.py",
    "cupy": "array/tests/test_cupy_*.py",
}
"""Where the tests are in Dask's package."""

PACKAGE = "tests_of_dask"
"""The package of their modules: `array` and `io` alone are names of the standard library."""

_LEFT_OUT = {"array": "test_cupy_"}


class Portion(NamedTuple):
    """Some tests of one file."""

    file: Path
    names: tuple[str, ...]


def copy_tests(suites: Iterable[str], folder: Path, source: Path | None = None) -> list[Path]:
    """Copy tests of Dask to `folder`, where their modules are not parts of Dask, and the fixtures that they need.

    Parameters
    ----------
    suites
        Keys of `SUITES`.
    folder
        Where to.
    source
        Dask's package; by default the installed one.

    Raises
    ------
    FileNotFoundError
        The package has no such tests.
    """
    source = source or Path(dask.__file__).parent
    folder = folder / PACKAGE
    folder.mkdir()
    shutil.copy(source / "conftest.py", folder / "conftest.py")
    copies = []
    for suite in suites:
        (folder / suite).mkdir()
        unwanted = _LEFT_OUT.get(suite)
        files = [file for file in sorted(source.glob(SUITES[suite])) if not unwanted or unwanted not in file.name]
        if not files:
            raise FileNotFoundError(f"{source} has no {SUITES[suite]}. Give another: --dask-source FOLDER/dask")
        copies += [Path(shutil.copy(file, folder / suite / file.name)) for file in files]
    return copies


def full_name(file: Path, test: str) -> str:
    """The name of a test among those of all files: ``"array/test_ufunc.py::test_angle"``."""
    return f"{file.parent.name}/{file.name}::{test}"


def may_have(file: Path, prefixes: Iterable[str]) -> bool:
    """Whether a test of a file may have a full name that begins with one of the prefixes."""
    place = full_name(file, "")
    return any(place.startswith(prefix) or prefix.startswith(place) for prefix in prefixes)


def portions(tests: Mapping[Path, Sequence[str]], size: int = PORTION, first: Collection[str] = ()) -> list[Portion]:
    """All tests, in turns from all files; a run that is cut short has seen some parameters of each test function.

    Parameters
    ----------
    tests
        The tests of each file.
    size
        The most tests of a portion.
    first
        Prefixes of the full names of tests that come before all others, in portions of a fourth of the size.
    """
    early = {
        file: [name for name in names if full_name(file, name).startswith(tuple(first))]
        for file, names in tests.items()
    }
    left = {file: _without(names, early[file]) for file, names in tests.items()}
    some = {file: _some_of_each(names) for file, names in left.items()}
    others = {file: _without(names, some[file]) for file, names in left.items()}
    return _in_turns(early, max(1, size // 4)) + _in_turns(some, size) + _in_turns(others, size)


def _some_of_each(names: Sequence[str]) -> list[str]:
    """Of each test function some of its parameters, evenly spread."""
    functions: dict[str, list[str]] = {}
    for name in names:
        functions.setdefault(name.partition("[")[0], []).append(name)
    return [name for of_one in functions.values() for name in of_one[:: -(-len(of_one) // PARAMETERS)]]


def _without(names: Sequence[str], unwanted: Collection[str]) -> list[str]:
    unwanted = set(unwanted)
    return [name for name in names if name not in unwanted]


def _in_turns(tests: Mapping[Path, Sequence[str]], size: int) -> list[Portion]:
    of_files = [
        [Portion(file, tuple(names[begin : begin + size])) for begin in range(0, len(names), size)]
        for file, names in tests.items()
    ]
    return [portion for turn in zip_longest(*of_files) for portion in turn if portion]
