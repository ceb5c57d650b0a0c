"""Serve the dashboards of clusters that somebody else started, in documents that have no rights at the Jupyter server.

A page from there can be hostile, and a page of the Jupyter server can act as its user. So each response has a policy by
which the browser gives the document an origin of its own: it has no cookies, and cannot read other pages. As such a
document sends no cookies, a secret in the path authorizes its requests: see `DashboardHandler`, which redirects to it.
"""

from __future__ import annotations

import asyncio
import hmac
import logging
import re
import ssl
from typing import TYPE_CHECKING, Any, cast

from jupyter_server.auth.decorator import allow_unauthenticated
from tornado import web
from tornado.httpclient import HTTPError, HTTPRequest
from tornado.simple_httpclient import HTTPTimeoutError, SimpleAsyncHTTPClient
from tornado.websocket import WebSocketClosedError, WebSocketError, WebSocketHandler, websocket_connect

from .dashboard_proxy import (
    darken,
    forwarded_query,
    forwarded_subprotocols,
    is_dark,
    is_plain_path,
    path_after,
    redirect_target,
)
from .monitor import JOINED_PATH

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tornado.httpclient import HTTPResponse
    from tornado.websocket import WebSocketClientConnection

    from .cluster import KernelCluster
    from .manager import ClusterManager

logger = logging.getLogger(__name__)


MAX_BYTES = 16 * 2**20
"""The largest response and the largest message that are read."""

_CONNECT_TIMEOUT = 5.0
_RESPONSE_TIMEOUT = 20.0
_REQUESTS_AT_A_TIME = 8


class UnreachableError(Exception):
    """A dashboard did not answer; the message says why, as the end of a sentence."""


class DashboardClient:
    """Sends requests; redirects are not followed, and certificates are verified as the platform does."""

    def __init__(self) -> None:
        self._http: SimpleAsyncHTTPClient | None = None

    async def fetch(self, url: str) -> HTTPResponse:
        """Request a page; raises `UnreachableError` if no response of at most `MAX_BYTES` comes within 20 seconds."""
        if self._http is None:  # not in the constructor, which runs before the event loop
            self._http = SimpleAsyncHTTPClient(
                force_instance=True, max_clients=_REQUESTS_AT_A_TIME, max_buffer_size=MAX_BYTES, max_body_size=MAX_BYTES
            )
        # What is not compressed cannot become larger than it is.
        request = _request(url, headers={"Accept": "*/*", "Accept-Encoding": "identity"}, decompress_response=False)
        try:
            return await self._http.fetch(request, raise_error=False)
        except (OSError, HTTPError, ValueError) as error:
            raise UnreachableError(_reason(error)) from None

    async def connect(self, url: str, subprotocols: Sequence[str]) -> WebSocketClientConnection:
        """Open a WebSocket; raises `UnreachableError` if it was not opened within 20 seconds."""
        # The body of a response that refuses is not kept.
        request = _request(url, streaming_callback=lambda _: None)
        try:
            return await websocket_connect(request, subprotocols=list(subprotocols) or None, max_message_size=MAX_BYTES)
        except (OSError, HTTPError, ValueError, WebSocketError) as error:
            raise UnreachableError(_reason(error)) from None

    def close(self) -> None:
        """Close the connections that wait for a response."""
        if self._http is not None:
            self._http.close()


def _request(url: str, **options: object) -> HTTPRequest:
    return HTTPRequest(
        url,
        follow_redirects=False,
        validate_cert=True,
        connect_timeout=_CONNECT_TIMEOUT,
        request_timeout=_RESPONSE_TIMEOUT,
        user_agent="jupyter_gpudask",
        **options,  # type: ignore[arg-type]
    )


def _reason(error: Exception) -> str:
    match error:
        case ssl.SSLCertVerificationError():
            return f"its certificate is not valid ({error.verify_message})"
        case HTTPTimeoutError():
            return "it did not respond in time"
        case ConnectionRefusedError():
            return "the connection was refused"
        case OSError() if error.strerror:
            return error.strerror
        case _:
            return "it sent no valid response"


