"""Dask's dashboards through Jupyter's own authentication, by kernel id; nothing else can be reached through it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast
from urllib.parse import unquote_plus

from jupyter_server.utils import ensure_async
from jupyter_server_proxy.handlers import ProxyHandler
from tornado import web

from ..metrics.cluster_info import DASHBOARD as PREFIX

if TYPE_CHECKING:
    from ..clusters.cluster import KernelCluster
    from ..clusters.manager import ClusterManager

_HOST = "127.0.0.1"
_SECRET_HEADER = "X-Gpudask-Secret"  # noqa: S105 - its name
# What a browser sends to Jupyter is not for others to see.
_PRIVATE_HEADERS = (
    "Cookie",
    "Authorization",
    "X-Xsrftoken",
    "X-Csrftoken",
    "Referer",
    "Sec-WebSocket-Protocol",  # the client of a WebSocket makes its own, of what `select_subprotocol` lets through
    _SECRET_HEADER,
)
_TOKEN_ARGUMENT = "token"  # noqa: S105 - its name
# https://github.com/jupyter/enhancement-proposals/pull/121
_TOKEN_SUBPROTOCOL = "v1.token.websocket.jupyter.org"  # noqa: S105 - its name


class DashboardHandler(ProxyHandler):  # type: ignore[misc]
    """Hands requests on to the dashboard of a kernel's cluster.

    The path is the kernel id and what is asked of the dashboard. The port is that of the cluster; it is in no request.
    """

    auth_resource = "gpudask"
    _track_activity = False

    async def prepare(self, *args: Any, **kwargs: Any) -> None:
        """Let in who is logged in and allowed, and find the cluster."""
        is_socket = self.request.headers.get("Upgrade", "").lower() == "websocket"
        await super().prepare(*args, _redirect_to_login=not is_socket, **kwargs)
        if self._finished:  # sent to the login page
            return
        action = "execute" if is_socket else "read"
        user = self.current_user
        if not user or not await ensure_async(self.authorizer.is_authorized(self, user, action, self.auth_resource)):
            raise web.HTTPError(403)
        if self.request.method not in ("GET", "HEAD"):
            raise web.HTTPError(405)
        kernel_id = self.path_kwargs.pop("kernel_id")
        path = self.path_kwargs.pop("path") or "/status"
        self.request.query = _without_token(self.request.query)  # what is passed on; the user is known by now
        self._cluster = self._find(kernel_id)
        self.proxy_base = f"{PREFIX}/{kernel_id}"
        assert self._cluster.ready is not None
        self.path_args = [str(self._cluster.ready.dashboard_port), path]

    async def http_get(self, port: str, path: str) -> None:
        """A page. Not ``localhost``: that can be ``::1`` too, where the port is somebody else's."""
        await self.proxy(_HOST, port, path)
        # Jupyter's own headers gave way to the dashboard's, which has none against being framed.
        self.set_header("Content-Security-Policy", self.content_security_policy)

    async def open(self, port: str, path: str) -> None:
        """A WebSocket."""
        await self.proxy_open(_HOST, port, path)

    @web.authenticated
    async def get(self, *args: Any, **kwargs: Any) -> None:
        """A page, or the opening of a WebSocket."""
        await super().get(*args, **kwargs)

    @web.authenticated
    async def head(self, *args: Any, **kwargs: Any) -> None:
        """The head of a page."""
        await self.http_get(*args, **kwargs)

    async def _refuse(self, *_: Any, **__: Any) -> None:
        raise web.HTTPError(405)

    post = put = patch = delete = options = web.authenticated(_refuse)

    def select_subprotocol(self, subprotocols: list[str]) -> str | None:
        """The first that is not Jupyter's; those that are do not reach the dashboard, for one may be its token."""
        others = [name for name in subprotocols if not name.startswith(_TOKEN_SUBPROTOCOL)]
        return cast("str | None", super().select_subprotocol(others))

    def proxy_request_headers(self) -> Any:
        """The headers of the request, without what is Jupyter's and with what opens the dashboard."""
        headers = super().proxy_request_headers()
        for name in _PRIVATE_HEADERS:
            headers.pop(name, None)
        headers[_SECRET_HEADER] = self._cluster.secret
        return headers

    def _find(self, kernel_id: str) -> KernelCluster:
        manager = cast("ClusterManager", self.settings["gpudask_manager"])
        cluster = manager.clusters.get(kernel_id)
        if cluster is None or cluster.ready is None or cluster.ready.dashboard_port is None:
            raise web.HTTPError(404, "This kernel has no cluster that is ready.")
        return cluster


def _without_token(query: str) -> str:
    """A query without Jupyter's token, and with all else as it was written."""
    arguments = query.split("&")
    return "&".join(one for one in arguments if unquote_plus(one.partition("=")[0]) != _TOKEN_ARGUMENT)


# A panel that looks at plots is no user at work.
_SETTINGS = {"update_last_activity": False}

DASHBOARD = [(rf"{PREFIX}/(?P<kernel_id>[\w-]+)(?P<path>/.*|)", DashboardHandler, _SETTINGS)]
