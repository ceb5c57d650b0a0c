"""The OpenAPI 3.1 document of the REST interface, generated from the models.

``python -m jupyter_gpudask.server.api.openapi > labextension/openapi.json`` updates the copy of the front end.
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pydantic.json_schema import models_json_schema

from ..._version import __version__
from ...protocol import ClusterSpec
from ...protocol.api.rest import (
    AdaptCluster,
    ClusterInfo,
    ClusterList,
    ClusterLogs,
    CreateCluster,
    GpuList,
    Problem,
    ProfileList,
    RestartCluster,
    ScaleCluster,
)
from ...protocol.api.stream import StreamMessage

if TYPE_CHECKING:
    from pydantic import BaseModel

_REF = "#/components/schemas/{model}"
_ERRORS = {
    400: "The body is not JSON, or is too large.",
    403: "The request is not authenticated, or not authorized.",
    404: "The kernel, cluster or profile does not exist.",
    409: "The state of the cluster or of the server does not allow this.",
    422: "A value in the body is invalid.",
}


@dataclass(frozen=True)
class _Operation:
    path: str
    method: str
    name: str
    summary: str
    status: int = 200
    response: type[BaseModel] | None = None
    body: type[BaseModel] | None = None
    errors: tuple[int, ...] = ()
    has_location: bool = False


_OPERATIONS = (
    _Operation("/gpus", "get", "listGpus", "List the GPUs, with their holders and processes.", response=GpuList),
    _Operation(
        "/profiles",
        "get",
        "listProfiles",
        "List the cluster profiles, and the default options.",
        response=ProfileList,
    ),
    _Operation("/clusters", "get", "listClusters", "List the clusters of this server.", response=ClusterList),
    _Operation(
        "/clusters",
        "post",
        "createCluster",
        "Start the cluster of a kernel; it is starting when the response is sent.",
        202,
        ClusterInfo,
        CreateCluster,
        (400, 404, 409, 422),
        has_location=True,
    ),
    _Operation(
        "/clusters/{kernel_id}",
        "get",
        "readCluster",
        "Describe the cluster of a kernel.",
        response=ClusterInfo,
        errors=(404,),
    ),
    _Operation(
        "/clusters/{kernel_id}",
        "delete",
        "closeCluster",
        "Close the cluster; it is gone when the response is sent, after at most 6 seconds.",
        204,
        errors=(404,),
    ),
    _Operation(
        "/clusters/{kernel_id}/scale",
        "post",
        "scaleCluster",
        "Change the number of workers; they start or stop after the response.",
        202,
        ClusterInfo,
        ScaleCluster,
        (400, 404, 409, 422),
        has_location=True,
    ),
    _Operation(
        "/clusters/{kernel_id}/adapt",
        "post",
        "adaptCluster",
        "Let the number of workers follow the work, within a range, until the cluster is scaled.",
        202,
        ClusterInfo,
        AdaptCluster,
        (400, 404, 409, 422),
        has_location=True,
    ),
    _Operation(
        "/clusters/{kernel_id}/restart",
        "post",
        "restartCluster",
        "Restart the cluster, with other options if some are given.",
        202,
        ClusterInfo,
        RestartCluster,
        (400, 404, 409, 422),
        has_location=True,
    ),
    _Operation(
        "/clusters/{kernel_id}/release",
        "post",
        "releaseResults",
        "Release the finished results that clients hold on the workers; unfinished tasks go on.",
        response=ClusterInfo,
        errors=(404, 409),
    ),
    _Operation(
        "/clusters/{kernel_id}/keep",
        "post",
        "keepCluster",
        "Keep the GPUs of an idle cluster, which somebody waits for; its idle time begins anew.",
        response=ClusterInfo,
        errors=(404,),
    ),
    _Operation(
        "/clusters/{kernel_id}/logs",
        "get",
        "readLogs",
        "The last lines of each log.",
        response=ClusterLogs,
        errors=(404, 409),
    ),
)


def openapi_document(base_url: str) -> dict[str, Any]:
    """The OpenAPI document of a server at `base_url`."""
    paths: dict[str, dict[str, Any]] = {}
    for operation in _OPERATIONS:
        paths.setdefault(operation.path, {})[operation.method] = _describe(operation)
    return {
        "openapi": "3.1.0",
        "info": {"title": "jupyter_gpudask", "version": __version__, "license": {"name": "BSD-3-Clause"}},
        "servers": [{"url": f"{base_url}gpudask/api"}],
        "security": [{"token": []}],
        "paths": paths,
        "components": {
            "schemas": _schemas(),
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


def _describe(operation: _Operation) -> dict[str, Any]:
    success: dict[str, Any] = {"description": operation.summary}
    if operation.response is not None:
        success["content"] = _json(operation.response)
    if operation.has_location:
        success["headers"] = {"Location": {"schema": {"type": "string"}, "description": "The URL of the cluster."}}
    responses = {str(operation.status): success}
    for status in (403, *operation.errors):
        responses[str(status)] = {"description": _ERRORS[status], "content": _json(Problem)}
    described: dict[str, Any] = {
        "operationId": operation.name,
        "summary": operation.summary,
        "responses": dict(sorted(responses.items())),
    }
    if operation.body is not None:
        described["requestBody"] = {"required": operation.body is not RestartCluster, "content": _json(operation.body)}
    if "{kernel_id}" in operation.path:
        schema = {"type": "string", "minLength": 1, "pattern": "^[A-Za-z0-9_-]+$"}
        described["parameters"] = [{"name": "kernel_id", "in": "path", "required": True, "schema": schema}]
    return described


def _json(model: type[BaseModel]) -> dict[str, Any]:
    return {"application/json": {"schema": {"$ref": _REF.format(model=model.__name__)}}}


def _schemas() -> dict[str, Any]:
    responses = (ClusterInfo, ClusterList, ClusterLogs, GpuList, Problem, ProfileList, StreamMessage)
    requests = (AdaptCluster, CreateCluster, RestartCluster, ScaleCluster)
    _, definitions = models_json_schema(
        [(model, "serialization") for model in responses] + [(model, "validation") for model in requests],
        ref_template=_REF,
    )
    schemas: dict[str, Any] = definitions["$defs"]
    for request in (CreateCluster, RestartCluster):
        schemas[request.__name__]["properties"]["spec"] = {"$ref": _REF.format(model="ClusterOptions")}
    return schemas | {"ClusterOptions": _options()}


def _options() -> dict[str, Any]:
    """The options of a new cluster: any valid combination of the attributes of a spec."""
    schema = ClusterSpec.model_json_schema(mode="validation")
    return {
        "title": "ClusterOptions",
        "type": "object",
        "additionalProperties": False,
        "properties": schema["properties"],
        "anyOf": [
            {"properties": {"engine": {"const": "cpu"}, "gpus": {"const": "all"}}, "required": ["engine"]},
            {"properties": {"engine": {"enum": ["auto", "cuda"]}, "workers": {"type": "null"}}},
        ],
    }


if __name__ == "__main__":
    sys.stdout.write(json.dumps(openapi_document("/"), indent=2) + "\n")
