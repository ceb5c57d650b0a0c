"""Pickle worker plugins so that a worker without this package can load them: it gets a plugin that does nothing.

Dask sends the registered plugins to each worker that starts. A plugin that cannot be unpickled would prevent the worker
from starting, even if somebody else starts it in another environment.
"""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING, Any

from distributed.protocol.pickle import dumps

if TYPE_CHECKING:
    from distributed import WorkerPlugin

# Source code, because a worker without this package cannot import a function of it, and because pickled bytecode
# depends on the version of Python.
_LOADER = """
def load(data):
    import pickle
    from distributed import WorkerPlugin
    try:
        return pickle.loads(data)
    except ImportError:
        return WorkerPlugin()
"""


class _OptionalPlugin:
    def __init__(self, plugin: WorkerPlugin) -> None:
        self._pickled = pickle.dumps(plugin)

    def __reduce__(self) -> tuple[Any, ...]:
        return eval, ("(exec(loader), load(data))[1]", {"loader": _LOADER, "data": self._pickled})


def dump_optional(plugin: WorkerPlugin) -> bytes:
    """Pickle a plugin for Dask's ``register_worker_plugin``."""
    pickled: bytes = dumps(_OptionalPlugin(plugin))
    return pickled
