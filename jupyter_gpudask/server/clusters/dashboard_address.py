"""The address of Dask's dashboard of a cluster that somebody else started."""

from __future__ import annotations

import re
from urllib.parse import urljoin, urlsplit

_ORIGIN = re.compile(r"https?://(?:[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\]):(\d{1,5})")
_PATH = re.compile(r"(?:/[A-Za-z0-9._~%!$&'()*+,;=:@-]*)+")
_DOTS = re.compile(r"%2e", re.IGNORECASE)


def dashboard_origin(address: str) -> str | None:
    """Scheme, host and port of a dashboard, such as ``http://10.0.0.1:8787``; `None` if the address has none."""
    match = _ORIGIN.match(address)
    if match is None or address[match.end() :][:1] not in ("", "/") or not 0 < int(match[1]) < 2**16:
        return None
    return match[0]


def is_plain_path(path: str) -> bool:
    """Whether a browser and a server read the path alike, and it leads nowhere else: it has no segment of dots."""
    segments = _DOTS.sub(".", path).split("/")
    return _PATH.fullmatch(path) is not None and not {".", ".."}.intersection(segments)


def redirect_target(url: str, location: str) -> str | None:
    """The path and the query to which a response redirects; `None` if they are not at the same host and port."""
    try:
        old, new = urlsplit(url), urlsplit(urljoin(url, location))
    except ValueError:
        return None
    path = new.path or "/"
    if (new.scheme, new.netloc) != (old.scheme, old.netloc) or not is_plain_path(path):
        return None
    if not new.query.isascii() or not new.query.isprintable():
        return None
    return f"{path}?{new.query}" if new.query else path
