"""The log file of a worker: its output is redirected there, and lines are dropped if the disk is full."""

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
    """A file that drops lines that cannot be written, so that printing never fails because the disk is full."""

    def write(self, content: Any) -> int:
        try:
            return super().write(content)
        except OSError:
            return len(content)


def send_output_to(log: Path) -> None:
    """Append the output of this process to the file `log`, including that of compiled code and child processes.

    If the file cannot be opened, the output is not redirected.
    """
    try:
        file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    except OSError as error:
        logger.warning("The log of this worker cannot be opened: %s", error)
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


def shorten_pickling_errors() -> None:
    """Log what cannot be pickled in one line; Dask adds tracebacks, and sends the error to whoever asked."""
    for name in ("protocol.pickle", "protocol.core", "worker"):
        logging.getLogger(f"distributed.{name}").addFilter(_shorten)


def _shorten(record: logging.LogRecord) -> bool:
    text = str(record.exc_info[1]) if record.exc_info else ""
    if str(record.msg).startswith("Failed to serialize"):
        record.msg, record.args, record.exc_info = "Failed to serialize: %s", (text,), None
    return not text.startswith("Could not serialize object of type ")  # the worker that has it logs the line above
