"""Runs the cells of a notebook in an IPython shell of this process, and brings what they leave to the host.

A value is compared by `STRICT_RULES`, as those of docstrings are (`docstring_runs.py`).
"""

from __future__ import annotations

import ast
import contextlib
import json
import os
import pickle
import re
import time
import traceback
import warnings
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from docstring_runs import PLAIN, bound_names, is_on_gpu, of_open_order, undetermined
from strict_rules import STRICT_RULES

from jupyter_gpudask.magics.compare_values import compare

if TYPE_CHECKING:
    from collections.abc import Iterator
    from multiprocessing.connection import Connection
    from pathlib import Path

    from IPython.core.interactiveshell import InteractiveShell

_CELL = re.compile(r"^# %%[ \t]*(?P<title>.*?)(?:[ \t]+tags=\[(?P<tags>.*)\])?$", re.MULTILINE)
_NEEDS = re.compile(r"^# needs: (.*)$", re.MULTILINE)
_MAGIC = re.compile(r"^[ \t]*(?:%%?time(?:it)?\b[ \t]*|[%!?].*$|.*\?$)", re.MULTILINE)
_OF_DASK = re.compile("-[0-9a-f]{32}")
_FRAMES = 8
_LONGEST = 300
_DEEPEST = 5
_PLAIN = (*PLAIN, str, np.ndarray, pd.DataFrame, pd.Series, pd.Index, type(pd.NA), type(pd.NaT))
_LARGEST = 100_000_000
"""Bytes of a collection; a larger one is not computed."""

ERRORS = "standard-error.txt"
"""The file, in the folder of a process, that has what the process wrote."""


@dataclass(frozen=True)
class Cell:
    """A cell of a notebook."""

    notebook: str
    title: str
    source: str
    is_random: bool = False
    """Tagged ``random``: its values come from random numbers of Dask, and only dtypes and dimensions are compared."""
    opens_order: bool = False
    """Whether the order of rows is open: by what the notebook calls up to here, or tagged ``ties``."""

    @property
    def key(self) -> str:
        return f"{self.notebook}: {self.title}"

    @property
    def names(self) -> list[str]:
        """The names that it binds, or of which it changes a part."""
        return [name for name in bound_names(ast.parse(self.source)) if not name.startswith("_")]

    @property
    def recording(self) -> str:
        """Its source with a last statement that records these names and the value of the last expression."""
        statements = ast.parse(self.source).body
        source, last = self.source.rstrip(), "None"
        if statements and isinstance(statements[-1], ast.Expr) and not source.endswith(";"):
            text = ast.get_source_segment(self.source, statements[-1]) or ""
            place = source.rindex(text)
            # Comments may follow the expression.
            source, last = f"{source[:place]}__last__ = ({text}){source[place + len(text) :]}", "__last__"
        return f"{source}\n__record__({self.names!r}, {last})\n"


@dataclass(frozen=True)
class Notebook:
    """A script in the percent format, or the cells of a notebook file that are Python without their magics."""

    name: str
    needs: tuple[str, ...]
    """The modules without which it cannot run."""
    cells: tuple[Cell, ...]

    @classmethod
    def read(cls, file: Path) -> Notebook:
        text = file.read_text()
        if file.suffix == ".ipynb":
            return cls(file.stem, (), tuple(_cells_of_json(file.stem, json.loads(text)["cells"])))
        found = list(_CELL.finditer(text))
        ends = [*(match.start() for match in found[1:]), len(text)]
        sources = [text[match.end() : end].strip() + "\n" for match, end in zip(found, ends, strict=True)]
        tags = [match["tags"] or "" for match in found]
        opens = of_open_order(sources)
        cells = tuple(
            Cell(file.stem, match["title"], source, '"random"' in tag, open_order or '"ties"' in tag)
            for match, source, tag, open_order in zip(found, sources, tags, opens, strict=True)
        )
        needs = _NEEDS.search(text)
        return cls(file.stem, tuple(re.split(r"[,\s]+", needs[1])) if needs else (), cells)


def _cells_of_json(name: str, cells: list[dict[str, Any]]) -> Iterator[Cell]:
    codes = {f"cell {n}": cell for n, cell in enumerate(cells, 1) if cell["cell_type"] == "code"}
    sources = [_MAGIC.sub("", "".join(cell["source"])).strip() + "\n" for cell in codes.values()]
    opens = of_open_order(sources)
    for title, source, is_random, opens_order in zip(codes, sources, undetermined(sources), opens, strict=True):
        tags = codes[title].get("metadata", {}).get("tags", ())
        with contextlib.suppress(SyntaxError):
            if ast.parse(source).body:
                yield Cell(name, title, source, is_random or "random" in tags, opens_order or "ties" in tags)


@dataclass(frozen=True)
class Shell:
    """A shell in which notebooks run."""

    start: str = ""
    """The line that starts its cluster; without one, a plain shell with a client on the CPU."""
    magic: str = ""
    """The first line of each cell."""


