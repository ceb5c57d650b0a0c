"""Locations of Unix sockets in Dask's addresses, ``DIRECTORY:NUMBER``.

The directory is quoted as in a URL, because Dask takes the first colon of some addresses for that before the port.
"""

from __future__ import annotations

import os
from pathlib import Path
from urllib.parse import quote, unquote_to_bytes


def host_of(directory: Path) -> str:
    """A directory of sockets, as Dask's servers take it in their argument `host`."""
    return quote(os.fsencode(directory))


def address_of(directory: str, number: int) -> str:
    """The location of a socket in a quoted directory."""
    return f"{directory}:{number}"


def path_of(address: str) -> Path:
    """The file of the socket at a location."""
    directory, _, number = address.rpartition(":")
    return Path(os.fsdecode(unquote_to_bytes(directory)), number)
