"""The parts of a browser's request that are forwarded to a dashboard: no credentials of the Jupyter server.

Dask's pages have only a light theme. With ``theme=dark`` in the query, their colors are inverted, but keep their hues.
"""

from __future__ import annotations

from urllib.parse import parse_qs, unquote_plus

_DEFAULT_PATH = "/status"
_TOKEN_ARGUMENT = "token"  # noqa: S105 - the name of an argument
# https://github.com/jupyter/enhancement-proposals/pull/121
_TOKEN_SUBPROTOCOL = "v1.token.websocket.jupyter.org"  # noqa: S105 - the name of a subprotocol

_DARK = b"<style>html { background: #fff; filter: invert(0.88) hue-rotate(180deg); }</style>"
"""As the front end shows the pages in its tabs: see ``dashboard.css``."""


def path_after(path: str, prefix: str) -> str:
    """What follows `prefix` in the path of a request, as the browser wrote it; by default the first page."""
    return path.partition(f"/{prefix}")[2] or _DEFAULT_PATH


def forwarded_query(query: str) -> str:
    """The query without Jupyter's token; everything else stays as it was written."""
    arguments = query.split("&")
    return "&".join(one for one in arguments if unquote_plus(one.partition("=")[0]) != _TOKEN_ARGUMENT)


def forwarded_subprotocols(header: str) -> list[str]:
    """The subprotocols of a WebSocket that are not Jupyter's: one may contain the token."""
    names = (name.strip() for name in header.split(","))
    return [name for name in names if name and not name.startswith(_TOKEN_SUBPROTOCOL)]


def is_dark(query: str) -> bool:
    """Whether the page is to be dark."""
    return parse_qs(query).get("theme") == ["dark"]


def darkened(page: bytes) -> bytes:
    """A page of Dask with a style that makes it dark."""
    return page.replace(b"</head>", _DARK + b"</head>", 1)
