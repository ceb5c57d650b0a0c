"""What all handlers of the REST interface share: bodies are parsed into models once, and errors told as a `Problem`."""

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
from ...protocol.rest import Problem

if TYPE_CHECKING:
    from ..clusters.manager import ClusterManager
    from ..metrics.broadcaster import Watch

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

_M = TypeVar("_M", bound=BaseModel)


class GpuDaskHandler(APIHandler):
    """What all of them share."""

    auth_resource = "gpudask"
    _track_activity = False  # a panel that looks at metrics is no user at work

    @property
    def manager(self) -> ClusterManager:
        """The clusters."""
        return cast("ClusterManager", self.settings["gpudask_manager"])

    @property
    def watch(self) -> Watch:
        """What the clusters and the GPUs do."""
        return cast("Watch", self.settings["gpudask_watch"])

    def body(self, model: type[_M]) -> _M:
        """The body of the request.

        Raises
        ------
        tornado.web.HTTPError
            400 for what is no JSON object, 422 for one that is not as `model` says.
        """
        try:
            content = json.loads(self.request.body or b"{}", parse_constant=_refuse, parse_float=_parse_number)
            json.dumps(content, ensure_ascii=False).encode()  # half a character can be read, and never be sent again
        except (ValueError, RecursionError):  # the second for what is nested deeper than Python's parser goes
            raise web.HTTPError(400, "The body is not JSON.") from None
        if not isinstance(content, dict):
            raise web.HTTPError(400, "The body is not a JSON object.")
        return model.model_validate(content, strict=True)

    def answer(self, content: BaseModel, status: HTTPStatus = HTTPStatus.OK) -> None:
        """Send a model."""
        self.set_status(status)
        self.finish(content.model_dump_json())

    async def answer_cluster(self, kernel_id: str, status: HTTPStatus = HTTPStatus.OK) -> None:
        """Send what there is to say of a kernel's cluster, and where it can be read."""
        (info,) = await self.watch.describe(self.manager.get(kernel_id))
        if status is not HTTPStatus.OK:
            self.set_header("Location", f"{self.base_url}{API}/clusters/{kernel_id}")
        self.answer(info, status)

    def write_error(self, status_code: int, **options: Any) -> None:
        """Send a `Problem`."""
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
        """Log what is not the user's doing."""
        if not isinstance(value, GpuDaskError | ValidationError):
            super().log_exception(kind, value, traceback)


def _methods(handler: type[web.RequestHandler]) -> list[str]:
    """What a handler answers."""
    verbs = ("get", "post", "delete", "options")
    return [verb.upper() for verb in verbs if getattr(handler, verb) is not getattr(web.RequestHandler, verb)]


def _refuse(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def _parse_number(text: str) -> int | float:
    """A number as JSON Schema understands it: 2.0 is an integer."""
    number = float(text)
    if not math.isfinite(number):
        _refuse(text)
    return int(number) if number.is_integer() else number


def _problem(error: BaseException | None, status: int) -> Problem:
    if isinstance(error, SpecError):
        field = {"--cpu": "workers"}.get(error.option, error.option.lstrip("-").replace("-", "_"))
        return Problem(message=error.reason, fix=error.fix, kind="SpecError", field=field)
    if isinstance(error, GpuDaskError):
        return Problem(message=error.reason, fix=error.fix, kind=type(error).__name__)
    if isinstance(error, ValidationError):
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        return Problem(message=first["msg"], field=".".join(str(part) for part in first["loc"]))
    if isinstance(error, web.HTTPError) and error.log_message:
        return Problem(message=error.log_message)
    return Problem(message=HTTPStatus(status).phrase)
