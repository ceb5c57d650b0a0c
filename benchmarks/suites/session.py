"""Runs tests in this process with pytest, one file at a time, plainly or with the switch on around each test."""

from __future__ import annotations

import contextlib
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import pytest
from optimized import optimized_graphs

from .judge import Failure, Outcome

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    from .comparison import Counts

LONGEST = 240
"""Characters of a message, or of a statement, that are kept."""


@dataclass(frozen=True)
class Side:
    """One of the two ways to run the tests.

    Attributes
    ----------
    switched
        Whether the switch is on around each test, with the other attributes as its options.
    """

    switched: bool
    array: str = "numpy"
    dataframe: str = "pandas"
    fallback: Literal["error", "host", "strict"] = "host"
    results: Literal["host", "gpu"] = "host"


def collect(file: Path) -> list[str]:
    """The names of the tests of a file, without slow ones, those that need a network, and those for GPUs but CuPy's."""
    names: list[str] = []
    unwanted = "slow or network" if file.parent.name == "cupy" else "slow or network or gpu"
    _run_pytest(file, _Chosen(None, names), "-m", f"not ({unwanted})", "--collect-only")
    return names


def run(file: Path, names: Collection[str], side: Side, counts: Counts, report: Callable[..., None]) -> None:
    """Run some tests of a file; `report` is called with the name of each before, and with its `Outcome` afterwards."""
    _run_pytest(file, _Chosen(set(names)), _Recorder(side, counts, report))


def _run_pytest(file: Path, *plugins_and_arguments: Any) -> None:
    arguments = [each for each in plugins_and_arguments if isinstance(each, str)]
    plugins = [each for each in plugins_and_arguments if not isinstance(each, str)]
    # A file's name is that of its module, which must not begin with "dask": to us the tests are code of a user.
    quiet = ["-p", "no:terminal", "-p", "no:cacheprovider", "-p", "no:faulthandler", "-W", "ignore"]
    place = ["-c", "/dev/null", f"--rootdir={file.parents[2]}", f"--confcutdir={file.parents[1]}"]
    pytest.main([*quiet, *place, "--import-mode=importlib", *arguments, str(file)], plugins=plugins)


class _Chosen:
    """Keeps the tests with some names, or all."""

    def __init__(self, wanted: set[str] | None, names: list[str] | None = None) -> None:
        self._wanted = wanted
        self._names = names if names is not None else []

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        if self._wanted is not None:
            items[:] = [item for item in items if _name(item) in self._wanted]

    def pytest_configure(self, config: pytest.Config) -> None:
        config.option.verbose = 0  # read by failed assertions in pytest 8.0, and declared by the terminal's plugin

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        self._names += [_name(item) for item in session.items]


class _Recorder:
    """Turns the switch on around each test, and reports what came of it."""

    def __init__(self, side: Side, counts: Counts, report: Callable[..., None]) -> None:
        self._side = side
        self._counts = counts
        self._report = report
        self._outcome = "passed"
        self._failure: Failure | None = None

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        from jupyter_gpudask.fallback.log import fallback_log

        self._outcome, self._failure = "passed", None
        compared, on_gpu = self._counts.compared, self._counts.on_gpu
        blocks = fallback_log.blocks.copy()
        self._report(_name(item))
        began = time.perf_counter()
        with _switch(self._side):
            result = yield
        on_cpu: dict[str, int] = {}
        for place, number in fallback_log.blocks_since(blocks).items():
            on_cpu[place.operation] = on_cpu.get(place.operation, 0) + number
        seconds = round(time.perf_counter() - began, 2)
        compared, on_gpu = self._counts.compared - compared, self._counts.on_gpu - on_gpu
        self._report(_name(item), Outcome(self._outcome, self._failure, seconds, compared, on_gpu, on_cpu))
        return result

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[pytest.TestReport]:
        report = yield
        if self._outcome == "passed" and report.outcome != "passed":
            self._outcome = "xfailed" if hasattr(report, "wasxfail") else report.outcome
            self._failure = _failure(item, call.excinfo)
        return report


def _name(item: pytest.Item) -> str:
    return item.nodeid.partition("::")[2]


def _failure(item: pytest.Item, raised: pytest.ExceptionInfo[BaseException] | None) -> Failure | None:
    if raised is None:  # a strict xfail that passes
        return None
    entries = list(raised.traceback)
    of_test = [entry for entry in entries if Path(str(entry.path)) == item.path]
    last = entries[-1] if entries else None
    place = f"{_short(str(last.path))}:{last.name}" if last and last not in of_test[-1:] else ""
    lines = [line.strip() for line in str(raised.value).splitlines() if line.strip()]
    message = " ".join(lines)[:LONGEST]
    return Failure(type(raised.value).__name__, message, _statement(of_test), _statement(entries), place)


def _statement(entries: list[pytest.TracebackEntry]) -> str:
    """The statement of the last entry; of compiled code there is none."""
    try:
        return " ".join(str(entries[-1].statement).split())[:LONGEST]
    except (AssertionError, IndexError):
        return ""


def _short(path: str) -> str:
    return path.rpartition("site-packages/")[2].rpartition("jupyter_gpudask/jupyter_gpudask/")[2]


@contextlib.contextmanager
def _switch(side: Side) -> Iterator[None]:
    import dask

    # A cluster shuffles through tasks or between its workers, never through files.
    with dask.config.set({"scheduler": "synchronous", "dataframe.shuffle.method": "tasks"}), _cell(side):
        yield


@contextlib.contextmanager
def _cell(side: Side) -> Iterator[None]:
    from jupyter_gpudask.overlay.cell_record import CellRecord
    from jupyter_gpudask.switch.context import switched_to

    if not side.switched:
        yield
        return
    record = CellRecord(results=side.results, fallback=side.fallback)
    with optimized_graphs(on_gpus=side.array == "cupy"), switched_to(side.array, side.dataframe, record):
        yield
