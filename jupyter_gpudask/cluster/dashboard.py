"""Dask's dashboard answers only those who know its secret, where there is one."""

from __future__ import annotations

import hmac
from typing import Any

import dask.config
import distributed.node
from distributed.http.routing import RoutingApplication
from tornado.web import ErrorHandler

SECRET_HEADER = "X-Gpudask-Secret"  # noqa: S105 - the name of the header, which is no secret
"""The header of a request that carries the secret."""


def guard_dashboard(secret: str) -> None:
    """Have the scheduler that is made next in this process answer 403 to every request without `secret`.

    That holds for the requests that open a WebSocket too. What answers the others does not see the secret. The
    workers' own HTTP servers lose their pages, which are about nothing that the dashboard does not show.
    """

    class GuardedApplication(RoutingApplication):
        def find_handler(self, request: Any, **options: Any) -> Any:
            given = request.headers.get(SECRET_HEADER, "")
            if hmac.compare_digest(given.encode(), secret.encode()):
                del request.headers[SECRET_HEADER]  # Bokeh writes all headers that it sees into its pages
                return super().find_handler(request, **options)
            return self.get_handler_delegate(request, ErrorHandler, {"status_code": 403})

    # Dask starts to listen where it makes its application: there is no moment in which to guard one that is there.
    distributed.node.RoutingApplication = GuardedApplication  # type: ignore[attr-defined]
    dask.config.set({"distributed.worker.http.routes": []})
