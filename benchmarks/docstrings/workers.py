"""Processes that run examples, each with a limit, so that a crash or a standstill costs one docstring and no more."""

from __future__ import annotations

import contextlib
import copy
import os
import pickle
import re
import sys
import tempfile
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from optimized import optimized_graphs
from spawned import SpawnedProcess

from .collect import Docstring
from .execute import Outcome, run_examples
from .setting import scope_of, write_files

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence
    from multiprocessing.connection import Connection

START_LIMIT = 180.0
"""Seconds for a process to import what it needs."""


_BROKEN = re.compile("cudaErrorIllegalAddress|CUDA_ERROR_ILLEGAL_ADDRESS")
"""After such an error nothing works in a process any more."""

_NOT_HERE = ("matplotlib",)
"""What some machines have and others have not, and what iterates over an array element by element."""


@dataclass(frozen=True)
class Side:
    """One of the two ways to run examples that are compared."""

    name: str
    """``"cpu"``, ``"gpu"``: the switch of this project, or ``"stock"``: only Dask's settings."""
    array: str = "numpy"
    dataframe: str = "pandas"
    fallback: Literal["error", "host", "strict"] = "error"
    """What happens to an operation that CuPy or cuDF lack."""


class RunError(Exception):
    """A process died, or took too long."""


class Worker:
    """A process that runs docstrings one by one; it is made again after it was lost."""

    def __init__(self, *sides: Side) -> None:
        self._process = SpawnedProcess(_serve, sides, daemon=True)

    def run(
        self, side: Side, docstring: Docstring, sources: list[str], only: Collection[int] | None, limit: float
    ) -> dict[int, Outcome]:
        """The outcomes of the examples of `docstring`, as translated to `sources`.

        Raises
        ------
        RunError
            The process died, or needed more than `limit` seconds.
        """
        self.start()
        self._process.send((side, docstring, sources, only))
        with self._closed_if_lost(limit):
            outcomes: dict[int, Outcome] = self._process.receive(limit)
        if any(_BROKEN.search(error) for outcome in outcomes.values() for error in _errors_of(outcome)):
            self.close()
        return outcomes

    def close(self) -> None:
        """End the process."""
        self._process.close()

    def start(self) -> None:
        """Make the process, if there is none."""
        with self._closed_if_lost(START_LIMIT):
            self._process.start(START_LIMIT)

    @contextlib.contextmanager
    def _closed_if_lost(self, limit: float) -> Iterator[None]:
        try:
            yield
        except TimeoutError as error:
            self.close()
            raise RunError(f"took over {limit:.0f} s") from error
        except (EOFError, OSError) as error:
            code = self._process.exit_code(5)
            self.close()
            raise RunError(f"the process died with {code}") from error


def _errors_of(outcome: Outcome) -> list[str]:
    return [*([outcome.error] if outcome.error else []), *outcome.failed.values()]


def _serve(pipe: Connection, sides: Sequence[Side]) -> None:
    import dask

    warnings.simplefilter("ignore")
    for name in _NOT_HERE:
        sys.modules[name] = None  # type: ignore[assignment]
    # A cluster shuffles through tasks or between its workers, never through files.
    dask.config.set({"scheduler": "synchronous", "dataframe.shuffle.method": "tasks"})
    begin = Docstring("da.ones", "dask", ("da.ones(2).sum()", "dd.from_pandas(pd.DataFrame({'x': [1]}))"), ("", ""))
    for side in sides:
        run_on(side, begin, list(begin.examples))
    pipe.send_bytes(pickle.dumps(None))
    while True:
        pipe.send_bytes(pickle.dumps(run_on(*pipe.recv())))


def run_on(
    side: Side, docstring: Docstring, sources: Sequence[str], only: Collection[int] | None = None
) -> dict[int, Outcome]:
    """Run examples in this process, in a folder of their own."""
    import dask

    folder_before, settings_before = Path.cwd(), copy.deepcopy(dask.config.config)
    with tempfile.TemporaryDirectory() as folder:
        write_files(Path(folder))
        os.chdir(folder)
        try:
            with _switched(side):
                scope = scope_of(docstring.name, with_collections=docstring.origin == "dask")
                return run_examples(sources, docstring.wants, scope, only=only)
        finally:
            os.chdir(folder_before)
            dask.config.config.clear()
            dask.config.config.update(settings_before)


@contextlib.contextmanager
def _switched(side: Side) -> Iterator[None]:
    if side.name == "cpu":
        yield
    elif side.name == "stock":
        import dask

        with dask.config.set({"array.backend": side.array, "dataframe.backend": side.dataframe}):
            yield
    else:
        from jupyter_gpudask.overlay.cell_record import CellRecord
        from jupyter_gpudask.switch.context import switched_to

        record = None if side.fallback == "error" else CellRecord(fallback=side.fallback)
        with optimized_graphs(on_gpus=side.array == "cupy"), switched_to(side.array, side.dataframe, record):
            yield
