"""Access control for Dask's dashboard: a header of the Jupyter server, or a token in browsers."""

from __future__ import annotations

import asyncio
import hmac
from collections.abc import Callable
from typing import Any
from urllib.parse import urlencode

import dask.config
from distributed.http.routing import RoutingApplication
from tornado.httputil import parse_cookie
from tornado.web import RequestHandler

from ..errors import ClusterStartError
from ..patches.apply import patches

SECRET_HEADER = "X-Gpudask-Secret"  # noqa: S105 - the name of the header, not a secret
"""The request header with the secret."""

TOKEN_ARGUMENT = "token"  # noqa: S105 - the name of the argument, not a secret
"""The URL argument with the token, as in Jupyter."""

_REFUSAL = "Dask's dashboard is open to JupyterLab, and at the address that %gpudask start --dashboard shows.\n"
_LIMIT = 5.0
_WILDCARDS = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - addresses that an administrator may configure


def routes_without_proxy() -> list[str]:
    """The modules of the scheduler's pages, without the proxy for those of workers, which have none.

    The import of jupyter-server-proxy takes a third of a second.
    """
    modules: list[str] = dask.config.get("distributed.scheduler.http.routes")
    return [name for name in modules if name != "distributed.http.proxy"]


def guard_by_header(secret: str) -> None:
    """Let the next scheduler that is created in this process answer 403 to every request without `secret`.

    This includes requests that open a WebSocket. The header is removed from requests that are allowed. The HTTP servers
    of workers get no pages; the dashboard shows the same information.
    """

    def instead(request: Any) -> type[RequestHandler] | None:
        # Removed, because Bokeh writes all headers into its pages.
        given = request.headers.pop(SECRET_HEADER, "")
        return None if _is_same(given, secret) else _Forbidden

    _answer_instead(instead)


def guard_by_token(token: str) -> None:
    """Let the next scheduler that is created in this process require `token` in the address, a cookie or the header.

    The first response sets the cookie and redirects to the same address without the token, so that the token is
    neither in Bokeh's pages nor in the address of the page in the browser's history. Jupyter servers send the header,
    for kernels that have asked the scheduler for the token.
    """

    def instead(request: Any) -> type[RequestHandler] | None:
        given = request.query_arguments.get(TOKEN_ARGUMENT, [b""])[-1].decode(errors="replace")
        if _is_same(given, token):
            return _SetCookie
        cookies = parse_cookie(request.headers.pop("Cookie", ""))
        sent = (cookies.get(cookie_name(request.host), ""), request.headers.pop(SECRET_HEADER, ""))
        return None if any(_is_same(each, token) for each in sent) else _Forbidden

    _answer_instead(instead, token)


async def check_guard(address: str, port: int) -> None:
    """Raise `ClusterStartError` unless a request without secret or token is refused."""
    try:
        async with asyncio.timeout(_LIMIT):
            reader, writer = await asyncio.open_connection(_WILDCARDS.get(address, address), port)
            writer.write(b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            answer = (await reader.readline()).decode(errors="replace").split()
            writer.close()
    except (OSError, TimeoutError) as error:
        answer = ["", str(error)]
    if answer[1:2] != ["403"]:
        raise ClusterStartError("dashboard-open", answer=" ".join(answer[1:]) or "nothing")


def cookie_name(host: str) -> str:
    """The name of the cookie for this ``Host``; it has the port, because all ports of a host share their cookies."""
    return f"gpudask-{host.rpartition(':')[2]}"


class _Forbidden(RequestHandler):
    """Answers 403 to every request."""

    async def prepare(self) -> None:
        self.set_status(403)
        self.set_header("Content-Type", "text/plain")
        await self.finish(_REFUSAL)

    def _log(self) -> None:
        """Do not log refused requests."""


class _SetCookie(RequestHandler):
    """Sets the cookie, and redirects to the address without the token."""

    async def get(self) -> None:
        token = self.get_query_argument(TOKEN_ARGUMENT)
        self.set_cookie(cookie_name(self.request.host), token, httponly=True, samesite="Lax")
        others = [
            (name, value)
            for name, values in self.request.query_arguments.items()
            for value in values
            if name != TOKEN_ARGUMENT
        ]
        self.redirect("/" + self.request.path.lstrip("/") + (f"?{urlencode(others)}" if others else ""))


def _answer_instead(handler_of: Callable[[Any], type[RequestHandler] | None], token: str = "") -> None:
    """Let the handler of a request answer instead of the dashboard; `None` passes the request on.

    `token`: what `jupyter_gpudask.scheduler.joined_client.dashboard_token` gives to kernels.
    """

    class GuardedApplication(RoutingApplication):
        dashboard_token = token

        def find_handler(self, request: Any, **options: Any) -> Any:
            guard = handler_of(request)
            if guard is None:
                return super().find_handler(request, **options)
            return self.get_handler_delegate(request, guard)

    # Dask starts to listen in the constructor of its application, so an existing one could only be protected too late.
    patches.apply("supervisor", wrappers={"distributed.node:RoutingApplication": lambda _: GuardedApplication})
    dask.config.set({"distributed.worker.http.routes": []})


def _is_same(given: str, secret: str) -> bool:
    return hmac.compare_digest(given.encode(errors="replace"), secret.encode())
