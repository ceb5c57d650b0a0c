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
from ...protocol.rest import (
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
from ...protocol.stream import StreamMessage

if TYPE_CHECKING:
    from pydantic import BaseModel

_REF = "#/components/schemas/{model}"
_ERRORS = {
    400: "The body is not JSON.",
    403: "Not logged in, or not allowed.",
    404: "There is no such kernel or cluster.",
    409: "The cluster, or the server, is not in a state for this.",
    422: "The body is JSON, but not as it should be.",
}


@dataclass(frozen=True)
class _Operation:
    path: str
    method: str
    name: str
    summary: str
    status: int = 200
    answer: type[BaseModel] | None = None
    body: type[BaseModel] | None = None
    errors: tuple[int, ...] = ()
    located: bool = False


_OPERATIONS = (
    _Operation("/gpus", "get", "listGpus", "The GPUs, who holds them and who uses them.", answer=GpuList),
    _Operation("/profiles", "get", "listProfiles", "What the administrator offers.", answer=ProfileList),
    _Operation("/clusters", "get", "listClusters", "The clusters of this server.", answer=ClusterList),
    _Operation(
        "/clusters",
        "post",
        "createCluster",
        "Order the cluster of a kernel; it is starting when this answers.",
        202,
        ClusterInfo,
        CreateCluster,
        (400, 404, 409, 422),
        located=True,
    ),
    _Operation("/clusters/{kernel_id}", "get", "readCluster", "A kernel's cluster.", answer=ClusterInfo, errors=(404,)),
    _Operation(
        "/clusters/{kernel_id}",
        "delete",
        "closeCluster",
        "Close it; it is gone when this answers, at most 6 seconds later.",
        204,
        errors=(404,),
    ),
    _Operation(
        "/clusters/{kernel_id}/scale",
        "post",
        "scaleCluster",
        "Have so many workers; they come and go after the answer.",
        202,
        ClusterInfo,
        ScaleCluster,
        (400, 404, 409, 422),
        located=True,
    ),
    _Operation(
        "/clusters/{kernel_id}/restart",
        "post",
        "restartCluster",
        "Order a new one in its place, with other options if some are given.",
        202,
        ClusterInfo,
        RestartCluster,
        (400, 404, 409, 422),
        located=True,
    ),
    _Operation(
        "/clusters/{kernel_id}/logs",
        "get",
        "readLogs",
        "The last lines of its logs.",
        answer=ClusterLogs,
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
    if operation.answer is not None:
        success["content"] = _json(operation.answer)
    if operation.located:
        success["headers"] = {"Location": {"schema": {"type": "string"}, "description": "Where it can be read."}}
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
    requests = (CreateCluster, RestartCluster, ScaleCluster)
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
