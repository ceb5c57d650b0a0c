"""What a step has left: processes, CUDA contexts and device memory, as the operating system and NVML report them."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import Any

import psutil

from jupyter_gpudask.machine.gpus import list_gpus

# Each process of a step inherits this variable; its value is the step's.
VARIABLE = "GPUDASK_BENCHMARK_STEP"
LIMIT = 20.0
ALLOWED_BYTES = 2**28


class Witness:
    """Compares the GPUs with what they were when this was created."""

    def __init__(self) -> None:
        self.memory = _memory()
        self._contexts = _contexts()

    def look(self, token: str) -> dict[str, Any]:
        """Wait until nothing of a step is left, and report it; processes that are then still there are killed.

        Parameters
        ----------
        token
            The value of `VARIABLE` in the processes of the step.
        """
        began = time.monotonic()
        while (left := self._left(token)) and time.monotonic() - began < LIMIT:
            time.sleep(0.1)
        seconds = round(time.monotonic() - began, 1)
        for process in _processes(token):
            with suppress(psutil.Error):
                process.kill()
        return {"nothing_left": not left, "seconds": seconds, "memory_used": _memory(), **left}

    def _left(self, token: str) -> dict[str, Any]:
        """What is left; empty if nothing is."""
        contexts = sorted(_contexts() - self._contexts)
        more = [now - before for now, before in zip(_memory(), self.memory, strict=True)]
        left: dict[str, Any] = {}
        if names := [_name(process) for process in _processes(token)]:
            left["processes"] = names
        if contexts:
            left["contexts"] = contexts
        if any(amount > ALLOWED_BYTES for amount in more):
            left["more_memory"] = more
        return left


def _memory() -> list[int]:
    return [gpu.memory_used or 0 for gpu in list_gpus()]


def _contexts() -> set[int]:
    return {process.pid for gpu in list_gpus() for process in gpu.processes}


def _processes(token: str) -> list[psutil.Process]:
    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get(VARIABLE) == token:
                found.append(process)
        except (psutil.Error, OSError):
            continue
    return found


def _name(process: psutil.Process) -> str:
    try:
        return f"{process.pid}: {' '.join(process.cmdline())[:120]}"
    except psutil.Error:
        return str(process.pid)
