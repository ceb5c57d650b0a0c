"""A proxy for Dask's dashboards, by kernel id, with Jupyter's authentication; it reaches no other port.

Dask's pages have only a light theme. With ``theme=dark`` in the query, their colors are inverted, but keep their hues.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import parse_qs, unquote_plus, urljoin, urlsplit

from jupyter_server.utils import ensure_async
from jupyter_server_proxy.handlers import ProxyHandler
from tornado import web

from .monitor import DASHBOARD_PATH, JOINED_PATH

if TYPE_CHECKING:
    from .cluster import KernelCluster
    from .manager import ClusterManager


_PATH = re.compile(r"(?:/[A-Za-z0-9._~%!$&'()*+,;=:@-]*)+")
_DOTS = re.compile(r"%2e", re.IGNORECASE)


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


def darken(page: bytes) -> bytes:
    """A page of Dask with a style that makes it dark."""
    return page.replace(b"</head>", _DARK + b"</head>", 1)


_HOST = "127.0.0.1"
_SECRET_HEADER = "X-Gpudask-Secret"  # noqa: S105 - the name of a header
# What a browser sends to Jupyter, and the dashboard must not see.
_PRIVATE_HEADERS = (
    "Cookie",
    "Authorization",
    "X-Xsrftoken",
    "X-Csrftoken",
    "Referer",
    "Sec-WebSocket-Protocol",  # the proxy's client sends those that `select_subprotocol` returns
    _SECRET_HEADER,
)


class DashboardHandler(ProxyHandler):  # type: ignore[misc]
    """Forwards requests to the dashboard of a kernel's cluster.

    The URL has the kernel id and the path in the dashboard. The port is taken from the cluster, never from the request.
    The dashboard of a cluster that somebody else started is not served here: the browser is redirected.
    """

    auth_resource = "gpudask"
    _track_activity = False

    async def prepare(self, *args: Any, **kwargs: Any) -> None:
        """Check authentication and authorization, and find the cluster."""
        is_socket = self.request.headers.get("Upgrade", "").lower() == "websocket"
        await super().prepare(*args, _redirect_to_login=not is_socket, **kwargs)
        if self._finished:  # redirected to the login page
            return
        kernel_id = self.path_kwargs.pop("kernel_id")
        joined = self._manager.joined.get(kernel_id)
        # The secret in the path of a joined cluster's dashboard is enough for its WebSockets, too.
        action = "execute" if is_socket or joined is not None else "read"
        user = self.current_user
        if not user or not await ensure_async(self.authorizer.is_authorized(self, user, action, self.auth_resource)):
            raise web.HTTPError(403)
        if self.request.method not in ("GET", "HEAD"):
            raise web.HTTPError(405)
        if self.request.body:
            raise web.HTTPError(400, "A request for a page of the dashboard has no body.")
        path = self.path_kwargs.pop("path") or "/status"
        self.request.query = forwarded_query(self.request.query)  # the user is already authenticated
        if joined is not None:
            self._redirect_to(joined, kernel_id)
            return
        self._cluster = self._find(kernel_id)
        self.proxy_base = f"{DASHBOARD_PATH}/{kernel_id}"
        assert self._cluster.ready is not None
        self.path_args = [str(self._cluster.ready.dashboard_port), path]

    async def http_get(self, port: str, path: str) -> None:
        """Forward the request for a page; not to ``localhost``, since another process may listen on ``::1``."""
        if is_dark(self.request.query):
            self.rewrite_response = (_darken,)
            self.request.headers.pop("Accept-Encoding", None)
        await self.proxy(_HOST, port, path)
        # The response has the dashboard's headers instead of Jupyter's; they do not restrict framing.
        self.set_header("Content-Security-Policy", self.content_security_policy)

    async def open(self, port: str, path: str) -> None:
        """Forward a WebSocket."""
        await self.proxy_open(_HOST, port, path)

    @web.authenticated
    async def get(self, *args: Any, **kwargs: Any) -> None:
        """Forward the request for a page, or open a WebSocket."""
        await super().get(*args, **kwargs)

    @web.authenticated
    async def head(self, *args: Any, **kwargs: Any) -> None:
        """Forward the request for the headers of a page."""
        await self.http_get(*args, **kwargs)

    async def _refuse(self, *_: Any, **__: Any) -> None:
        raise web.HTTPError(405)

    post = put = patch = delete = options = web.authenticated(_refuse)

    def get_template(self, name: str) -> Any:
        """The page of an error, which has the sentence: Jupyter's own page for 404 leaves it out."""
        return super().get_template("error.html" if name == "404.html" else name)

    def select_subprotocol(self, subprotocols: list[str]) -> str | None:
        """The first subprotocol that is not Jupyter's, which are not forwarded: one may contain the token."""
        return cast("str | None", super().select_subprotocol(forwarded_subprotocols(",".join(subprotocols))))

    def proxy_request_headers(self) -> Any:
        """The headers to forward: without Jupyter's own, and with the secret of the dashboard."""
        headers = super().proxy_request_headers()
        for name in _PRIVATE_HEADERS:
            headers.pop(name, None)
        headers[_SECRET_HEADER] = self._cluster.secret
        return headers

    @property
    def _manager(self) -> ClusterManager:
        return cast("ClusterManager", self.settings["gpudask_manager"])

    def _redirect_to(self, joined: KernelCluster, kernel_id: str) -> None:
        """Redirect to where the pages of somebody else have no rights: see `JoinedDashboardHandler`."""
        path = path_after(self.request.path, f"{DASHBOARD_PATH}/{kernel_id}")
        if not joined.has_dashboard or not is_plain_path(path):
            raise web.HTTPError(404, "This kernel's cluster has no dashboard.")
        query = self.request.query
        self.set_header("Cache-Control", "no-store")
        self.redirect(f"{self.base_url}{JOINED_PATH}/{joined.secret}{path}{query and '?'}{query}")

    def _find(self, kernel_id: str) -> KernelCluster:
        cluster = self._manager.clusters.get(kernel_id)
        if cluster is None or cluster.ready is None or cluster.ready.dashboard_port is None:
            reason = "This kernel has no cluster that is ready, or its dashboard is off."
            fix = "Type %gpudask start in the notebook, and open the link below that cell."
            raise web.HTTPError(404, f"{reason} {fix}")
        return cluster


def _darken(response: Any) -> None:
    if response.headers.get("Content-Type", "").startswith("text/html") and response.body:
        response.body = darken(response.body)


# An open dashboard does not keep an idle server from being culled.
_SETTINGS = {"update_last_activity": False}

DASHBOARD = [(rf"{DASHBOARD_PATH}/(?P<kernel_id>[\w-]+)(?P<path>/.*|)", DashboardHandler, _SETTINGS)]
