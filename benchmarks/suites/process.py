"""A process that runs tests, so that a crash or a standstill costs one test and no more."""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
import time
from typing import TYPE_CHECKING, Any

from spawned import SpawnedProcess

from .judge import Failure, Outcome
from .session import Side, collect, run

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from multiprocessing.connection import Connection
    from pathlib import Path

START_LIMIT = 240.0
"""Seconds for a process to import what it needs, and to read a file of tests."""

_BROKEN = ("cudaErrorIllegalAddress", "CUDA_ERROR_ILLEGAL_ADDRESS", "CUDA error encountered")
"""After such an error nothing works in a process any more."""

_ENDS_RUN = None
"""What the process sends after the last test."""


class TestProcess:
    """A process for one of the two sides; it is made again after it was lost.

    Parameters
    ----------
    side
        How it runs the tests.
    deadline
        When all must be done, by `time.monotonic`: what is left is ``"not run"``.
    """

    __test__ = False  # of pytest, which takes each class of this name for tests

    def __init__(self, side: Side, deadline: float = float("inf")) -> None:
        self._side = side
        self._deadline = deadline
        self._process = SpawnedProcess(_serve, side)

    def collect(self, file: Path) -> list[str]:
        """The names of the tests of a file; of a file that cannot be imported, none."""
        try:
            self._send("collect", file, None)
            names: list[str] = self._receive(START_LIMIT)
        except (EOFError, OSError, TimeoutError) as error:
            print(f"{file.name} has no tests: {self._end(error, START_LIMIT)}", file=sys.stderr)
            return []
        return names

    def run(self, file: Path, names: Sequence[str], limit: float) -> dict[str, Outcome]:
        """Run tests of one file.

        Parameters
        ----------
        file
            The file.
        names
            The tests; a name that the file does not have is left out of the result.
        limit
            Seconds for each of them. What needs more is ``"lost"``, and so is what ends the process; the others are
            run in a new one. Without a process, as on a GPU whose memory is full, they are ``"not run"``.
        """
        outcomes: dict[str, Outcome] = {}
        while remaining := [name for name in names if name not in outcomes]:
            if self._is_over() or not self._run(file, remaining, limit, outcomes):
                break
        return {name: outcomes.get(name, Outcome("not run")) for name in names}

    def _run(self, file: Path, names: list[str], limit: float, outcomes: dict[str, Outcome]) -> bool:
        """Run until the end, or until the process is lost; whether there is something left to do."""
        is_new = not self._process.exists
        try:
            self._send("run", file, names)
        except (EOFError, OSError, TimeoutError) as error:
            how = self._end(error, START_LIMIT)
            if is_new and not self._is_over():
                print(f"A process does not start ({how}): {self._side}", file=sys.stderr)
            return not is_new
        running, wait, began = "", START_LIMIT, len(outcomes)
        while True:
            try:
                message = self._receive(wait)
            except (EOFError, OSError, TimeoutError) as error:
                how = self._end(error, limit)
                if self._is_over() and isinstance(error, TimeoutError):
                    return False
                # Before the first test, it was the file: a second attempt would end in the same way.
                lost = [running] if running else names if len(outcomes) == began else []
                outcomes.update({name: Outcome("lost", Failure("", how)) for name in lost})
                return True
            if message is _ENDS_RUN:
                if running:  # pytest itself failed
                    outcomes[running] = Outcome("lost", Failure("", "pytest ended in it"))
                return bool(running)
            running, *done = message
            wait = limit
            if done:
                outcomes[running] = done[0]
                failure = done[0].failure
                running, wait = "", START_LIMIT
                if failure and any(word in failure.message for word in _BROKEN):
                    self.close()
                    return True

    def _end(self, error: Exception, limit: float) -> str:
        """End the process; how it ended, in words."""
        if isinstance(error, TimeoutError):
            self.close()
            return "no time was left" if self._is_over() else f"took over {limit:.0f} s"
        code = self._process.exit_code(60)
        self.close()
        return f"the process died with {code}"

    def close(self) -> None:
        """End the process, and those that its tests have started."""
        self._process.close()

    def start(self) -> None:
        """Make the process, if there is none."""
        self._process.start(self._left(START_LIMIT))

    def _is_over(self) -> bool:
        return time.monotonic() >= self._deadline

    def _send(self, *request: Any) -> None:
        self.start()
        self._process.send(request)

    def _receive(self, limit: float) -> Any:
        return self._process.receive(self._left(limit))

    def _left(self, limit: float) -> float:
        return min(limit, max(0.0, self._deadline - time.monotonic()))


def _serve(pipe: Connection, side: Side) -> None:
    os.setsid()
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    from .comparison import count_comparisons
    from .session import _switch

    counts = count_comparisons(on_host=side.switched and side.results == "host")
    with _quiet(), tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        with _switch(side):  # what cannot begin at all ends the program here
            import dask.array as da
            import dask.dataframe as dd
            import pandas as pd

            da.ones(2).sum().compute()
            dd.from_pandas(pd.DataFrame({"x": [1]})).x.sum().compute()
        pipe.send(_ENDS_RUN)
        with contextlib.suppress(EOFError):
            while True:
                action, file, names = pipe.recv()
                if action == "collect":
                    pipe.send(collect(file))
                else:
                    run(file, names, side, counts, lambda *message: pipe.send(message))
                    pipe.send(_ENDS_RUN)


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Send what pytest and the tests print nowhere; errors of this program itself are still shown."""
    with open(os.devnull, "w") as nowhere, contextlib.redirect_stdout(nowhere):  # noqa: PTH123
        sys.stdin = None  # type: ignore[assignment]
        yield
