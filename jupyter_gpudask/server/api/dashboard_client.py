"""HTTP client for dashboards of clusters that somebody else started; it sends no data of Jupyter's requests."""

from __future__ import annotations

import ssl
from typing import TYPE_CHECKING

from tornado.httpclient import HTTPError, HTTPRequest
from tornado.simple_httpclient import HTTPTimeoutError, SimpleAsyncHTTPClient
from tornado.websocket import WebSocketError, websocket_connect

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tornado.httpclient import HTTPResponse
    from tornado.websocket import WebSocketClientConnection

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
        """Request a page.

        Raises
        ------
        UnreachableError
            There is no complete response of at most `MAX_BYTES` within 20 seconds.
        """
        if self._http is None:  # not in the constructor, which runs before the event loop
            self._http = SimpleAsyncHTTPClient(
                force_instance=True,
                max_clients=_REQUESTS_AT_A_TIME,
                max_buffer_size=MAX_BYTES,
                max_body_size=MAX_BYTES,
            )
        # What is not compressed cannot become larger than it is.
        request = _request(url, headers={"Accept": "*/*", "Accept-Encoding": "identity"}, decompress_response=False)
        try:
            return await self._http.fetch(request, raise_error=False)
        except (OSError, HTTPError, ValueError) as error:
            raise UnreachableError(_reason(error)) from None

    async def connect(self, url: str, subprotocols: Sequence[str]) -> WebSocketClientConnection:
        """Open a WebSocket.

        Raises
        ------
        UnreachableError
            It was not opened within 20 seconds.
        """
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
