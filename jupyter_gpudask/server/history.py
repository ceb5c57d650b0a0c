"""The history of metrics and cells: the last minutes in memory, and on disk a day of the times with busy clusters."""

from __future__ import annotations

import fcntl
import gzip
import json
import logging
import os
import socket
import threading
import time
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel

from ..protocol.rest import (
    CellBand,
    ClusterInfo,
    GpuInfo,
    GpuList,
    GpuMetrics,
    HistoryPart,
    MachineMetrics,
    Sample,
    WorkerMetrics,
)
from .monitor import MachineState

logger = logging.getLogger(__name__)

DAY = 24 * 3600.0
"""For how long the history is kept, in seconds."""

STEP = 10.0
"""The distance of the samples on disk, in seconds."""

_MOST_SAMPLES = 720
_MAX_BYTES = 10 * 2**20  # of each of the two files
_ROWS = 6  # that are written together
# Of several samples the means of shares and rates are kept; of sizes, and of counters, the largest.
_SHARES, _RATES = frozenset({"utilization", "cpu"}), frozenset({"nvlink", "pcie", "disk", "network"})

_M = TypeVar("_M", bound=BaseModel)

_LONGEST_GAP = 10.0
"""Seconds between two samples above which no transfer rate is computed: it would be an average over too long."""


