"""Random programs, run with NumPy and pandas, with Dask, and with Dask under the switch, and compared.

    python oracle/random_programs.py --seconds 300 --rows ROWS.jsonl --table benchmarks/results/NAME.md
    python oracle/random_programs.py --program 1234                # run one, and print all of it
    python oracle/random_programs.py --array numpy --dataframe pandas
    PYTHONPATH=tests/fake_cupy python oracle/random_programs.py --dataframe pandas --kind array

A program has some data and a few steps in the style of pandas or NumPy (`programs.py`), all made from its seed. It
agrees if Dask under the switch has the values, dtypes, names and order of Dask on the CPU, or fails where that fails.
Where they differ, NumPy and pandas decide: a result like theirs is no finding, and neither is a difference that
docs/what-runs-where.md lists (`program_runs.py`). The others are made smaller and grouped by the last operation.
Without an option, the backends are CuPy and cuDF where there is a GPU, and those of the CPU elsewhere.

Most of the time goes into the programs and their runs without the switch, which need no GPU: ``--prepare FILE``
makes these elsewhere with the same versions, and ``--prepared FILE`` takes them.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import pickle
import sys
import threading
import time
from collections import Counter, defaultdict
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from processes import LOST, Journal, Process, in_turns
from program_runs import FINDINGS, Outcome, Row, Way, judge, run
from programs import make
from reports import ONE_THREAD, finish, parser, percent
from sides import BROKEN

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
    from multiprocessing.connection import Connection

    from programs import Kind, Program

Prepared = dict[int, tuple["Program", dict[str, Outcome]]]
"""By seed, a program and its outcomes without the switch."""

WAYS: dict[Kind, tuple[tuple[Way, ...], tuple[Way, ...]]] = {
    "frame": (("host", "dask"), ("switch",)),
    "array": (("host", "dask"), ("switch", "optimized")),
}
"""How the first and the second process run a program."""


class Pair:
    """A process without the switch, in which Dask is not patched, and one with it; `limit` seconds for each run."""

    def __init__(self, array: str, dataframe: str, limit: float, prepared: Prepared | None = None) -> None:
        self._on_gpu, self._limit, self._prepared = dataframe == "cudf", limit, prepared or {}
        self._processes = [Process(_serve, array, dataframe, place) for place in (0, 1)]

    def judged_seed(self, seed: int, kinds: Sequence[Kind]) -> tuple[Program, Row]:
        """Make the program of a seed, run it in all ways, and compare; raises as `judged`."""
        if seed in self._prepared:
            program, outcomes = self._prepared[seed]
            return program, self._judged_beside(program, outcomes)
        self._send((seed, tuple(kinds)))
        # To make many programs here would take longer than to run them.
        programs = [self._received(process) for process in self._processes]
        program = next((program for program in programs if program is not None), None) or make(seed, kinds)
        return program, self._judged(program)

    def judged(self, program: Program) -> Row:
        """Run a program in all ways, and compare; a `RuntimeError` if a process cannot be started."""
        self._send(program)
        for process in self._processes:
            self._received(process)
        return self._judged(program)

    def _judged_beside(self, program: Program, outcomes: dict[str, Outcome]) -> Row:
        """Run a program with the switch only, in the second process, which compares, too."""
        process = self._processes[1]
        self._send((program, outcomes), [process])
        found = self._received(process)
        row, is_broken = found or (judge(program, outcomes | {"switch": None}, on_gpu=self._on_gpu), False)
        if is_broken:
            process.close()
        return row

    def _send(self, asked: Any, to: Sequence[Process] = ()) -> None:
        for process in to or self._processes:
            try:
                process.start()
            except LOST as error:
                process.close()
                raise RuntimeError("A process does not start: see its output above.") from error
        for process in to or self._processes:
            with contextlib.suppress(OSError):
                process.send(asked)

    def _received(self, process: Process) -> Any:
        """The next answer; `None` if the process was lost."""
        if not process.exists:
            return None
        try:
            return process.receive(self._limit)
        except LOST:
            process.close()
            return None

    def _judged(self, program: Program) -> Row:
        outcomes: dict[str, Outcome | None] = {}
        for process, ways in zip(self._processes, WAYS[program.kind], strict=True):
            outcomes |= {way: self._received(process) for way in ways}
            if _are_broken(outcomes):
                process.close()
        return judge(program, outcomes, on_gpu=self._on_gpu)

    def close(self) -> None:
        """End both processes."""
        for process in self._processes:
            process.close()


def _are_broken(outcomes: Mapping[str, Outcome | None]) -> bool:
    return any(outcome and any(word in outcome.error for word in BROKEN) for outcome in outcomes.values())


def _serve(pipe: Connection, array: str, dataframe: str, place: int) -> None:
    os.setsid()
    for kind, ways in WAYS.items():
        outcome = run(make(0, [kind]), ways[place][0], array, dataframe)
        if outcome.error.startswith(("BackendUnavailableError", "PatchError")):  # nothing can run
            raise SystemExit(outcome.error)
    pipe.send(None)
    with contextlib.suppress(EOFError):
        while True:
            asked = pipe.recv()
            if isinstance(asked, tuple) and not isinstance(asked[0], int):
                program, outcomes = asked
                outcomes |= {way: run(program, way, array, dataframe) for way in WAYS[program.kind][place]}
                pipe.send((judge(program, outcomes, on_gpu=dataframe == "cudf"), _are_broken(outcomes)))
                continue
            program = make(*asked) if isinstance(asked, tuple) else asked
            pipe.send(program)
            for way in WAYS[program.kind][place]:
                pipe.send(_sendable(run(program, way, array, dataframe)))


def _sendable(outcome: Outcome) -> Outcome:
    """An outcome that can be sent: what cannot be pickled is sent as its text."""
    try:
        pickle.dumps(outcome)
    except Exception:  # noqa: BLE001 - of any class
        return replace(outcome, value=f"{type(outcome.value).__name__}: {outcome.value!r}")
    return outcome


def reduced(program: Program, row: Row, judged: Callable[[Program], Row], seconds: float) -> tuple[Program, Row]:
    """The smallest program with the same difference that was found in so many seconds, and its row."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        for smaller in _smaller(program):
            if time.monotonic() >= deadline:
                return program, row
            found = judged(smaller)
            if (found.outcome, found.host, found.way) == (row.outcome, row.host, row.way):
                program, row = smaller, found
                break
        else:
            return program, row
    return program, row