_ORIGIN_OF_SANDBOX = "null"
_HOST = re.compile(r"[A-Za-z0-9.-]+(?::\d+)?")
_CONTENT_TYPE = re.compile(r"[\x20-\x7e]{1,200}")
_BASE_URL = re.compile(r"[A-Za-z0-9/._~%@+-]*")
_SECRET = re.compile(r"[A-Za-z0-9_-]+")
_ENCODINGS = ("gzip", "deflate", "br")
_REDIRECTS = (301, 302, 303, 307, 308)


class JoinedDashboardHandler(WebSocketHandler):
    """Forwards requests to the dashboard of a joined cluster, whose secret is in the path.

    Host and port are those that the kernel reported when it connected. Nothing is logged: the path has the secret.
    """

    _upstream: WebSocketClientConnection | None = None
    _forwarding: asyncio.Task[None] | None = None

    def set_default_headers(self) -> None:
        """Set the headers of all responses, also of errors."""
        self.clear_header("Server")
        self.set_header("Content-Security-Policy", self._policy())
        self.set_header("Content-Type", "text/plain; charset=utf-8")
        self.set_header("X-Content-Type-Options", "nosniff")
        self.set_header("Referrer-Policy", "no-referrer")
        self.set_header("Cross-Origin-Resource-Policy", "cross-origin")  # the origin of the sandbox is another one
        self.set_header("Cache-Control", "no-store")

    @allow_unauthenticated
    async def get(self, secret: str, path: str) -> None:
        """Forward the request for a page, or a WebSocket."""
        cluster = self._find(secret)
        path = path_after(self.request.path, f"{JOINED_PATH}/{secret}")
        if cluster is None or not is_plain_path(path):
            raise web.HTTPError(404)
        assert cluster.dashboard is not None
        query = forwarded_query(self.request.query)
        url = f"{cluster.dashboard}{path}{query and '?'}{query}"
        try:
            if self.request.headers.get("Upgrade", "").lower() == "websocket":
                await self._forward_socket(cluster, url)
            else:
                await self._forward_page(cluster, url)
        except UnreachableError as error:
            self._refuse(f"Dask's dashboard at {cluster.dashboard} cannot be reached from the Jupyter server: {error}.")

    async def _forward_page(self, cluster: KernelCluster, url: str) -> None:
        response = await self._client.fetch(url)
        if response.code in _REDIRECTS and "Location" in response.headers:
            target = redirect_target(url, response.headers["Location"])
            if target is None:
                self._refuse(f"Dask's dashboard at {cluster.dashboard} redirects to another address.")
            else:
                self.redirect(f"{self.settings['base_url']}{JOINED_PATH}/{cluster.secret}{target}")
            return
        self.set_status(response.code)
        # All other headers, such as cookies, policies and requests for a login, are left out.
        content_type = response.headers.get("Content-Type", "")
        if _CONTENT_TYPE.fullmatch(content_type):
            self.set_header("Content-Type", content_type)
        body = response.body or b""
        if (encoding := response.headers.get("Content-Encoding", "")) in _ENCODINGS:
            self.set_header("Content-Encoding", encoding)
        elif content_type.startswith("text/html") and is_dark(self.request.query):
            body = darken(body)
        await self.finish(body or None)

    async def _forward_socket(self, cluster: KernelCluster, url: str) -> None:
        if self.request.headers.get("Origin") != _ORIGIN_OF_SANDBOX:
            raise web.HTTPError(403)
        subprotocols = forwarded_subprotocols(self.request.headers.get("Sec-WebSocket-Protocol", ""))
        self._upstream = await self._client.connect(f"ws{url.removeprefix('http')}", subprotocols)
        stop_observing = cluster.observe(self._on_change)
        try:
            if cluster.alive:
                await super().get()  # until the WebSocket is closed
        finally:
            stop_observing()
            self._upstream.close()
            if self._forwarding is not None:
                self._forwarding.cancel()

    def check_origin(self, origin: str) -> bool:
        """Whether the page of a WebSocket is in a sandbox."""
        return origin == _ORIGIN_OF_SANDBOX

    def select_subprotocol(self, subprotocols: list[str]) -> str | None:
        """The one that the dashboard has chosen."""
        chosen = None if self._upstream is None else self._upstream.selected_subprotocol
        return chosen if chosen in subprotocols else None

    def open(self, *_args: str, **_kwargs: str) -> None:
        """Begin to forward what the dashboard sends."""
        self._forwarding = asyncio.create_task(self._forward_messages())

    async def on_message(self, message: str | bytes) -> None:
        """Forward what the page sends; the next message is read afterwards."""
        assert self._upstream is not None
        try:
            await self._upstream.write_message(message, binary=isinstance(message, bytes))
        except WebSocketClosedError:
            self.close()

    async def _forward_messages(self) -> None:
        assert self._upstream is not None
        try:
            while (message := await self._upstream.read_message()) is not None:
                await self.write_message(message, binary=isinstance(message, bytes))
        except WebSocketClosedError:
            return
        self.close()

    def _on_change(self, cluster: KernelCluster) -> None:
        if not cluster.alive:
            self.close()

    def _find(self, secret: str) -> KernelCluster | None:
        """The joined cluster with this secret; `None` if there is none, or it has no dashboard."""
        manager = cast("ClusterManager", self.settings["gpudask_manager"])
        found = [each for each in manager.joined.values() if hmac.compare_digest(each.secret, secret)]
        return found[0] if found and found[0].has_dashboard else None

    @property
    def _client(self) -> DashboardClient:
        return cast("DashboardClient", self.settings["gpudask_dashboard_client"])

    def _policy(self) -> str:
        """A content security policy: a sandbox, which only loads what is below this path."""
        secret = "".join(path_after(self.request.path, JOINED_PATH).split("/")[1:2])
        host, base_url = self.request.headers.get("Host", ""), self.settings["base_url"]
        own = "'self'"  # where a policy cannot name the host
        if _HOST.fullmatch(host) and _BASE_URL.fullmatch(base_url) and _SECRET.fullmatch(secret):
            schemes = ("http", "https", "ws", "wss")
            own = " ".join(f"{scheme}://{host}{base_url}{JOINED_PATH}/{secret}/" for scheme in schemes)
        directives = [
            "sandbox allow-scripts",
            f"default-src 'unsafe-inline' 'unsafe-eval' data: blob: {own}",
            "object-src 'none'",
            "form-action 'none'",
            *_frame_ancestors(
                self.settings.get("headers", {}).get("Content-Security-Policy", "frame-ancestors 'self'")
            ),
        ]
        return "; ".join(directives)

    def _refuse(self, sentence: str) -> None:
        self.set_status(502)
        self.finish(f"{sentence}\n")

    def write_error(self, status_code: int, **_kwargs: Any) -> None:
        """Write a response that says nothing of what exists."""
        self.finish("Not found.\n" if status_code == 404 else "Refused.\n")

    def _log(self) -> None:
        """Do not log the request."""

    def log_exception(self, typ: Any, value: BaseException | None, tb: Any) -> None:
        """Log an unexpected exception without the request."""
        if value is not None and not isinstance(value, web.HTTPError):
            logger.error("Forwarding a request to a joined cluster's dashboard failed", exc_info=(typ, value, tb))


def _frame_ancestors(policy: str) -> list[str]:
    """Who may frame Jupyter's pages may frame these; its addresses for reports are left out, as reports are logged."""
    return [part.strip() for part in policy.split(";") if part.strip().lower().startswith("frame-ancestors")]


JOINED_DASHBOARD = [(rf"{JOINED_PATH}/(?P<secret>[A-Za-z0-9_-]+)(?P<path>/.*|)", JoinedDashboardHandler)]
