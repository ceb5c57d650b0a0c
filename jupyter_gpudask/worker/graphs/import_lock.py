"""A lock for the import of Dask's collections, so that only one thread of a worker imports them.

These modules import each other in cycles. Two threads that start at different ends get an `ImportError`, or a deadlock
with RAPIDS' import hook, which dask-cuda installs: Python holds the global import lock while it calls a hook, and this
one imports the parent of the requested module.
"""

from __future__ import annotations

import threading
from contextlib import suppress
from importlib import import_module

_NAMES = {name: name.encode() for name in ("dask.array", "dask.bag", "dask.dataframe")}
_imported: set[str] = set()
_lock = threading.Lock()


def import_named_collections(payload: bytes) -> None:
    """Import the collection modules that a pickled task names; other threads wait until they are imported."""
    for name, word in _NAMES.items():
        if name not in _imported and word in payload:
            with _lock, suppress(ImportError):  # unpickling the task raises it again
                import_module(name)
                _imported.add(name)
