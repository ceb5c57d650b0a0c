"""Dask's dashboard answers only those who know its secret: the Jupyter server, or a browser that has the token."""

from __future__ import annotations

import asyncio
import hmac
from typing import Any
from urllib.parse import urlencode

import dask.config
from distributed.http.routing import RoutingApplication
from tornado.httputil import parse_cookie
from tornado.web import RequestHandler

from ..errors import ClusterStartError
from ..patches.applying import patches

SECRET_HEADER = "X-Gpudask-Secret"  # noqa: S105 - the name of the header, which is no secret
"""The header of a request that carries the secret."""

TOKEN_ARGUMENT = "token"  # noqa: S105 - its name
"""The argument of an address that carries the token, as in Jupyter."""

_REFUSAL = "Dask's dashboard is open to JupyterLab, and at the address that %gpudask start --dashboard shows.\n"
_LIMIT = 5.0
_WILDCARDS = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - where the administrator has the dashboard listen


def guard_by_header(secret: str) -> None:
    """Have the scheduler that is made next in this process answer 403 to every request without `secret`.

    That holds for the requests that open a WebSocket too. What answers the others does not see the secret. The
    workers' own HTTP servers lose their pages, which are about nothing that the dashboard does not show.
    """

    class ByHeader(_Guarded):
        def handler_of_guard(self, request: Any) -> Any:
            # Bokeh writes all headers that it sees into its pages.
            given = request.headers.pop(SECRET_HEADER, "")
            return None if _is_same(given, secret) else _Refuse

    _serve_by(ByHeader)


def guard_by_token(token: str) -> None:
    """Have the scheduler that is made next answer only browsers that were sent to it with `token` in the address.

    The first answer sets a cookie, and sends the browser to the same address without the token, so that neither
    Bokeh's pages nor the browser's history of that page have it.
    """

    class ByToken(_Guarded):
        def handler_of_guard(self, request: Any) -> Any:
            given = request.query_arguments.get(TOKEN_ARGUMENT, [b""])[-1].decode(errors="replace")
            if _is_same(given, token):
                return _LetIn
            cookies = parse_cookie(request.headers.pop("Cookie", ""))
            return None if _is_same(cookies.get(cookie_name(request.host), ""), token) else _Refuse

    _serve_by(ByToken)


async def check_guard(address: str, port: int) -> None:
    """See that the guard answers at that port, not Dask alone.

    Raises
    ------
    ClusterStartError
        What is not allowed in was not refused.
    """
    try:
        async with asyncio.timeout(_LIMIT):
            reader, writer = await asyncio.open_connection(_WILDCARDS.get(address, address), port)
            writer.write(b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            answer = (await reader.readline()).decode(errors="replace").split()
            writer.close()
    except (OSError, TimeoutError) as error:
        answer = ["", str(error)]
    if answer[1:2] != ["403"]:
        raise ClusterStartError(
            f"Dask's dashboard cannot be guarded: it answers {' '.join(answer[1:]) or 'nothing'} to a stranger.",
            "Install the version of distributed that jupyter_gpudask asks for.",
        )


def cookie_name(host: str) -> str:
    """The cookie of the dashboard at this ``Host``; browsers send the cookies of all ports of a host to each."""
    return f"gpudask-{host.rpartition(':')[2]}"


class _Guarded(RoutingApplication):
    """An application that hands on the requests that its guard lets through."""

    def handler_of_guard(self, request: Any) -> type[RequestHandler] | None:
        """What answers instead of the dashboard; `None` for the dashboard."""
        raise NotImplementedError

    def find_handler(self, request: Any, **options: Any) -> Any:
        guard = self.handler_of_guard(request)
        return super().find_handler(request, **options) if guard is None else self.get_handler_delegate(request, guard)


class _Refuse(RequestHandler):
    """403, whatever is asked."""

    async def prepare(self) -> None:
        self.set_status(403)
        self.set_header("Content-Type", "text/plain")
        await self.finish(_REFUSAL)

    def _log(self) -> None:
        """Leave the supervisor's log to the cluster."""


class _LetIn(RequestHandler):
    """Sets the cookie, and sends the browser to the address without the token."""

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


def _serve_by(application: type[_Guarded]) -> None:
    # Dask starts to listen where it makes its application: there is no moment in which to guard one that is there.
    patches.apply("supervisor", wrappers={"distributed.node:RoutingApplication": lambda _: application})
    dask.config.set({"distributed.worker.http.routes": []})


def _is_same(given: str, secret: str) -> bool:
    return hmac.compare_digest(given.encode(errors="replace"), secret.encode())
