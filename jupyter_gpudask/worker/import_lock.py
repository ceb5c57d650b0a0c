"""The parts of Dask that tasks need are imported by one thread of a worker, whichever comes first, and not by several.

Modules of Dask import each other in circles. Two threads that begin at different ends get an `ImportError`, or wait for
each other for ever where RAPIDS' import hook is installed, as it is with dask-cuda: Python holds the lock of all
imports while it asks a hook, and this one imports the parent of what it is asked about.
"""

from __future__ import annotations

import threading
from contextlib import suppress
from importlib import import_module

_NAMES = {name: name.encode() for name in ("dask.array", "dask.bag", "dask.dataframe")}
_imported: set[str] = set()
_lock = threading.Lock()


def import_what_is_named(payload: bytes) -> None:
    """Import the parts of Dask that a pickled task names; other threads wait until they are there."""
    for name, word in _NAMES.items():
        if name not in _imported and word in payload:
            with _lock, suppress(ImportError):  # which the task itself gets when it is unpickled
                import_module(name)
                _imported.add(name)
