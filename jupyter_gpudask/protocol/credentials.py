"""The file with TLS credentials that ``--security`` names."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from ..errors import ConnectError
from .state import TlsCredentials

_KEYS = ("ca", "certificate", "key")


def read_credentials(name: str) -> TlsCredentials:
    """Read a YAML or JSON file with the texts ``ca``, ``certificate`` and ``key``.

    Each is a PEM text, or the path of a PEM file, relative to the folder of the file. With the name ``-`` they are the
    first line of the standard input.

    Raises `ConnectError` if the file, or one that it names, cannot be read, or lacks a text; the message has nothing of
    its content.
    """
    import yaml  # type: ignore[import-untyped]

    file = Path(name).expanduser()
    try:
        content: Any = yaml.safe_load(sys.stdin.readline() if name == "-" else file.read_text())
    except OSError as error:
        raise _unreadable(name, error) from None
    except (ValueError, yaml.YAMLError):
        content = None  # what the parser says could show a key
    if not isinstance(content, dict) or not all(isinstance(content.get(key), str) for key in _KEYS):
        raise ConnectError("security-incomplete", file=name, names=", ".join(_KEYS))
    return TlsCredentials(**{key: _pem_text(content[key], file.parent) for key in _KEYS})


def _pem_text(value: str, folder: Path) -> str:
    if "\n" in value:
        return value
    try:
        return (folder / Path(value).expanduser()).read_text()
    except (OSError, ValueError) as error:
        raise _unreadable(value, error) from None


def _unreadable(name: str, error: Exception) -> ConnectError:
    reason = getattr(error, "strerror", None) or "it is no text"
    return ConnectError("security-unreadable", file=name, error=reason)
