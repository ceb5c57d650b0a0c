"""Processes that run code for the oracle, so that a crash or a standstill costs one answer and no more."""

from __future__ import annotations

import contextlib
import json
import multiprocessing
import os
import signal
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path

START_LIMIT = 240.0
"""Seconds for a process to import what it needs."""

NOT_RUN = "not run"
"""The outcome of what has not run; the journal does not keep it."""

LOST = (EOFError, OSError, TimeoutError)
"""What is raised if a process was lost."""


class Process:
    """A spawned process that runs ``serve(pipe, *arguments)``; it is made again after it was lost.

    `serve` calls `os.setsid` and sends one message when it is ready; what the process has started is ended with it.
    """

    def __init__(self, serve: Callable[..., None], *arguments: Any) -> None:
        self._serve, self._arguments = serve, arguments
        self._process: Any = None
        self._pipe: Any = None

    @property
    def exists(self) -> bool:
        """Whether it was started, and not closed since."""
        return self._process is not None

    def start(self, limit: float = START_LIMIT) -> None:
        """Make the process, if there is none, and wait until it is ready; raises one of `LOST`."""
        if self._process is not None:
            return
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        process = context.Process(target=self._serve, args=(theirs, *self._arguments))
        process.start()
        self._process = process
        theirs.close()
        self.receive(limit)

    def send(self, message: Any) -> None:
        """Send a message to it."""
        self._pipe.send(message)

    def receive(self, limit: float) -> Any:
        """Its next message; raises one of `LOST`."""
        if not self._pipe.poll(limit):
            raise TimeoutError
        return self._pipe.recv()

    def lost(self, error: Exception, limit: float) -> str:
        """Close it after an error of `LOST`; how it ended, in words."""
        code = None
        if not isinstance(error, TimeoutError) and self._process is not None:
            self._process.join(60)
            code = self._process.exitcode
        self.close()
        return f"took over {limit:.0f} s" if isinstance(error, TimeoutError) else f"the process died with {code}"

    def close(self) -> None:
        """End it, and what it has started."""
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.kill()
            self._process.join()
            self._pipe.close()
            self._process = None


def in_turns(workers: Iterable[Any], function: Callable[[Any, Any], Any], things: Iterable[Any]) -> list[Any]:
    """The results of ``function(worker, thing)`` in the order of the things; each free worker takes the next thing."""
    lock, left, found = threading.Lock(), enumerate(things), {}

    def work(worker: Any) -> None:
        nonlocal left
        while True:
            with lock:
                taken = next(left, None)
            if taken is None:
                return
            try:
                found[taken[0]] = function(worker, taken[1])
            except BaseException:
                left = iter(())  # the others stop, too
                raise

    workers = list(workers)
    with ThreadPoolExecutor(len(workers)) as pool:
        list(pool.map(work, workers))
    return [found[number] for number in sorted(found)]


class Journal:
    """A file with one JSON object a line: the options of the run, and then one row for each part of it.

    A file that exists is continued, unless it has rows of a run with other options, which is a `ValueError`; without a
    file the rows are kept in memory only. A row has an `outcome` and a `key`; `rows` has all by their keys, without
    those that have not run.
    """

    def __init__(self, file: Path | None, options: Mapping[str, Any], row: Callable[..., Any]) -> None:
        self.rows: dict[Any, Any] = {}
        self._file = file
        self._lock = threading.Lock()
        if file is None:
            return
        text = file.read_text() if file.exists() else ""
        whole = text[: text.rfind("\n") + 1] or json.dumps(dict(options)) + "\n"  # the end may be cut off
        first, *lines = map(json.loads, whole.splitlines())
        if first != dict(options):
            raise ValueError(f"{file} is of a run with {first}. Give another file: --rows FILE")
        self.rows = {found.key: found for found in (row(**line) for line in lines)}
        file.write_text(whole)

    def add(self, *rows: Any) -> None:
        """Keep the rows, and write them to the file."""
        new = {row.key: row for row in rows if row.outcome != NOT_RUN}
        with self._lock:
            self.rows |= new
            if self._file is not None:
                with self._file.open("a") as file:
                    file.writelines(json.dumps(asdict(row)) + "\n" for row in new.values())