class History:
    """Samples of the last minutes, stored as JSON, since the same ones are sent to all browsers; and a day on disk.

    - `length`: the number of samples that are kept in memory.
    - `archive`: keeps the samples while `is_recorded`, and the cells; `None` keeps none on disk.

    - `is_recorded`: whether samples are written to disk.
    """

    def __init__(self, length: int, archive: Archive | None = None) -> None:
        self.is_recorded = False
        self._archive = archive
        self._lock = threading.Lock()
        self._recent: list[Sample] = []  # those of the last `STEP`
        self._rows: list[dict[str, Any]] = []  # that are not on disk yet
        self._samples: deque[tuple[float, str]] = deque(maxlen=length)
        self._last: dict[str, GpuInfo] = {}
        self._last_machine: MachineState | None = None
        self._last_time = 0.0

    def add(
        self,
        time: float,
        gpus: GpuList,
        clusters: Iterable[ClusterInfo],
        machine: MachineState,
        pcie: Mapping[str, int] | None = None,
    ) -> None:
        """Append a sample; `pcie` has the transfer rates of GPUs without a counter of their traffic over PCIe."""
        seconds = time - self._last_time
        sample = Sample(
            time=time,
            machine=_machine_metrics(machine, self._last_machine, seconds),
            gpus={
                gpu.uuid: _metrics(gpu, self._last.get(gpu.uuid), seconds, (pcie or {}).get(gpu.uuid))
                for gpu in gpus.gpus
            },
            workers={
                cluster.kernel_id: {worker.name: _pick(WorkerMetrics, worker) for worker in cluster.state.workers}
                for cluster in clusters
                if cluster.state is not None
            },
        )
        self._last, self._last_machine, self._last_time = {gpu.uuid: gpu for gpu in gpus.gpus}, machine, time
        self._samples.append((time, sample.model_dump_json()))
        if self.is_recorded and self._archive is not None:
            self._record(sample)

    def since(self, time: float) -> list[str]:
        """The samples after `time`, as JSON, oldest first."""
        return [text for when, text in self._samples if when > time]

    def add_cell(self, cell: CellBand) -> None:
        """Record a cell that has ended."""
        with self._lock:
            self._rows.append(_brief(cell))

    def _record(self, sample: Sample) -> None:
        with self._lock:
            if self._recent and sample.time // STEP != self._recent[0].time // STEP:
                self._merge_recent()
            self._recent.append(sample)
            is_due = len(self._rows) >= _ROWS
        if is_due:
            self.save()

    def _merge_recent(self) -> None:
        if self._recent:
            self._rows.append(_merge(list(map(_brief, self._recent))))
        self._recent = []

    def save(self) -> None:
        """Write to disk what is not there yet. It blocks."""
        with self._lock:
            self._merge_recent()
            rows, self._rows = self._rows, []
        if rows and self._archive is not None:
            self._archive.append(rows)

    def last(self, seconds: float) -> HistoryPart:
        """The cells and samples of the last `seconds`, as many samples as a chart can show. It blocks."""
        self.save()
        start = time.time() - seconds
        step = max(STEP, seconds / _MOST_SAMPLES)
        places: dict[int, list[dict[str, Any]]] = {}
        cells = []
        for row in self._archive.read() if self._archive is not None else ():
            if "gpus" in row and row["time"] >= start:
                places.setdefault(int(row["time"] // step), []).append(row)
            elif "kernel_id" in row and row["began"] + row["seconds"] >= start:
                cells.append(row)
        samples = [_merge(places[place]) for place in sorted(places)]
        return HistoryPart.model_validate({"step": step, "samples": samples, "cells": cells})


class Archive:
    """Two files with the samples and cells of a day, which all servers of a user on this machine share.

    When the newer file is full, or has begun a day ago, it replaces the older one. Only the user can read them.
    """

    def __init__(self, folder: Path, max_bytes: int = _MAX_BYTES) -> None:
        self._folder, self._max_bytes = folder, max_bytes
        self._new, self._old = (folder / f"{socket.gethostname()}{suffix}.jsonl.gz" for suffix in ("", ".old"))
        self._problem = ""

    def append(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """Add rows; a folder that cannot be written to is logged once."""
        data = gzip.compress("".join(f"{json.dumps(row)}\n" for row in rows).encode(), 6)
        try:
            with self._hold_lock():
                if self._is_full(len(data)):
                    self._new.replace(self._old)
                _append(self._new, data)
        except OSError as error:
            problem = f"The history cannot be written to {self._folder}: {error.strerror or error}."
            if problem != self._problem:
                logger.warning("%s", problem)
            self._problem = problem

    def read(self) -> Iterator[dict[str, Any]]:
        """The rows, the oldest first; what cannot be read is left out."""
        for path in (self._old, self._new):
            with suppress(OSError, EOFError, ValueError), gzip.open(path, "rt") as file:
                yield from map(json.loads, file)

    def _is_full(self, more: int) -> bool:
        try:
            if self._new.stat().st_size + more > self._max_bytes:
                return True
            with gzip.open(self._new, "rt") as file:
                first = json.loads(file.readline())
        except FileNotFoundError:
            return False
        except (OSError, EOFError, ValueError):
            return True
        return bool(time.time() - first.get("time", first.get("began", 0.0)) > DAY)

    @contextmanager
    def _hold_lock(self) -> Iterator[None]:
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = os.open(self._folder / "lock", os.O_CREAT | os.O_RDWR, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield
        finally:
            os.close(lock)


def _append(path: Path, data: bytes) -> None:
    """Append `data`, or nothing if the disk is full: what follows half of it could not be read."""
    file = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW, 0o600)
    try:
        size = os.fstat(file).st_size
        try:
            if os.write(file, data) == len(data):
                return
        except OSError:
            os.ftruncate(file, size)
            raise
        os.ftruncate(file, size)
    finally:
        os.close(file)


def _brief(model: BaseModel) -> dict[str, Any]:
    return model.model_dump(exclude_none=True)


def _merge(samples: Sequence[dict[str, Any]], name: str = "") -> Any:
    """One sample for several; the time is the newest."""
    if not isinstance(samples[0], dict):
        mean = sum(samples) / len(samples)
        return round(mean, 1) if name in _SHARES else round(mean) if name in _RATES else max(samples)
    names = dict.fromkeys(key for each in samples for key in each)
    return {key: _merge([each[key] for each in samples if key in each], key) for key in names}


def _metrics(gpu: GpuInfo, before: GpuInfo | None, seconds: float, pcie: int | None) -> GpuMetrics:
    """The metrics of `gpu`; its transfer rates, except for `pcie`, are computed from `before`, `seconds` ago."""
    rates: dict[str, int | None] = {}
    if before is not None and 0 < seconds <= _LONGEST_GAP:
        rates = {
            "nvlink": _rate(before.nvlink_bytes, gpu.nvlink_bytes, seconds),
            "pcie": _rate(before.pcie_bytes, gpu.pcie_bytes, seconds) if pcie is None else pcie,
        }
    return _pick(GpuMetrics, gpu, **rates)


def _machine_metrics(machine: MachineState, before: MachineState | None, seconds: float) -> MachineMetrics:
    """The metrics of the machine; all but its memory are computed from `before`, its state `seconds` ago."""
    if before is None or not 0 < seconds <= _LONGEST_GAP:
        return MachineMetrics(memory_used=machine.memory_used)
    passed = machine.cpu_total - before.cpu_total
    busy = (machine.cpu_busy - before.cpu_busy) / passed if passed > 0 else None
    return MachineMetrics(
        cpu=None if busy is None else round(100 * min(1.0, max(0.0, busy)), 1),
        memory_used=machine.memory_used,
        disk=_rate(before.disk_bytes, machine.disk_bytes, seconds),
        network=_rate(before.network_bytes, machine.network_bytes, seconds),
    )


def _rate(before: int | None, now: int | None, seconds: float) -> int | None:
    """The rate at which a counter grows; `None` if it is unknown, or the counter was reset."""
    if before is None or now is None or now < before:
        return None
    return round((now - before) / seconds)


def _pick(kind: type[_M], state: BaseModel, **others: Any) -> _M:
    """A `kind` with the attributes that it has in common with `state`, and `others`."""
    shared = kind.model_fields.keys() & type(state).model_fields.keys()
    return kind.model_construct(**{name: getattr(state, name) for name in shared}, **others)
