"""Where a worker's output goes: its log file, which may lie on a disk that is full."""

from __future__ import annotations

import io
import logging
import os
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

logger = logging.getLogger(__name__)


class _LossyFile(io.FileIO):
    """A file that drops what cannot be written: a task that prints must not fail because the disk is full."""

    def write(self, content: Any) -> int:
        try:
            return super().write(content)
        except OSError:
            return len(content)


def send_output_to(log: Path) -> None:
    """Have what this process prints and logs appended to `log`, as far as it can be written.

    That holds for compiled code and for child processes too. If there can be no such file, the output stays where
    it goes now.
    """
    try:
        file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    except OSError as error:
        logger.warning("There is no log of this worker: %s", error)
        return
    sys.stdout.flush()
    sys.stderr.flush()
    os.dup2(file, 1)
    os.dup2(file, 2)
    os.close(file)
    sys.stdout, sys.stderr = _lossy_text(1), _lossy_text(2)


def _lossy_text(descriptor: int) -> io.TextIOWrapper:
    raw = io.BufferedWriter(_LossyFile(descriptor, "w", closefd=False))
    return io.TextIOWrapper(raw, encoding="utf-8", errors="backslashreplace", line_buffering=True)
