"""Run Dask on the GPUs of this machine, from a notebook or a script.

In a notebook or in IPython, load the extension and start a cluster::

    %load_ext jupyter_gpudask
    %gpudask start

Then put ``%%gpudask`` above a cell that was written for NumPy and pandas. In a script, use
``with jupyter_gpudask.gpu():``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ._version import __version__

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

    from .session.gpu import gpu

__all__ = ["__version__", "gpu", "load_ipython_extension", "unload_ipython_extension"]


def __getattr__(name: str) -> Any:
    if name == "gpu":  # here, because a server does not need it
        from .session.gpu import gpu

        return gpu
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def load_ipython_extension(shell: InteractiveShell) -> None:
    """Register the magics ``%gpudask`` and ``%%gpudask``; called by ``%load_ext jupyter_gpudask``."""
    from .magics import load

    load(shell)


def unload_ipython_extension(shell: InteractiveShell) -> None:
    """Close the cluster and remove the magics; called by ``%unload_ext jupyter_gpudask``."""
    from .magics import unload

    unload(shell)


def _jupyter_labextension_paths() -> list[dict[str, str]]:
    return [{"src": "labextension", "dest": "jupyter-gpudask"}]


def _jupyter_server_extension_points() -> list[dict[str, Any]]:
    from .server.extension import GpuDaskExtension

    return [{"module": "jupyter_gpudask", "app": GpuDaskExtension}]
