"""The REST interface: requests in, models out."""

from __future__ import annotations

import json
import math
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, TypeVar, cast

from jupyter_server.auth.decorator import authorized
from jupyter_server.base.handlers import APIHandler
from pydantic import BaseModel, ValidationError
from tornado import web

from ..errors import (
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
from ..models.api import (
    ClusterList,
    ClusterLogs,
    CreateCluster,
    Problem,
    ProfileList,
    RestartCluster,
    ScaleCluster,
)
from .describe import describe

if TYPE_CHECKING:
    from .manager import ClusterManager
    from .watch import Watch

API = "gpudask/api"
_KERNEL = r"(?P<kernel_id>[^/]+)"

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
    _track_activity = False  # a panel that looks at figures is no user at work

    @property
    def manager(self) -> ClusterManager:
        """The clusters."""
        return cast("ClusterManager", self.settings["gpudask_manager"])

    def body(self, model: type[_M]) -> _M:
        """The body of the request.

        Raises
        ------
        tornado.web.HTTPError
            400 for what is no JSON object, 422 for one that is not as `model` says.
        """
        try:
            content = json.loads(self.request.body or b"{}", parse_constant=_refuse, parse_float=_parse_number)
        except ValueError:
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
        notebooks = await self.manager.kernels.notebooks()
        info = describe(self.manager.get(kernel_id), notebooks, self.manager.kernels)
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


class GpusHandler(GpuDaskHandler):
    """``gpus``: those of the machine."""

    @web.authenticated
    @authorized
    async def get(self) -> None:
        """List them."""
        watch: Watch = self.settings["gpudask_watch"]
        self.answer(await watch.gpus())


class ProfilesHandler(GpuDaskHandler):
    """``profiles``: what the administrator offers."""

    @web.authenticated
    @authorized
    async def get(self) -> None:
        """List them."""
        policy = self.manager.policy
        self.answer(ProfileList(profiles=policy.listed_profiles(), default=policy.spec({})))


class ClustersHandler(GpuDaskHandler):
    """``clusters``: those of this server."""

    @web.authenticated
    @authorized
    async def get(self) -> None:
        """List them."""
        manager = self.manager
        notebooks = await manager.kernels.notebooks()
        clusters = [describe(cluster, notebooks, manager.kernels) for cluster in manager.clusters.values()]
        self.answer(ClusterList(clusters=tuple(clusters)))

    @web.authenticated
    @authorized
    async def post(self) -> None:
        """Order one."""
        order = self.body(CreateCluster)
        spec = self.manager.policy.spec(order.spec, order.profile)
        self.manager.create(order.kernel_id, spec)
        await self.answer_cluster(order.kernel_id, HTTPStatus.ACCEPTED)


class ClusterHandler(GpuDaskHandler):
    """``clusters/<kernel_id>``: one of them."""

    @web.authenticated
    @authorized
    async def get(self, kernel_id: str) -> None:
        """Read it."""
        await self.manager.refresh(kernel_id)
        await self.answer_cluster(kernel_id)

    @web.authenticated
    @authorized
    async def delete(self, kernel_id: str) -> None:
        """Close it."""
        await self.manager.close(kernel_id)
        self.set_status(HTTPStatus.NO_CONTENT)
        await self.finish()


class ScaleHandler(GpuDaskHandler):
    """``clusters/<kernel_id>/scale``."""

    @web.authenticated
    @authorized
    async def post(self, kernel_id: str) -> None:
        """Have so many workers; they come and go after the answer."""
        order = self.body(ScaleCluster)
        await self.manager.scale(kernel_id, order.workers)
        await self.answer_cluster(kernel_id, HTTPStatus.ACCEPTED)


class RestartHandler(GpuDaskHandler):
    """``clusters/<kernel_id>/restart``."""

    @web.authenticated
    @authorized
    async def post(self, kernel_id: str) -> None:
        """Order a new one in its place."""
        order = self.body(RestartCluster)
        self.manager.restart(kernel_id, order.spec)
        await self.answer_cluster(kernel_id, HTTPStatus.ACCEPTED)


class LogsHandler(GpuDaskHandler):
    """``clusters/<kernel_id>/logs``."""

    @web.authenticated
    @authorized
    async def get(self, kernel_id: str) -> None:
        """Read the last lines."""
        self.answer(ClusterLogs(logs=await self.manager.logs(kernel_id)))


class OpenApiHandler(GpuDaskHandler):
    """``openapi.json``: this interface, in the words of OpenAPI."""

    @web.authenticated
    @authorized
    async def get(self) -> None:
        """Read it."""
        await self.finish(json.dumps(self.settings["gpudask_api"]))


class NothingHandler(GpuDaskHandler):
    """Every other path."""

    @web.authenticated
    @authorized
    async def get(self) -> None:
        """There is nothing."""
        raise web.HTTPError(404, "There is nothing at this path.")

    @web.authenticated
    @authorized
    async def post(self) -> None:
        """There is nothing."""
        raise web.HTTPError(404, "There is nothing at this path.")

    @web.authenticated
    @authorized
    async def delete(self) -> None:
        """There is nothing."""
        raise web.HTTPError(404, "There is nothing at this path.")


HANDLERS = [
    (rf"{API}/gpus", GpusHandler),
    (rf"{API}/profiles", ProfilesHandler),
    (rf"{API}/clusters", ClustersHandler),
    (rf"{API}/clusters/{_KERNEL}", ClusterHandler),
    (rf"{API}/clusters/{_KERNEL}/scale", ScaleHandler),
    (rf"{API}/clusters/{_KERNEL}/restart", RestartHandler),
    (rf"{API}/clusters/{_KERNEL}/logs", LogsHandler),
    (rf"{API}/openapi\.json", OpenApiHandler),
]
NOTHING = [(rf"{API}/.*", NothingHandler)]
