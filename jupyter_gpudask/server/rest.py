"""The REST interface: its operations, each declared once, and the handlers and the OpenAPI document made of them.

Those of the verbs come from `jupyter_gpudask.protocol.verbs`. ``make fix`` updates the document of the front end.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import math
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from typing import Any, TypeVar, cast

from jupyter_server.auth.decorator import authorized
from jupyter_server.base.handlers import APIHandler
from pydantic import BaseModel, ValidationError
from pydantic.json_schema import models_json_schema
from tornado import web

from .._version import __version__
from ..errors import (
    ClusterExistsError,
    ClusterLostError,
    GpuDaskError,
    KernelNotFoundError,
    KernelUnsuitableError,
    LimitError,
    NoClusterError,
    PresetNotFoundError,
    SpecError,
)
from ..protocol.engines import ENGINES, has_gpus
from ..protocol.rest import (
    ClusterInfo,
    ClusterList,
    ClusterLogs,
    CreateCluster,
    ErrorDetails,
    GpuList,
    HistoryPart,
    PresetList,
    Problem,
    StreamMessage,
)
from ..protocol.spec import ClusterSpec, start_options
from ..protocol.verbs import VERBS, Verb, carry_out
from .history import DAY, History
from .kernel_socket import ServerVerbs
from .manager import ClusterManager
from .monitor import Monitor

API = "gpudask/api"

_STATUS: dict[type[GpuDaskError], HTTPStatus] = {
    SpecError: HTTPStatus.UNPROCESSABLE_ENTITY,
    KernelNotFoundError: HTTPStatus.NOT_FOUND,
    NoClusterError: HTTPStatus.NOT_FOUND,
    PresetNotFoundError: HTTPStatus.NOT_FOUND,
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

        Raises `tornado.web.HTTPError` with status 400 if the body is not a JSON object, or is larger than any request
        needs.
        Raises `pydantic.ValidationError` if the body does not match `model`; reported with status 422.
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
            names = ("get", "post", "delete", "options")
            implemented = [each for each in names if getattr(type(self), each) is not getattr(web.RequestHandler, each)]
            self.set_header("Allow", ", ".join(implemented).upper())
        self.set_status(status_code)
        self.set_header("Content-Type", "application/json")
        self.finish(_problem(error, status_code).model_dump_json())

    def log_exception(self, kind: Any, value: Any, traceback: Any) -> None:
        """Log exceptions that the request did not cause; called by Tornado."""
        if not isinstance(value, GpuDaskError | ValidationError):
            super().log_exception(kind, value, traceback)


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


Answer = Callable[..., Awaitable["BaseModel | None"]]

_CLUSTER = "/clusters/{kernel_id}"
_NO_CLUSTER, _NOT_NOW = (404,), (404, 409)
_INVALID_BODY = (400, 404, 409, 422)


@dataclass(frozen=True)
class Operation:
    """One operation.

    - `method`, `path`: the method and the path of the request.
    - `name`, `summary`: its name in the OpenAPI document, and what it does.
    - `answer`: carries it out for a handler, with the arguments in the path.
    - `response`, `body`: the models of the response and of the body of the request; `None` without one.
    - `status`: the status of its success; with 202 the response has the URL of the cluster.
    - `errors`: the statuses of its errors, except 403.
    """

    method: str
    path: str
    name: str
    summary: str
    answer: Answer
    response: type[BaseModel] | None
    body: type[BaseModel] | None = None
    status: HTTPStatus = HTTPStatus.OK
    errors: tuple[int, ...] = ()


OPERATIONS: list[Operation] = []


def _operation(method: str, path: str, name: str, response: Any = None, **more: Any) -> Callable[[Answer], Answer]:
    def declare(answer: Answer) -> Answer:
        OPERATIONS.append(Operation(method, path, name, inspect.getdoc(answer) or "", answer, response, **more))
        return answer

    return declare


@_operation("get", "/gpus", "listGpus", GpuList)
async def _list_gpus(handler: GpuDaskAPIHandler) -> GpuList:
    """List the GPUs, with their holders and processes."""
    return await handler.monitor.gpus()


@_operation("get", "/presets", "listPresets", PresetList)
async def _list_presets(handler: GpuDaskAPIHandler) -> PresetList:
    """List the cluster presets, and the default options."""
    policy = handler.manager.policy
    return PresetList(presets=policy.listed_presets(), default=policy.spec({}), only=policy.settings.presets_only)


@_operation("get", "/clusters", "listClusters", ClusterList)
async def _list_clusters(handler: GpuDaskAPIHandler) -> ClusterList:
    """List the clusters of this server."""
    return ClusterList(clusters=await handler.monitor.describe(*handler.manager.shown().values()))


@_operation(
    "post",
    "/clusters",
    "createCluster",
    ClusterInfo,
    body=CreateCluster,
    status=HTTPStatus.ACCEPTED,
    errors=_INVALID_BODY,
)
async def _create(handler: GpuDaskAPIHandler) -> ClusterInfo:
    """Start the cluster of a kernel, or a shared one; it is starting when the response is sent."""
    request = handler.body(CreateCluster)
    if (joined := handler.manager.joined.get(request.kernel_id)) is not None:
        raise ClusterExistsError("is-connected", address=joined.joined)
    spec = handler.manager.policy.spec(request.spec, request.preset)
    cluster = await handler.manager.start(request.kernel_id, spec)
    return await handler.describe(cluster.kernel_id)


@_operation("get", _CLUSTER, "readCluster", ClusterInfo, errors=_NO_CLUSTER)
async def _read(handler: GpuDaskAPIHandler, kernel_id: str) -> ClusterInfo:
    """Describe the cluster of a kernel."""
    await handler.manager.get_shown(kernel_id).refresh()
    return await handler.describe(kernel_id)


@_operation("delete", _CLUSTER, "closeCluster", status=HTTPStatus.NO_CONTENT, errors=_NOT_NOW)
async def _close(handler: GpuDaskAPIHandler, kernel_id: str) -> None:
    """Close the cluster; it is gone when the response is sent, after at most 6 seconds."""
    handler.manager.get_shown(kernel_id).check_possible("stop")
    await handler.manager.close(kernel_id)


@_operation("get", f"{_CLUSTER}/logs", "readLogs", ClusterLogs, errors=_NOT_NOW)
async def _read_logs(handler: GpuDaskAPIHandler, kernel_id: str) -> ClusterLogs:
    """The last lines of each log."""
    return ClusterLogs(logs=await handler.manager.get_shown(kernel_id).logs())


@_operation("get", "/history", "readHistory", HistoryPart)
async def _read_history(handler: GpuDaskAPIHandler) -> HistoryPart:
    """The metrics and cells of the last ``seconds`` (a day) in which a cluster was busy."""
    try:
        seconds = float(handler.get_query_argument("seconds", str(DAY)))
    except ValueError:
        seconds = math.nan
    if not 0 < seconds <= DAY:
        raise web.HTTPError(400, f"seconds must be more than 0, and at most {DAY:.0f}.")
    history: History = handler.settings["gpudask_history"]
    return await asyncio.to_thread(history.last, seconds)


async def _carry_out(verb: Verb, handler: GpuDaskAPIHandler, kernel_id: str) -> ClusterInfo:
    command = verb.command(**({} if verb.body is None else dict(handler.body(verb.body))))
    await carry_out(command, ServerVerbs(handler.manager, handler.monitor, kernel_id))
    return await handler.describe(kernel_id)


OPERATIONS.extend(
    Operation(
        "post",
        f"{_CLUSTER}/{verb.name}",
        verb.operation,
        verb.summary,
        partial(_carry_out, verb),
        ClusterInfo,
        verb.body,
        HTTPStatus.ACCEPTED if verb.is_done_later else HTTPStatus.OK,
        _INVALID_BODY if verb.body is not None else _NOT_NOW,
    )
    for verb in VERBS.values()
    if verb.operation
)


def _respond(operation: Operation) -> Callable[..., Awaitable[None] | None]:
    @web.authenticated
    @authorized
    async def respond(handler: GpuDaskAPIHandler, **arguments: str) -> None:
        content = await operation.answer(handler, **arguments)
        handler.set_status(operation.status)
        if operation.status == HTTPStatus.ACCEPTED and isinstance(content, ClusterInfo):
            handler.set_header("Location", f"{handler.base_url}{API}/clusters/{content.kernel_id}")
        await handler.finish(None if content is None else content.model_dump_json())

    return respond


def _handler(path: str) -> tuple[str, type[GpuDaskAPIHandler]]:
    methods = {operation.method: _respond(operation) for operation in OPERATIONS if operation.path == path}
    return f"{API}{path.replace('{kernel_id}', '(?P<kernel_id>[^/]+)')}", type(
        "OperationHandler", (GpuDaskAPIHandler,), methods
    )


HANDLERS = [_handler(path) for path in dict.fromkeys(operation.path for operation in OPERATIONS)]


_REF = "#/components/schemas/{model}"
_ERRORS = {
    400: "The body is not JSON, or is too large.",
    403: "The request is not authenticated, or not authorized.",
    404: "The kernel, cluster or preset does not exist.",
    409: "The state of the cluster or of the server does not allow this.",
    422: "A value in the body is invalid.",
}


class OpenApiHandler(GpuDaskAPIHandler):
    """``openapi.json``: the OpenAPI document of this interface."""

    @web.authenticated
    @authorized
    async def get(self) -> None:
        """Build and send the document."""
        self.finish(json.dumps(await asyncio.to_thread(openapi_document, self.base_url)))


OPENAPI = [(rf"{API}/openapi\.json", OpenApiHandler)]


def openapi_document(base_url: str) -> dict[str, Any]:
    """The OpenAPI document of a server at `base_url`."""
    paths: dict[str, dict[str, Any]] = {}
    for operation in OPERATIONS:
        paths.setdefault(operation.path, {})[operation.method] = _describe(operation)
    return {
        "openapi": "3.1.0",
        "info": {"title": "jupyter_gpudask", "version": __version__, "license": {"name": "BSD-3-Clause"}},
        "servers": [{"url": f"{base_url}gpudask/api"}],
        "security": [{"token": []}],
        "paths": paths,
        "components": {"schemas": _schemas(), "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}}},
    }


def _describe(operation: Operation) -> dict[str, Any]:
    success: dict[str, Any] = {"description": operation.summary}
    if operation.response is not None:
        success["content"] = _json(operation.response)
    if operation.status == HTTPStatus.ACCEPTED:
        success["headers"] = {"Location": {"schema": {"type": "string"}, "description": "The URL of the cluster."}}
    responses = {str(int(operation.status)): success}
    for status in (403, *operation.errors):
        responses[str(status)] = {"description": _ERRORS[status], "content": _json(Problem)}
    described: dict[str, Any] = {
        "operationId": operation.name,
        "summary": operation.summary,
        "responses": dict(sorted(responses.items())),
    }
    if operation.body is not None:
        is_required = any(field.is_required() for field in operation.body.model_fields.values())
        described["requestBody"] = {"required": is_required, "content": _json(operation.body)}
    if "{kernel_id}" in operation.path:
        schema = {"type": "string", "minLength": 1, "pattern": "^[A-Za-z0-9_-]+$"}
        described["parameters"] = [{"name": "kernel_id", "in": "path", "required": True, "schema": schema}]
    return described


def _json(model: type[BaseModel]) -> dict[str, Any]:
    return {"application/json": {"schema": {"$ref": _REF.format(model=model.__name__)}}}


def _schemas() -> dict[str, Any]:
    responses: list[type[BaseModel]] = [
        *(each.response for each in OPERATIONS if each.response is not None),
        Problem,
        StreamMessage,
    ]
    requests = [each.body for each in OPERATIONS if each.body is not None]
    _, definitions = models_json_schema(
        [(model, "serialization") for model in responses] + [(model, "validation") for model in requests],
        ref_template=_REF,
    )
    schemas: dict[str, Any] = definitions["$defs"]
    for request in (each for each in requests if "spec" in each.model_fields):
        schemas[request.__name__]["properties"]["spec"] = {"$ref": _REF.format(model="ClusterOptions")}
    return schemas | {"ClusterOptions": _options()}


def _options() -> dict[str, Any]:
    """The options of a new cluster: any valid combination of the attributes of a spec.

    A title is the label in the form of the panel. ``x-option`` has how the option is typed, its valid values in words,
    and the engine that alone has it.
    """
    schema = ClusterSpec.model_json_schema(mode="validation")
    of_gpus, others = ([name for name in ENGINES if has_gpus(name) == each] for each in (True, False))
    for option in start_options().values():
        described = schema["properties"][option.field]
        described |= {"title": option.title, "description": option.help}
        described["x-option"] = {name: getattr(option, name) for name in ("flag", "allowed", "words", "engine")}
    return {
        "title": "ClusterOptions",
        "type": "object",
        "additionalProperties": False,
        "properties": schema["properties"],
        "anyOf": [
            {"properties": {"engine": {"enum": others}, "gpus": {"const": "all"}}, "required": ["engine"]},
            {"properties": {"engine": {"enum": ["auto", *of_gpus]}, "workers": {"type": "null"}}},
        ],
    }