def _smaller(program: Program) -> Iterator[Program]:
    """Programs with one thing less, those with one step less first."""
    for place in range(len(program.steps) - 1, -1, -1):
        yield replace(program, steps=(*program.steps[:place], *program.steps[place + 1 :]))
    used = "\n".join(step.text for step in program.steps)
    for name, data in program.data.items():
        if name != "v" and f"{name}" not in used.replace("where", ""):
            yield replace(program, data={other: kept for other, kept in program.data.items() if other != name})
            continue
        for smaller in data.smaller():
            yield replace(program, data={**program.data, name: smaller})


def groups(rows: Iterable[Row]) -> list[list[Row]]:
    """The differences, equal ones together: the largest group first, and in it the smallest program."""
    found = defaultdict(list)
    for row in rows:
        if row.outcome in FINDINGS:
            found[row.group].append(row)
    ordered = [sorted(group, key=lambda row: (not row.source, len(row.source), row.seed)) for group in found.values()]
    return sorted(ordered, key=lambda group: (-len(group), group[0].group))


def counts(rows: Sequence[Row]) -> dict[str, Any]:
    """How many programs came out how."""
    return {
        "programs": len(rows),
        **dict(Counter(row.outcome for row in rows).most_common()),
        "fail in Dask on the CPU, too": sum(row.fails for row in rows),
        "Dask on the CPU is unlike NumPy or pandas": sum(row.unlike_host for row in rows),
        "with something on the CPU": sum(bool(row.on_cpu) for row in rows),
    }


def table(rows: Sequence[Row]) -> Iterator[str]:
    """Each group of differences with a program to paste."""
    for group in groups(rows):
        first, seeds = group[0], ", ".join(str(row.seed) for row in group[:20])
        yield from (f"## {first.outcome}: {first.last} ({len(group)})", "")
        yield from (f"Seeds {seeds}. NumPy or pandas: {first.host or 'unknown'}.", "", f"    {first.note}", "")
        yield from ("```python", first.source.rstrip(), "```", "")


def _seeds(arguments: argparse.Namespace, deadline: float, done: Container[int]) -> Iterator[int]:
    """Those that are not done, until the time is over."""
    last = None if arguments.programs is None else arguments.seed + arguments.programs
    seeds = itertools.count(arguments.seed) if last is None else range(arguments.seed, last)
    return itertools.takewhile(lambda _: time.monotonic() < deadline, (seed for seed in seeds if seed not in done))


def read_prepared(file: Path) -> Prepared:
    """What `prepare` has written."""
    found: Prepared = {}
    with file.open("rb") as stream, contextlib.suppress(EOFError):
        while True:
            program, outcomes = pickle.load(stream)  # noqa: S301 - of this script
            found[program.seed] = program, outcomes
    return found


