"""Runs tests of Dask in a process of their own with pytest, one file at a time, on one side."""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from dask_judge import Failure, Outcome
from sides import on_side

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator
    from multiprocessing.connection import Connection

    from sides import Side

LONGEST = 240
"""Characters of a message, or of a statement, that are kept."""

ENDS_RUN = None
"""What the process sends after the last test, and when it is ready."""


def serve(pipe: Connection, side: Side) -> None:
    """Answer what `dask_tests.TestProcess` asks for."""
    os.setsid()
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    counts = count_comparisons(on_host=side.name == "switch" and side.results == "host")
    with _quiet(), tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        with on_side(side):  # what cannot begin at all ends the program here
            import dask.array as da
            import dask.dataframe as dd
            import pandas as pd

            da.ones(2).sum().compute()
            dd.from_pandas(pd.DataFrame({"x": [1]})).x.sum().compute()
        pipe.send(ENDS_RUN)
        with contextlib.suppress(EOFError):
            while True:
                file, names = pipe.recv()
                if names is None:
                    pipe.send(collect(file))
                else:
                    recorder = _Recorder(side, counts, lambda *message: pipe.send(message))
                    _run_pytest(file, _Chosen(set(names)), recorder)
                    pipe.send(ENDS_RUN)


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Send what pytest and the tests print nowhere; errors of this program itself are still shown."""
    with open(os.devnull, "w") as nowhere, contextlib.redirect_stdout(nowhere):  # noqa: PTH123
        sys.stdin = None  # type: ignore[assignment]
        yield


@dataclass
class Counts:
    """How many collections were compared, and how many of them were on the GPU."""

    compared: int = 0
    on_gpu: int = 0


def count_comparisons(*, on_host: bool) -> Counts:
    """Replace what `assert_eq` of dask.array and dask.dataframe call for each of their arguments.

    Both compute a collection inside Dask, so that a result on the GPU stays there. With `on_host`, the collection is
    moved to the host first, as `compute()` of a cell does. What `assert_eq` checks besides the values is not changed:
    that the blocks have the shapes and the dtypes that Dask has said, that the partitions are where the divisions say,
    and the names. The counts go on for as long as the process lives.
    """
    import dask.array.utils
    import dask.dataframe.utils
    from dask.base import is_dask_collection

    from jupyter_gpudask.inspection.placement import place_of, to_host
    from jupyter_gpudask.inspection.results import results_to_host

    counts = Counts()
    computed_array = dask.array.utils._get_dt_meta_computed
    computed_frame = dask.dataframe.utils._check_dask

    def moved(value: Any) -> Any:
        is_collection = is_dask_collection(value)
        counts.compared += is_collection
        counts.on_gpu += is_collection and place_of(value) == "gpu"
        if not on_host:
            return value
        return to_host(value) if is_collection else results_to_host(value)

    def array(x: Any, *args: Any, **kwargs: Any) -> Any:
        value = moved(x)
        data, dtype, meta, computed = computed_array(value, *args, **kwargs)
        return data, dtype, meta if value is x else None, computed

    def frame(dsk: Any, *args: Any, **kwargs: Any) -> Any:
        # The function calls itself for the index of a result.
        value = moved(dsk) if kwargs.get("result") is None else dsk
        if on_host and value is dsk and is_dask_collection(value) and place_of(value) == "gpu":  # a number
            kwargs = {**kwargs, "result": results_to_host(value.compute(scheduler=kwargs.get("scheduler")))}
        result = computed_frame(value, *args, **kwargs)
        return results_to_host(result) if on_host else result  # a number of an array, too

    dask.array.utils._get_dt_meta_computed = array
    dask.dataframe.utils._check_dask = frame
    return counts


def collect(file: Path) -> list[str]:
    """The names of the tests of a file, without slow ones, those that need a network, and those for GPUs but CuPy's."""
    names: list[str] = []
    unwanted = "slow or network" if file.parent.name == "cupy" else "slow or network or gpu"
    _run_pytest(file, _Chosen(None, names), "-m", f"not ({unwanted})", "--collect-only")
    return names


def _run_pytest(file: Path, *plugins_and_arguments: Any) -> None:
    arguments = [each for each in plugins_and_arguments if isinstance(each, str)]
    plugins = [each for each in plugins_and_arguments if not isinstance(each, str)]
    # A file's name is that of its module, which must not begin with "dask": to us the tests are code of a user.
    quiet = ["-p", "no:terminal", "-p", "no:cacheprovider", "-p", "no:faulthandler", "-W", "ignore"]
    place = ["-c", "/dev/null", f"--rootdir={file.parents[2]}", f"--confcutdir={file.parents[1]}"]
    pytest.main([*quiet, *place, "--import-mode=importlib", *arguments, str(file)], plugins=plugins)


class _Chosen:
    """Keeps the tests with some names, or all."""

    def __init__(self, wanted: Collection[str] | None, names: list[str] | None = None) -> None:
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
    """Runs each test on a side, and reports its name before, and its `Outcome` afterwards."""

    def __init__(self, side: Side, counts: Counts, report: Callable[..., None]) -> None:
        self._side, self._counts, self._report = side, counts, report
        self._outcome = "passed"
        self._failure: Failure | None = None

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        self._outcome, self._failure = "passed", None
        compared, on_gpu = self._counts.compared, self._counts.on_gpu
        self._report(_name(item))
        began = time.perf_counter()
        with on_side(self._side) as on_cpu:
            result = yield
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
    path = str(last.path).rpartition("site-packages/")[2] if last else ""
    path = path.rpartition("jupyter_gpudask/jupyter_gpudask/")[2]
    place = f"{path}:{last.name}" if last and last not in of_test[-1:] else ""
    lines = [line.strip() for line in str(raised.value).splitlines() if line.strip()]
    message = " ".join(lines)[:LONGEST]
    return Failure(type(raised.value).__name__, message, _statement(of_test), _statement(entries), place)


def _statement(entries: list[pytest.TracebackEntry]) -> str:
    """The statement of the last entry; of compiled code there is none."""
    try:
        return " ".join(str(entries[-1].statement).split())[:LONGEST]
    except (AssertionError, IndexError):
        return ""
