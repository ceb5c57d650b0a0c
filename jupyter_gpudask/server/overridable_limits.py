"""Find the administrator's limits that the user of a server can override in a configuration file of their own."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

_LIMITS = (
    "allow_ucx",
    "hand_over_after",
    "idle_timeout",
    "lease_directory",
    "max_clusters",
    "max_gpus",
    "max_workers",
    "profiles_only",
)


def overridable_limits(files: Collection[str], folders: Sequence[str], command_line: Collection[str]) -> Iterator[str]:
    """The sentences to log.

    Parameters
    ----------
    files
        The configuration files that were loaded. Those that the user can write are not the administrator's.
    folders
        The folders of configuration files, the one first that has precedence.
    command_line
        The settings that are given on the command line, which has precedence over all files.
    """
    for file in files:
        before = folders[: folders.index(parent)] if (parent := str(Path(file).parent)) in folders else ()
        own = next((folder for folder in before if _can_be_written(Path(folder))), None)
        if own is None or _can_be_written(Path(file)):
            continue
        text = Path(file).read_text(errors="replace")
        names = [name for name in _LIMITS if name not in command_line and re.search(rf"\b{name}\b", text)]
        if names:
            yield (
                f"The user of this server can override {', '.join(names)} of {file}: files in {own} have precedence. "
                "In JupyterHub, set c.Spawner.disable_user_config = True, or give these limits in c.Spawner.args."
            )


def _can_be_written(path: Path) -> bool:
    """Whether this user can write or create it."""
    existing = next(each for each in (path, *path.parents) if each.exists())
    return os.access(existing, os.W_OK)
