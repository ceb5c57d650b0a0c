"""The IPython magics: ``%gpudask`` controls the kernel's cluster, ``%%gpudask`` runs a cell on it.

Runs in the kernel.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # scripts run without IPython, so nothing of it is imported before `load`
    from IPython.core.interactiveshell import InteractiveShell

    from .magics import GpuDaskMagics

_MAGICS = ("gpudask", "_gpudask_cell", "_gpudask_compare", "_gpudask_on")


def load(shell: InteractiveShell) -> None:
    """Register the magics in `shell`, unless they are registered already."""
    from .magics import GpuDaskMagics

    if _find_magics(shell) is not None:
        return
    magics = GpuDaskMagics(shell)
    shell.register_magics(magics)
    magics.contexts.install()
    for hooks, hook in _hooks(shell, magics):
        hooks.append(hook)


def unload(shell: InteractiveShell) -> None:
    """Close the cluster, unregister the magics, and undo the patches."""
    magics = _find_magics(shell)
    if magics is None:
        return
    from ..overlay import set_outside
    from ..patches.apply import patches

    magics.session.stop()
    magics.contexts.uninstall()
    for hooks, hook in _hooks(shell, magics):
        if hook in hooks:  # IPython removes one that has raised an error
            hooks.remove(hook)
    for kind in shell.magics_manager.magics.values():
        for name in _MAGICS:
            kind.pop(name, None)
    shell.magics_manager.registry.pop(type(magics).__name__, None)
    patches.undo()
    set_outside(None)


def _hooks(shell: InteractiveShell, magics: GpuDaskMagics) -> list[tuple[list[Any], Any]]:
    """The lists of the shell that have a part of the magics, and the part."""
    return [
        (shell.input_transformers_cleanup, magics.transformer.transform),
        (shell.ast_transformers, magics.automatic),
        (shell.configurables, magics.settings),
        (shell.Completer.custom_matchers, magics.matcher),
    ]


def _find_magics(shell: InteractiveShell) -> GpuDaskMagics | None:
    magics: GpuDaskMagics | None = shell.magics_manager.registry.get("GpuDaskMagics")
    return magics
