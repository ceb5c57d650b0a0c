"""The operations of the REST interface, each declared once: with its path, its models, and what carries it out.

The handlers are made of them here, and the OpenAPI document in `jupyter_gpudask.server.api.openapi`. Those of the verbs
come from `jupyter_gpudask.protocol.verbs`.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from jupyter_server.auth.decorator import authorized
from tornado import web

from ...protocol import VERBS
from ...protocol.rest import ClusterInfo, ClusterList, ClusterLogs, CreateCluster, GpuList, ProfileList, RestartCluster
from ...protocol.verbs import carry_out
from ..clusters.verbs import ServerVerbs
from .base import API, GpuDaskAPIHandler

if TYPE_CHECKING:
    from pydantic import BaseModel

    from ...protocol.verbs import Verb

Answer = Callable[..., Awaitable["BaseModel | None"]]

_CLUSTER = "/clusters/{kernel_id}"
_NO_CLUSTER, _NOT_NOW = (404,), (404, 409)
_INVALID_BODY = (400, 404, 409, 422)


@dataclass(frozen=True)
class Operation:
    """One operation.

    Attributes
    ----------
    method, path
        The method and the path of the request.
    name, summary
        Its name in the OpenAPI document, and what it does.
    answer
        Carries it out for a handler, with the arguments in the path.
    response, body
        The models of the response and of the body of the request; `None` without one.
    status
        The status of its success; with 202 the response has the URL of the cluster.
    errors
        The statuses of its errors, except 403.
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


@_operation("get", "/profiles", "listProfiles", ProfileList)
async def _list_profiles(handler: GpuDaskAPIHandler) -> ProfileList:
    """List the cluster profiles, and the default options."""
    policy = handler.manager.policy
    return ProfileList(profiles=policy.listed_profiles(), default=policy.spec({}), only=policy.settings.profiles_only)


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
    """Start the cluster of a kernel; it is starting when the response is sent."""
    request = handler.body(CreateCluster)
    handler.manager.check_not_joined(request.kernel_id)
    spec = handler.manager.policy.spec(request.spec, request.profile)
    await handler.manager.start(request.kernel_id, spec)
    return await handler.describe(request.kernel_id)


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


@_operation(
    "post",
    f"{_CLUSTER}/restart",
    "restartCluster",
    ClusterInfo,
    body=RestartCluster,
    status=HTTPStatus.ACCEPTED,
    errors=_INVALID_BODY,
)
async def _restart(handler: GpuDaskAPIHandler, kernel_id: str) -> ClusterInfo:
    """Restart the cluster, with other options if some are given."""
    request = handler.body(RestartCluster)
    handler.manager.get_shown(kernel_id).check_possible("restart")
    await handler.manager.check_restart(kernel_id, request.spec)
    handler.manager.restart(kernel_id, request.spec)
    return await handler.describe(kernel_id)


@_operation("get", f"{_CLUSTER}/logs", "readLogs", ClusterLogs, errors=_NOT_NOW)
async def _read_logs(handler: GpuDaskAPIHandler, kernel_id: str) -> ClusterLogs:
    """The last lines of each log."""
    return ClusterLogs(logs=await handler.manager.get_shown(kernel_id).logs())


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
