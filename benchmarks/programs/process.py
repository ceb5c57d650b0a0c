"""Two processes that run programs: a crash of a library, or a standstill, costs one program and no more."""

from __future__ import annotations

import contextlib
import pickle
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from spawned import SpawnedProcess

from .compare import Row, judge
from .make import make
from .run import Backends, Outcome, Way, run

if TYPE_CHECKING:
    from collections.abc import Sequence
    from multiprocessing.connection import Connection

    from .program import Kind, Program

START_LIMIT = 240.0
"""Seconds for a process to import what it needs."""

WAYS: dict[Kind, tuple[tuple[Way, ...], tuple[Way, ...]]] = {
    "frame": (("host", "dask"), ("switch",)),
    "array": (("host", "dask"), ("switch", "optimized")),
}
"""How the first and the second process run a program."""

_BROKEN = ("cudaErrorIllegalAddress", "CUDA_ERROR_ILLEGAL_ADDRESS", "CUDA error encountered")
"""After such an error nothing works in a process any more."""


class Pair:
    """A process without the switch, in which Dask is not patched, and one with it.

    Parameters
    ----------
    backends
        Of the switch.
    limit
        Seconds for one run of a program.
    """

    def __init__(self, backends: Backends, limit: float) -> None:
        self._backends, self._limit = backends, limit
        self._processes = [SpawnedProcess(_serve, backends, place, daemon=True) for place in (0, 1)]

    def judged_seed(self, seed: int, kinds: Sequence[Kind]) -> tuple[Program, Row]:
        """Make the program of a seed, run it in all ways, and compare; raises as `judged`."""
        self._send((seed, tuple(kinds)))
        # To make many programs here would take longer than to run them.
        programs = [self._received(process) for process in self._processes]
        program = next((program for program in programs if program is not None), None) or make(seed, kinds)
        return program, self._judged(program)

    def judged(self, program: Program) -> Row:
        """Run a program in all ways, and compare.

        Raises
        ------
        RuntimeError
            A process cannot be started.
        """
        self._send(program)
        for process in self._processes:
            self._received(process)
        return self._judged(program)

    def _send(self, asked: Program | tuple[int, tuple[Kind, ...]]) -> None:
        for process in self._processes:
            try:
                process.start(START_LIMIT)
            except (EOFError, OSError, TimeoutError) as error:
                process.close()
                raise RuntimeError("A process does not start: see its output above.") from error
        for process in self._processes:
            with contextlib.suppress(OSError):
                process.send(asked)

    def _received(self, process: SpawnedProcess) -> Any:
        """The next answer; `None` if the process was lost."""
        if not process.exists:
            return None
        try:
            return process.receive(self._limit)
        except (EOFError, OSError, TimeoutError):
            process.close()
            return None

    def _judged(self, program: Program) -> Row:
        outcomes: dict[str, Outcome | None] = {}
        for process, ways in zip(self._processes, WAYS[program.kind], strict=True):
            outcomes |= {way: self._received(process) for way in ways}
            if any(outcome and any(word in outcome.error for word in _BROKEN) for outcome in outcomes.values()):
                process.close()
        return judge(program, outcomes, on_gpu=self._backends.dataframe == "cudf")

    def close(self) -> None:
        """End both processes."""
        for process in self._processes:
            process.close()


def _serve(pipe: Connection, backends: Backends, place: int) -> None:
    for kind, ways in WAYS.items():
        outcome = run(make(0, [kind]), ways[place][0], backends)
        if outcome.error.startswith(("BackendUnavailableError", "PatchError")):  # nothing can run
            raise SystemExit(outcome.error)
    pipe.send(None)
    with contextlib.suppress(EOFError):
        while True:
            asked = pipe.recv()
            program = make(*asked) if isinstance(asked, tuple) else asked
            pipe.send(program)
            for way in WAYS[program.kind][place]:
                pipe.send(_sendable(run(program, way, backends)))


def _sendable(outcome: Outcome) -> Outcome:
    """An outcome that can be sent: what cannot be pickled is sent as its text."""
    try:
        pickle.dumps(outcome)
    except Exception:  # noqa: BLE001 - of any class
        return replace(outcome, value=f"{type(outcome.value).__name__}: {outcome.value!r}")
    return outcome
