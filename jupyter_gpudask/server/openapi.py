"""The OpenAPI 3.1 document of the REST interface, generated from the models.

``python -m jupyter_gpudask.server.openapi > labextension/openapi.json`` updates the copy of the front end.
"""

from __future__ import annotations

import asyncio
import json
import sys
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from jupyter_server.auth.decorator import authorized
from pydantic.json_schema import models_json_schema
from tornado import web

from .._version import __version__
from ..protocol import ClusterSpec
from ..protocol.rest import Problem, StreamMessage
from ..protocol.spec import start_options
from .rest import API, OPERATIONS, GpuDaskAPIHandler

if TYPE_CHECKING:
    from pydantic import BaseModel

    from .rest import Operation

_REF = "#/components/schemas/{model}"
_ERRORS = {
    400: "The body is not JSON, or is too large.",
    403: "The request is not authenticated, or not authorized.",
    404: "The kernel, cluster or profile does not exist.",
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
            {"properties": {"engine": {"const": "cpu"}, "gpus": {"const": "all"}}, "required": ["engine"]},
            {"properties": {"engine": {"enum": ["auto", "cuda"]}, "workers": {"type": "null"}}},
        ],
    }


if __name__ == "__main__":
    sys.stdout.write(json.dumps(openapi_document("/"), indent=2) + "\n")
