"""The IPython magics: ``%gpudask`` controls the kernel's cluster, ``%%gpudask`` runs a cell on it.

Runs in the kernel.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # scripts run without IPython, so nothing of it is imported before `load`
    from IPython.core.interactiveshell import InteractiveShell
    from traitlets.config import Configurable

    from .magics import GpuDaskMagics

_MAGICS = ("gpudask", "_gpudask_cell", "_gpudask_compare", "_gpudask_on")


def load(shell: InteractiveShell) -> None:
    """Register the magics in `shell`, unless they are registered already."""
    from .magics import GpuDaskMagics

    if _find_magics(shell) is not None:
        return
    magics = GpuDaskMagics(shell)
    shell.register_magics(magics)
    magics.transformer.install()
    magics.contexts.install()
    magics.automatic.install()
    _configurables(shell).append(magics.settings)
    shell.Completer.custom_matchers.append(magics.matcher)


def unload(shell: InteractiveShell) -> None:
    """Close the cluster, unregister the magics, and undo the patches."""
    magics = _find_magics(shell)
    if magics is None:
        return
    from ..patches.apply import patches

    magics.session.stop()
    magics.transformer.uninstall()
    magics.automatic.uninstall()
    magics.contexts.uninstall()
    _configurables(shell).remove(magics.settings)
    shell.Completer.custom_matchers.remove(magics.matcher)
    for kind in shell.magics_manager.magics.values():
        for name in _MAGICS:
            kind.pop(name, None)
    shell.magics_manager.registry.pop(type(magics).__name__, None)
    patches.undo()


def _configurables(shell: InteractiveShell) -> list[Configurable]:
    """The objects that ``%config`` shows."""
    configurables: list[Any] = shell.configurables
    return configurables


def _find_magics(shell: InteractiveShell) -> GpuDaskMagics | None:
    magics: GpuDaskMagics | None = shell.magics_manager.registry.get("GpuDaskMagics")
    return magics
