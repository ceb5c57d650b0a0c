"""A proxy for Dask's dashboards, by kernel id, with Jupyter's authentication; it reaches no other port.

Dask's pages have only a light theme. With ``theme=dark`` in the query, their colors are inverted, but keep their hues.
"""

from __future__ import annotations

import asyncio
import hmac
import logging
import re
import ssl
from collections.abc import Sequence
from typing import Any, cast
from urllib.parse import parse_qs, unquote_plus, urljoin, urlsplit

from jupyter_server.auth.decorator import allow_unauthenticated
from jupyter_server.utils import ensure_async
from jupyter_server_proxy.handlers import ProxyHandler
from tornado import web
from tornado.httpclient import HTTPError, HTTPRequest, HTTPResponse
from tornado.simple_httpclient import HTTPTimeoutError, SimpleAsyncHTTPClient
from tornado.websocket import (
    WebSocketClientConnection,
    WebSocketClosedError,
    WebSocketError,
    WebSocketHandler,
    websocket_connect,
)

from .cluster import KernelCluster
from .manager import ClusterManager
from .monitor import DASHBOARD_PATH, JOINED_PATH

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
        if joined is not None and joined.shared is None:
            self._redirect_to(joined, kernel_id)
            return
        self._cluster = self._find(kernel_id if joined is None or joined.shared is None else joined.shared.kernel_id)
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

    async def fetch(self, url: str, secret: str) -> HTTPResponse:
        """Request a page; raises `UnreachableError` if no response of at most `MAX_BYTES` comes within 20 seconds.

        `secret`: that of the dashboard; empty if it requires none.
        """
        if self._http is None:  # not in the constructor, which runs before the event loop
            self._http = SimpleAsyncHTTPClient(
                force_instance=True, max_clients=_REQUESTS_AT_A_TIME, max_buffer_size=MAX_BYTES, max_body_size=MAX_BYTES
            )
        # What is not compressed cannot become larger than it is.
        headers = {"Accept": "*/*", "Accept-Encoding": "identity"} | _headers_with(secret)
        request = _request(url, headers=headers, decompress_response=False)
        try:
            return await self._http.fetch(request, raise_error=False)
        except (OSError, HTTPError, ValueError) as error:
            raise UnreachableError(_reason(error)) from None

    async def connect(self, url: str, subprotocols: Sequence[str], secret: str) -> WebSocketClientConnection:
        """Open a WebSocket; see `fetch`. Raises `UnreachableError` if it was not opened within 20 seconds."""
        # The body of a response that refuses is not kept.
        request = _request(url, headers=_headers_with(secret), streaming_callback=lambda _: None)
        try:
            return await websocket_connect(request, subprotocols=list(subprotocols) or None, max_message_size=MAX_BYTES)
        except (OSError, HTTPError, ValueError, WebSocketError) as error:
            raise UnreachableError(_reason(error)) from None

    def close(self) -> None:
        """Close the connections that wait for a response."""
        if self._http is not None:
            self._http.close()


def _headers_with(secret: str) -> dict[str, str]:
    return {_SECRET_HEADER: secret} if secret else {}


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
_HOST_HEADER = re.compile(r"[A-Za-z0-9.-]+(?::\d+)?")
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
        response = await self._client.fetch(url, cluster.dashboard_token)
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
        self._upstream = await self._client.connect(
            f"ws{url.removeprefix('http')}", subprotocols, cluster.dashboard_token
        )
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
        if _HOST_HEADER.fullmatch(host) and _BASE_URL.fullmatch(base_url) and _SECRET.fullmatch(secret):
            schemes = ("http", "https", "ws", "wss")
            own = " ".join(f"{scheme}://{host}{base_url}{JOINED_PATH}/{secret}/" for scheme in schemes)
        directives = [
            "sandbox allow-scripts",
            f"default-src 'unsafe-inline' 'unsafe-eval' data: blob: {own}",
            "object-src 'none'",
            "form-action 'none'",
        ]
        # Who may frame Jupyter's pages may frame these; its addresses for reports are left out, as reports are logged.
        policy = self.settings.get("headers", {}).get("Content-Security-Policy", "frame-ancestors 'self'")
        parts = map(str.strip, policy.split(";"))
        return "; ".join([*directives, *(each for each in parts if each.lower().startswith("frame-ancestors"))])

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


JOINED_DASHBOARD = [(rf"{JOINED_PATH}/(?P<secret>[A-Za-z0-9_-]+)(?P<path>/.*|)", JoinedDashboardHandler)]
