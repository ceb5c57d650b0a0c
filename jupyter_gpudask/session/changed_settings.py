"""The settings of Dask's configuration that this kernel has changed, which its cluster gets, too."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping
from typing import Any

# Credentials, what a Dask client sets itself, and what a cell for GPUs changes.
_CREDENTIAL = re.compile(
    r"(?<![a-z])(tls|ca|auth|authorization|password|passphrase|passwd|token|secret|credentials?|cookie|"
    r"(api|access|private|account|ssh)[-_]?key)s?(?![a-z])",
    re.IGNORECASE,
)
_KEPT = frozenset({("scheduler",), ("shuffle",), ("array", "backend"), ("dataframe", "backend")})


def changed_settings() -> tuple[dict[str, Any], list[str]]:
    """The settings that differ from Dask's defaults, without credentials.

    Returns
    -------
    (dict, list of str)
        The settings, nested as in `dask.config.config`, and the names of those whose values JSON does not represent,
        which are left out. Both are empty if this kernel has not imported Dask: each process reads Dask's files and
        environment variables itself.
    """
    config = sys.modules.get("dask.config")
    if config is None:
        return {}, []
    left_out: list[str] = []
    with config.config_lock:
        defaults = config.merge(*reversed(config.defaults))
        return _changes(config.config, defaults, (), left_out), left_out


def _changes(
    settings: Mapping[str, Any], defaults: Mapping[str, Any], section: tuple[str, ...], left_out: list[str]
) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in settings.items():
        path, default = (*section, str(name)), defaults.get(name)
        if path in _KEPT or _CREDENTIAL.search(path[-1]):
            continue
        if isinstance(value, Mapping):
            if changed := _changes(value, default if isinstance(default, Mapping) else {}, path, left_out):
                found[name] = changed
        elif value is default:
            continue
        elif not _is_json({name: value}):
            left_out.append(".".join(path))
        elif name not in defaults or value != default:
            found[name] = value
    return found


def _is_json(value: object) -> bool:
    try:
        return bool(json.loads(json.dumps(value, ensure_ascii=False).encode()) == value)
    except (TypeError, ValueError, RecursionError):
        return False
