"""The WebSocket ``gpudask/api/stream``, which sends the state of GPUs and clusters to a browser."""

from __future__ import annotations

import asyncio
import math
from typing import TYPE_CHECKING, Any, cast

from jupyter_server.auth.decorator import authorized, ws_authenticated
from jupyter_server.base.handlers import JupyterHandler
from jupyter_server.base.websocket import WebSocketMixin
from tornado import web
from tornado.websocket import WebSocketClosedError, WebSocketHandler

from .base import API

if TYPE_CHECKING:
    from ..metrics.broadcaster import Broadcaster


class StreamHandler(WebSocketMixin, WebSocketHandler, JupyterHandler):
    """Sends the full state, then changes, at most one message a second; see `StreamMessage`.

    The query argument ``since`` is the start of the requested history, in seconds since the epoch.
    """

    auth_resource = "gpudask"
    _sending: asyncio.Future[None] | None = None

    @property
    def _broadcaster(self) -> Broadcaster:
        return cast("Broadcaster", self.settings["gpudask_broadcaster"])

    @ws_authenticated
    @authorized("execute")  # type: ignore[untyped-decorator]
    async def get(self, *args: Any, **kwargs: Any) -> None:  # type: ignore[override]
        """Open the WebSocket."""
        try:
            self._since = float(self.get_query_argument("since", "0"))
        except ValueError:
            raise web.HTTPError(400, "since must be a time in seconds since the epoch.") from None
        if not math.isfinite(self._since):
            raise web.HTTPError(400, "since must be a time in seconds since the epoch.")
        await super().get(*args, **kwargs)

    def open(self, *args: Any, **kwargs: Any) -> None:
        """Subscribe to the messages."""
        super().open(*args, **kwargs)
        self._broadcaster.subscribe(self, self._since)

    def send(self, message: str) -> bool:
        """Send a message; drop it and return `False` while the previous one is still being sent."""
        if self._sending is not None and not self._sending.done():
            return False
        try:
            self._sending = asyncio.ensure_future(self.write_message(message))
        except WebSocketClosedError:
            self._broadcaster.unsubscribe(self)
            return True
        self._sending.add_done_callback(_ignore_failure)
        return True

    def on_message(self, message: str | bytes) -> None:
        """Ignore messages from the browser."""

    def on_close(self) -> None:
        """Unsubscribe."""
        self._broadcaster.unsubscribe(self)
        super().on_close()


def _ignore_failure(sending: asyncio.Future[None]) -> None:
    """Ignore the exception of a message that was not delivered: `on_close` handles the closed socket."""
    if not sending.cancelled():
        sending.exception()


STREAM = [(rf"{API}/stream", StreamHandler)]