@dataclass
class Outcome:
    """What came of one cell."""

    error: str = ""
    """Class and message, and the package that raised it."""
    frames: list[str] = field(default_factory=list)
    """The innermost functions of its traceback."""
    results: dict[str, Any] = field(default_factory=dict)
    """By name, on the host; the last expression by the empty name."""
    failed: dict[str, str] = field(default_factory=dict)
    """The errors of values that could not be computed, moved or shown."""
    left_on_gpu: list[str] = field(default_factory=list)
    """The names of results on the GPU, where plain Dask gives some on the host."""
    collections: int = 0
    on_gpu: int = 0
    """How many of the collections were on the GPU."""
    seconds: float = 0.0
    on_cpu: dict[str, int] = field(default_factory=dict)
    """The blocks that ran on the CPU for want of a function of CuPy or cuDF, by operation."""
    reasons: list[str] = field(default_factory=list)
    """Why, for the first of them."""


def serve(pipe: Connection, shell: Shell, folder: str) -> None:
    """Answer each cell with its `Outcome`; the message `None` ends the process."""
    os.setsid()
    os.chdir(folder)
    os.environ["IPYTHONDIR"] = folder
    errors = os.open(ERRORS, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(errors, 2)
    warnings.simplefilter("ignore")
    with contextlib.ExitStack() as stack:
        runner = _Runner(shell)
        runner.begin(stack)
        pipe.send(None)
        with contextlib.suppress(EOFError):
            while (cell := pipe.recv()) is not None:
                pipe.send_bytes(pickle.dumps(runner.run(cell)))
    pipe.send(None)


class _Runner:
    """Runs cells, and records what each leaves."""

    def __init__(self, shell: Shell) -> None:
        from IPython.core.interactiveshell import InteractiveShell
        from traitlets.config import Config

        self._magic, self._start = shell.magic, shell.start
        self._shell: InteractiveShell = InteractiveShell.instance(config=Config(HistoryManager={"enabled": False}))
        self._shell.user_ns["__record__"] = self._record
        self._outcome = Outcome()

    def begin(self, stack: contextlib.ExitStack) -> None:
        if not self._start:
            from distributed import Client, SubprocessCluster

            # A scheduler in this process would wait for the lock of `functools.cached_property` that Python 3.11 has.
            options = {"worker_class": "distributed.Worker", "dashboard_address": None}
            stack.enter_context(
                Client(stack.enter_context(SubprocessCluster(n_workers=1, threads_per_worker=2, **options)))
            )
            return
        for line in ("%load_ext jupyter_gpudask", self._start):
            with _captured():
                self._shell.run_cell(line).raise_error()
        stack.callback(self._shell.run_cell, "%gpudask stop", silent=True)

    def run(self, cell: Cell) -> Outcome:
        from jupyter_gpudask.fallback.log import fallback_log

        self._outcome = outcome = Outcome()
        blocks = fallback_log.blocks.copy()
        began = time.perf_counter()
        with _captured():
            result = self._shell.run_cell(self._magic + cell.recording, store_history=True)
        outcome.seconds = round(time.perf_counter() - began, 2)
        error = result.error_before_exec or result.error_in_exec
        if error is not None:
            outcome.error, outcome.frames = _described(error), _frames_of(error)
        for place, number in (fallback_log.blocks - blocks).items():
            outcome.on_cpu[place.operation] = outcome.on_cpu.get(place.operation, 0) + number
            outcome.reasons.append(f"{place.operation}: {place.reason}"[:_LONGEST])
        return outcome

    def _record(self, names: list[str], last: Any) -> None:
        """Called by each cell at its end."""
        things = {name: self._shell.user_ns[name] for name in names if name in self._shell.user_ns}
        if last is not None:
            self._keep("(shown)", lambda: self._shell.display_formatter.format(last) and None)
            if not any(last is thing for thing in things.values()):
                things[""] = last
        for name, thing in things.items():
            self._keep(name, lambda thing=thing: self._on_host(thing))  # type: ignore[misc]

    def _keep(self, name: str, make: Any) -> None:
        outcome = self._outcome
        try:
            value = make()
        except Exception as error:  # noqa: BLE001 - whatever computing or showing a value raises
            outcome.failed[name] = _described(error)
            outcome.frames = outcome.frames or _frames_of(error)
            return
        if _has_gpu(value):
            outcome.left_on_gpu.append(name or "the last expression")
            value = _moved(value)
        with contextlib.suppress(Exception):  # what cannot be sent is not compared
            pickle.dumps(value)
            if value is not None:
                outcome.results[name] = value

    def _on_host(self, thing: Any, depth: int = 0) -> Any:
        """`thing` computed, as arrays, dataframes, numbers, texts and containers of them; `None` for the rest."""
        opened = self._computed(thing)
        if opened is thing:
            opened = _opened(thing)
        if depth > _DEEPEST:
            return None
        if opened is not thing:
            return self._on_host(opened, depth + 1)
        if isinstance(thing, dict):  # without the seconds that a search took, and the tasks of a graph
            return {
                name: self._on_host(each, depth + 1)
                for name, each in thing.items()
                if "time" not in str(name) and not _OF_DASK.search(str(name))
            }
        if isinstance(thing, list):
            return [self._on_host(each, depth + 1) for each in thing]
        return thing if isinstance(thing, _PLAIN) or is_on_gpu(thing) else None

    def _computed(self, thing: Any) -> Any:
        """What a collection, a future, or data of xarray has; other things as they are."""
        from dask.base import is_dask_collection

        of_xarray = type(thing).__module__.startswith("xarray")
        if of_xarray and hasattr(thing, "to_dataset") and hasattr(thing, "dims"):  # a DataArray
            # The name may be that of an array of Dask, which is another one in each run.
            named = thing.name is not None and not _OF_DASK.search(str(thing.name))
            return thing.to_dataset(name=f"values of {thing.name}" if named else "values")
        if of_xarray and hasattr(thing, "data_vars"):
            self._count(*(each.data for each in thing.variables.values() if is_dask_collection(each.data)))
            variables = thing.compute().variables
            return {str(name): [list(map(str, each.dims)), _data_of(each)] for name, each in variables.items()}
        if is_dask_collection(thing):
            if hasattr(type(thing), "chunks") and thing.nbytes > _LARGEST:
                return str(thing.dtype)
            self._count(thing)
            return thing.compute()
        is_future = type(thing).__module__.startswith("distributed") and hasattr(thing, "result")
        return thing.result() if is_future else thing

    def _count(self, *collections: Any) -> None:
        from jupyter_gpudask.inspection.placement import place_of

        for each in collections:
            place = place_of(each)
            self._outcome.collections += place is not None
            self._outcome.on_gpu += place == "gpu"


def _data_of(variable: Any) -> Any:
    return variable.data if is_on_gpu(variable.data) else variable.to_numpy()


def _opened(thing: Any) -> Any:
    """The attributes of a fitted model, the elements of a container, and a dense array of a sparse one."""
    if hasattr(thing, "get_params") and hasattr(thing, "fit"):
        return {
            name: each
            for name, each in sorted(vars(thing).items())
            if name.endswith("_") and name[0] != "_" and "graph" not in name
        }
    if isinstance(thing, tuple):
        return list(thing)
    if isinstance(thing, np.ndarray) and thing.dtype == object:
        parts = thing.ravel().tolist()
        plain = all(part is None or isinstance(part, _PLAIN) for part in parts)
        return thing if plain and not isinstance(thing, np.ma.MaskedArray) else parts
    if hasattr(thing, "toarray") and hasattr(thing, "nnz"):
        return thing.toarray()
    return str(thing) if isinstance(thing, np.dtype | pd.api.extensions.ExtensionDtype) else thing


@contextlib.contextmanager
def _captured() -> Iterator[None]:
    from IPython.utils.capture import capture_output

    with capture_output():
        yield


def _has_gpu(value: Any) -> bool:
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return is_on_gpu(value) or any(map(_has_gpu, parts))


def _moved(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _moved(each) for name, each in value.items()}
    if isinstance(value, list):
        return list(map(_moved, value))
    if not is_on_gpu(value):
        return value
    return value.get() if type(value).__module__.startswith("cupy") else value.to_pandas()


def _described(error: BaseException) -> str:
    """Class, first and last line of an error."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip(" -")] or ["no message"]
    text = " ... ".join(dict.fromkeys([lines[0][:_LONGEST], lines[-1][:_LONGEST]]))
    return f"{type(error).__name__}: {re.sub(r'0x[0-9a-f]+', '0x...', text)}"


def _frames_of(error: BaseException) -> list[str]:
    found = []
    for frame in traceback.extract_tb(error.__traceback__)[-_FRAMES:]:
        path = frame.filename.rpartition("site-packages/")[2].rpartition("jupyter_gpudask/jupyter_gpudask/")[2]
        found.append(f"{path}:{frame.lineno} {frame.name}")
    return found


def difference(cell: Cell, one: Outcome, other: Outcome) -> tuple[str, int]:
    """What differs in the second run, empty if nothing does, and how many values were compared."""
    rules = replace(STRICT_RULES, has_open_order=cell.opens_order)
    compared = 0
    for name, value in one.results.items():
        if name not in other.results:
            continue
        comparison = compare(value, other.results[name], rules.without_values() if cell.is_random else rules)
        compared += comparison.agrees is not None
        if comparison.agrees is False:
            return f"{name or 'the last expression'}: {comparison.text}", compared
    if other.left_on_gpu and not one.left_on_gpu:
        return f"{', '.join(other.left_on_gpu)}: on the GPU", compared
    return "", compared
