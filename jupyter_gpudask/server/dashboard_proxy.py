"""A proxy for Dask's dashboards, by kernel id, with Jupyter's authentication; it reaches no other port.

Dask's pages have only a light theme. With ``theme=dark`` in the query, their colors are inverted, but keep their hues.
"""

from __future__ import annotations

from typing import Any, cast
from urllib.parse import parse_qs, unquote_plus

from jupyter_server.utils import ensure_async
from jupyter_server_proxy.handlers import ProxyHandler
from tornado import web

from .cluster import KernelCluster
from .manager import ClusterManager
from .monitor import DASHBOARD_PATH

_TOKEN_ARGUMENT = "token"  # noqa: S105 - the name of an argument
# https://github.com/jupyter/enhancement-proposals/pull/121
_TOKEN_SUBPROTOCOL = "v1.token.websocket.jupyter.org"  # noqa: S105 - the name of a subprotocol

_DARK = b"<style>html { background: #fff; filter: invert(0.88) hue-rotate(180deg); }</style>"
"""As the front end shows the pages in its tabs: see ``dashboard.css``."""


def forwarded_query(query: str) -> str:
    """The query without Jupyter's token; everything else stays as it was written."""
    arguments = query.split("&")
    return "&".join(one for one in arguments if unquote_plus(one.partition("=")[0]) != _TOKEN_ARGUMENT)


def forwarded_subprotocols(header: str) -> list[str]:
    """The subprotocols of a WebSocket that are not Jupyter's: one may contain the token."""
    names = (name.strip() for name in header.split(","))
    return [name for name in names if name and not name.startswith(_TOKEN_SUBPROTOCOL)]


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
        action = "execute" if is_socket else "read"
        user = self.current_user
        if not user or not await ensure_async(self.authorizer.is_authorized(self, user, action, self.auth_resource)):
            raise web.HTTPError(403)
        if self.request.method not in ("GET", "HEAD"):
            raise web.HTTPError(405)
        if self.request.body:
            raise web.HTTPError(400, "A request for a page of the dashboard has no body.")
        path = self.path_kwargs.pop("path") or "/status"
        self.request.query = forwarded_query(self.request.query)  # the user is already authenticated
        self._cluster = self._find(kernel_id)
        self.proxy_base = f"{DASHBOARD_PATH}/{kernel_id}"
        assert self._cluster.ready is not None
        self.path_args = [str(self._cluster.ready.dashboard_port), path]

    async def http_get(self, port: str, path: str) -> None:
        """Forward the request for a page; not to ``localhost``, since another process may listen on ``::1``."""
        if parse_qs(self.request.query).get("theme") == ["dark"]:
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

    def _find(self, kernel_id: str) -> KernelCluster:
        manager = cast("ClusterManager", self.settings["gpudask_manager"])
        cluster = manager.clusters.get(kernel_id)
        if cluster is None or cluster.ready is None or cluster.ready.dashboard_port is None:
            reason = "This kernel has no cluster that is ready, or its dashboard is off."
            fix = "Type %gpudask start in the notebook, and open the link below that cell."
            raise web.HTTPError(404, f"{reason} {fix}")
        return cluster


def _darken(response: Any) -> None:
    if response.headers.get("Content-Type", "").startswith("text/html") and response.body:
        response.body = response.body.replace(b"</head>", _DARK + b"</head>", 1)


# An open dashboard does not keep an idle server from being culled.
_SETTINGS = {"update_last_activity": False}

DASHBOARD = [(rf"{DASHBOARD_PATH}/(?P<kernel_id>[\w-]+)(?P<path>/.*|)", DashboardHandler, _SETTINGS)]
