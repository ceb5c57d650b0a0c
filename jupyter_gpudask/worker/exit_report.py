"""How workers ended, in the log of the supervisor."""

from __future__ import annotations

import logging
import sys


def tell_how_workers_end() -> None:
    """Have the log name each worker's process that did not end by itself.

    distributed's nannies say it as mere information, which a cluster silences.
    """
    handler = logging.StreamHandler(sys.stderr)
    handler.addFilter(_tells_of_a_death)
    logging.getLogger("distributed.nanny").addHandler(handler)


def _tells_of_a_death(record: logging.LogRecord) -> bool:
    return record.levelno == logging.INFO and record.getMessage().startswith("Worker process ")
