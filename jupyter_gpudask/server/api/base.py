"""The base of all REST handlers: parses bodies into models, and reports errors as a `Problem`."""

from __future__ import annotations

import json
import math
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, TypeVar, cast

from jupyter_server.base.handlers import APIHandler
from pydantic import BaseModel, ValidationError
from tornado import web

from ...errors import (
    ClusterExistsError,
    ClusterLostError,
    GpuDaskError,
    KernelNotFoundError,
    KernelUnsuitableError,
    LimitError,
    NoClusterError,
    ProfileNotFoundError,
    SpecError,
)
from ...protocol.rest import ErrorDetails, Problem

if TYPE_CHECKING:
    from ...protocol.rest import ClusterInfo
    from ..clusters.manager import ClusterManager
    from ..metrics.monitor import Monitor

API = "gpudask/api"

_STATUS: dict[type[GpuDaskError], HTTPStatus] = {
    SpecError: HTTPStatus.UNPROCESSABLE_ENTITY,
    KernelNotFoundError: HTTPStatus.NOT_FOUND,
    NoClusterError: HTTPStatus.NOT_FOUND,
    ProfileNotFoundError: HTTPStatus.NOT_FOUND,
    ClusterExistsError: HTTPStatus.CONFLICT,
    ClusterLostError: HTTPStatus.CONFLICT,
    KernelUnsuitableError: HTTPStatus.CONFLICT,
    LimitError: HTTPStatus.CONFLICT,
}

_MAX_BYTES = 2**16

_M = TypeVar("_M", bound=BaseModel)


class GpuDaskAPIHandler(APIHandler):
    """Base class of the REST handlers."""

    auth_resource = "gpudask"
    _track_activity = False  # an open panel does not keep an idle server from being culled

    @property
    def manager(self) -> ClusterManager:
        """The clusters of this server."""
        return cast("ClusterManager", self.settings["gpudask_manager"])

    @property
    def monitor(self) -> Monitor:
        """Reads the GPUs and describes the clusters."""
        return cast("Monitor", self.settings["gpudask_monitor"])

    def body(self, model: type[_M]) -> _M:
        """The body of the request.

        Raises
        ------
        tornado.web.HTTPError
            Status 400: the body is not a JSON object, or is larger than any request needs.
        pydantic.ValidationError
            The body does not match `model`; reported with status 422.
        """
        if len(self.request.body) > _MAX_BYTES:
            raise web.HTTPError(400, f"The body has {len(self.request.body)} bytes, and may have at most {_MAX_BYTES}.")
        try:
            content = json.loads(self.request.body or b"{}", parse_constant=_reject, parse_float=_parse_number)
            json.dumps(content, ensure_ascii=False).encode()  # fails for lone surrogates, which cannot be sent back
        except (ValueError, RecursionError):  # the latter if nested too deeply
            raise web.HTTPError(400, "The body is not JSON.") from None
        if not isinstance(content, dict):
            raise web.HTTPError(400, "The body is not a JSON object.")
        return model.model_validate(content, strict=True)

    async def describe(self, kernel_id: str) -> ClusterInfo:
        """The description of a kernel's cluster."""
        (info,) = await self.monitor.describe(self.manager.get_shown(kernel_id))
        return info

    def write_error(self, status_code: int, **options: Any) -> None:
        """Send the error as a `Problem`; called by Tornado."""
        error = options.get("exc_info", (None, None))[1]
        if isinstance(error, GpuDaskError):
            status_code = next((code for kind, code in _STATUS.items() if isinstance(error, kind)), HTTPStatus.CONFLICT)
        elif isinstance(error, ValidationError):
            status_code = HTTPStatus.UNPROCESSABLE_ENTITY
        elif status_code == HTTPStatus.METHOD_NOT_ALLOWED:
            self.set_header("Allow", ", ".join(_methods(type(self))))
        self.set_status(status_code)
        self.set_header("Content-Type", "application/json")
        self.finish(_problem(error, status_code).model_dump_json())

    def log_exception(self, kind: Any, value: Any, traceback: Any) -> None:
        """Log exceptions that the request did not cause; called by Tornado."""
        if not isinstance(value, GpuDaskError | ValidationError):
            super().log_exception(kind, value, traceback)


def _methods(handler: type[web.RequestHandler]) -> list[str]:
    """The methods that a handler implements."""
    verbs = ("get", "post", "delete", "options")
    return [verb.upper() for verb in verbs if getattr(handler, verb) is not getattr(web.RequestHandler, verb)]


def _reject(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def _parse_number(text: str) -> int | float:
    """Parse a number as JSON Schema defines it: 2.0 is an integer."""
    number = float(text)
    if not math.isfinite(number):
        _reject(text)
    return int(number) if number.is_integer() else number


def _problem(error: BaseException | None, status: int) -> Problem:
    if isinstance(error, GpuDaskError):
        return Problem(
            message=error.reason,
            fix=error.fix,
            kind="SpecError" if isinstance(error, SpecError) else type(error).__name__,
            field=error.field,
            error=ErrorDetails.of(error),
            others=tuple(_problem(other, status) for other in getattr(error, "others", ())),
        )
    if isinstance(error, ValidationError):
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        return Problem(message=first["msg"], field=".".join(str(part) for part in first["loc"]))
    if isinstance(error, web.HTTPError) and error.log_message:
        return Problem(message=error.log_message)
    return Problem(message=HTTPStatus(status).phrase)