def prepare(arguments: argparse.Namespace) -> None:
    """Write the programs of the seeds and their outcomes without the switch; a file that exists is continued."""
    done = read_prepared(arguments.prepare) if arguments.prepare.exists() else {}
    lock = threading.Lock()

    def run_one(process: Process, seed: int) -> None:
        try:
            process.start()
            process.send((seed, tuple(arguments.kind)))
            program, host, dask = (process.receive(arguments.limit) for _ in range(3))
        except LOST:
            process.close()
            return
        with lock:
            stream.write(pickle.dumps((program, {"host": host, "dask": dask})))
            stream.flush()

    processes = [Process(_serve, "numpy", "pandas", 0) for _ in range(arguments.processes)]
    try:
        with arguments.prepare.open("ab") as stream:
            in_turns(processes, run_one, _seeds(arguments, time.monotonic() + arguments.seconds, done))
    finally:
        for process in processes:
            process.close()


def search(arguments: argparse.Namespace, journal: Journal) -> None:
    """Run the programs of many seeds, until the time is over or they are done; of a group only the first is reduced."""
    deadline = time.monotonic() + arguments.seconds
    prepared = read_prepared(arguments.prepared) if arguments.prepared else {}
    found: set[tuple[str, ...]] = set()
    lock = threading.Lock()

    def run_one(pair: Pair, seed: int) -> None:
        program, row = pair.judged_seed(seed, arguments.kind)
        if row.outcome in FINDINGS:
            with lock:
                is_new = row.group not in found
                found.add(row.group)
            if is_new:
                left = max(1.0, deadline - time.monotonic())
                program, row = reduced(program, row, pair.judged, min(arguments.reduce, left))
            row.source = program.source
            print(f"{row.outcome}, seed {seed}, {row.last}: {row.note}"[:300], file=sys.stderr)
        journal.add(row)

    options = arguments.array, arguments.dataframe, arguments.limit, prepared
    pairs = [Pair(*options) for _ in range(arguments.processes)]
    try:
        in_turns(pairs, run_one, _seeds(arguments, deadline, journal.rows))
    finally:
        for pair in pairs:
            pair.close()


def show(arguments: argparse.Namespace) -> None:
    """Run one program in this process, and print all of it."""
    pair = Pair(arguments.array, arguments.dataframe, arguments.limit)
    try:
        program, row = pair.judged_seed(arguments.program, arguments.kind)
        print(program.source)
        if row.outcome in FINDINGS:
            program, row = reduced(program, row, pair.judged, arguments.reduce)
            print(f"# made smaller\n{program.source}")
    finally:
        pair.close()
    for way in ("host", "dask", "switch", "optimized"):
        outcome = run(program, way, arguments.array, arguments.dataframe)
        print(f"--- {way}: {outcome.error or ''}\n{outcome.value!r}\n{outcome.facts or ''}")
        for operation, blocks in outcome.on_cpu.items():
            print(f"on the CPU: {operation}, {blocks} blocks")
    print(f"{row.outcome} {row.note} {row.host}")


def main() -> None:
    made = parser(__doc__, seconds=300.0)
    made.add_argument("--kind", nargs="+", choices=["frame", "array"], default=["frame", "array"])
    made.add_argument("--seed", type=int, default=0, help="of the first program; the next ones count up")
    made.add_argument("--programs", type=int, help="how many; without it, as many as the time allows")
    made.add_argument("--reduce", type=float, default=15.0, help="seconds to make a program smaller")
    made.add_argument("--program", type=int, metavar="SEED", help="run one program, and print all of it")
    made.add_argument("--prepare", type=Path, metavar="FILE", help="only run what needs no GPU, and keep it")
    made.add_argument("--prepared", type=Path, metavar="FILE", help="take from a file what --prepare has kept")
    arguments = made.parse_args()
    # The order of columns that Dask takes from a set is the same in all processes.
    os.environ.update(dict.fromkeys(ONE_THREAD, "1") | {"PYTHONHASHSEED": "0"})
    if arguments.program is not None or arguments.prepare:
        (prepare if arguments.prepare else show)(arguments)
        return
    options = {name: getattr(arguments, name) for name in ("array", "dataframe", "kind")}
    began = time.monotonic()
    try:
        journal = Journal(arguments.rows, options, Row)
    except ValueError as error:
        sys.exit(str(error))
    search(arguments, journal)
    rows = [journal.rows[seed] for seed in sorted(journal.rows)]
    if not rows:
        sys.exit("No program has run. Give more --seconds.")
    report = options | {
        "seeds": [rows[0].seed, rows[-1].seed],
        "seconds": round(time.monotonic() - began, 1),
        "counts": counts(rows),
        "differences": [
            {"programs": len(group), "seeds": [row.seed for row in group][:20], **asdict(group[0])}
            for group in groups(rows)
        ],
    }
    for group in groups(rows):
        print(f"\n# {group[0].outcome}: {group[0].last} ({len(group)}). {group[0].note}\n{group[0].source}")
    agree = percent(sum(row.outcome not in FINDINGS for row in rows), len(rows))
    title = "Random programs, on the CPU and with the switch on"
    finish(arguments, title, report, table(rows), hide="differences", agree=agree)


if __name__ == "__main__":
    main()
