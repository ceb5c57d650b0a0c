"""The WebSocket ``gpudask/api/stream``."""

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
    from ..metrics.broadcaster import Watch


class StreamHandler(WebSocketMixin, WebSocketHandler, JupyterHandler):
    """Sends a full state, then what changes, at most one message a second.

    The argument ``since``, in seconds since the epoch, says from when on the history is wanted.
    """

    auth_resource = "gpudask"
    _sending: asyncio.Future[None] | None = None

    @property
    def _watch(self) -> Watch:
        return cast("Watch", self.settings["gpudask_watch"])

    @ws_authenticated
    @authorized("execute")  # type: ignore[untyped-decorator]
    async def get(self, *args: Any, **kwargs: Any) -> None:  # type: ignore[override]
        """Open it."""
        try:
            self._since = float(self.get_query_argument("since", "0"))
        except ValueError:
            raise web.HTTPError(400, "since is a time in seconds since the epoch.") from None
        if not math.isfinite(self._since):
            raise web.HTTPError(400, "since is a time in seconds since the epoch.")
        await super().get(*args, **kwargs)

    def open(self, *args: Any, **kwargs: Any) -> None:
        """Begin to send."""
        super().open(*args, **kwargs)
        self._watch.join(self, self._since)

    def send(self, message: str) -> bool:
        """Send, unless the browser has not read the last one yet."""
        if self._sending is not None and not self._sending.done():
            return False
        try:
            self._sending = asyncio.ensure_future(self.write_message(message))
        except WebSocketClosedError:
            self._watch.leave(self)
            return True
        self._sending.add_done_callback(_forget_failure)
        return True

    def on_message(self, message: str | bytes) -> None:
        """Say nothing: the browser has nothing to tell."""

    def on_close(self) -> None:
        """End to send."""
        self._watch.leave(self)
        super().on_close()


def _forget_failure(sending: asyncio.Future[None]) -> None:
    """A message that did not arrive: the socket was closed, which `on_close` hears of."""
    if not sending.cancelled():
        sending.exception()


STREAM = [(rf"{API}/stream", StreamHandler)]
