"""The switch of what is not the default yet."""

from __future__ import annotations

import os

HOST_THREADS_VARIABLE = "JUPYTER_GPUDASK_HOST_THREADS"
"""With the value 1, in the process that starts a cluster, parts of tasks on the host run beside other tasks."""


def uses_host_threads() -> bool:
    """Whether this process, a worker, does so."""
    return os.environ.get(HOST_THREADS_VARIABLE) == "1"
