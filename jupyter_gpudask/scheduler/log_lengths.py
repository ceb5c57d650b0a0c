"""Lengths of the logs that the scheduler, the nannies, the workers and the kernel's client keep in memory."""

from __future__ import annotations

import dask.config

# The defaults of Dask and of this package: records of logs; sent messages, which can be whole graphs, and transitions;
# samples of the system monitor, two a second.
_LENGTHS = {
    "distributed.admin.log-length": (10_000, 1000),
    "distributed.admin.low-level-log-length": (1000, 100),
    "distributed.admin.system-monitor.log-length": (7200, 1200),
}


def shorten_logs() -> dask.config.set:
    """Configure shorter logs for everything that Dask creates from now on, or in a ``with`` block.

    Lengths that the user has configured are kept.
    """
    return dask.config.set(
        {name: ours for name, (default, ours) in _LENGTHS.items() if dask.config.get(name) == default}
    )
