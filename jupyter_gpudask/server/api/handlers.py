"""The handlers of the REST interface, and their paths."""

from __future__ import annotations

import asyncio
import json
from http import HTTPStatus

from jupyter_server.auth.decorator import authorized
from tornado import web

from ...protocol.api.rest import (
    AdaptCluster,
    ClusterList,
    ClusterLogs,
    CreateCluster,
    ProfileList,
    RestartCluster,
    ScaleCluster,
)
from .base import API, GpuDaskAPIHandler
from .openapi import openapi_document

_KERNEL = r"(?P<kernel_id>[^/]+)"


class GpusHandler(GpuDaskAPIHandler):
    """``gpus``: the GPUs of the machine."""

    @web.authenticated
    @authorized
    async def get(self) -> None:
        """List the GPUs."""
        self.send_model(await self.monitor.gpus())


class ProfilesHandler(GpuDaskAPIHandler):
    """``profiles``: the administrator's cluster profiles."""

    @web.authenticated
    @authorized
    async def get(self) -> None:
        """List the cluster profiles and the default options."""
        policy = self.manager.policy
        self.send_model(
            ProfileList(profiles=policy.listed_profiles(), default=policy.spec({}), only=policy.settings.profiles_only)
        )


class ClustersHandler(GpuDaskAPIHandler):
    """``clusters``: the clusters of this server."""

    @web.authenticated
    @authorized
    async def get(self) -> None:
        """List the clusters."""
        self.send_model(ClusterList(clusters=await self.monitor.describe(*self.manager.shown().values())))

    @web.authenticated
    @authorized
    async def post(self) -> None:
        """Start a cluster; it is starting when the response is sent."""
        request = self.body(CreateCluster)
        self.manager.check_not_joined(request.kernel_id)
        spec = self.manager.policy.spec(request.spec, request.profile)
        await self.manager.start(request.kernel_id, spec)
        await self.send_cluster(request.kernel_id, HTTPStatus.ACCEPTED)


class ClusterHandler(GpuDaskAPIHandler):
    """``clusters/<kernel_id>``: the cluster of one kernel."""

    @web.authenticated
    @authorized
    async def get(self, kernel_id: str) -> None:
        """Describe the cluster, with an updated state."""
        await self.manager.get_shown(kernel_id).refresh()
        await self.send_cluster(kernel_id)

    @web.authenticated
    @authorized
    async def delete(self, kernel_id: str) -> None:
        """Close the cluster, and respond when it is gone."""
        self.manager.check_possible(kernel_id, "stop")
        await self.manager.close(kernel_id)
        self.set_status(HTTPStatus.NO_CONTENT)
        await self.finish()


class ScaleHandler(GpuDaskAPIHandler):
    """``clusters/<kernel_id>/scale``: the number of workers."""

    @web.authenticated
    @authorized
    async def post(self, kernel_id: str) -> None:
        """Change the number of workers; they start or stop after the response."""
        self.manager.check_possible(kernel_id, "scale")
        request = self.body(ScaleCluster)
        await self.manager.scale(kernel_id, request.workers)
        await self.send_cluster(kernel_id, HTTPStatus.ACCEPTED)


class AdaptHandler(GpuDaskAPIHandler):
    """``clusters/<kernel_id>/adapt``: adaptive scaling."""

    @web.authenticated
    @authorized
    async def post(self, kernel_id: str) -> None:
        """Close idle workers and start them when there is work, within a range."""
        self.manager.check_possible(kernel_id, "adapt")
        request = self.body(AdaptCluster)
        await self.manager.adapt(kernel_id, request.minimum, request.maximum)
        await self.send_cluster(kernel_id, HTTPStatus.ACCEPTED)


class RestartHandler(GpuDaskAPIHandler):
    """``clusters/<kernel_id>/restart``: replaces the cluster with a new one."""

    @web.authenticated
    @authorized
    async def post(self, kernel_id: str) -> None:
        """Restart the cluster, with other options if some are given."""
        self.manager.check_possible(kernel_id, "restart")
        request = self.body(RestartCluster)
        await self.manager.check_restart(kernel_id, request.spec)
        self.manager.restart(kernel_id, request.spec)
        await self.send_cluster(kernel_id, HTTPStatus.ACCEPTED)


class ReleaseHandler(GpuDaskAPIHandler):
    """``clusters/<kernel_id>/release``: releases the results that clients hold on the workers."""

    @web.authenticated
    @authorized
    async def post(self, kernel_id: str) -> None:
        """Release the finished results; unfinished tasks go on."""
        self.manager.check_possible(kernel_id, "release")
        await self.manager.get(kernel_id).release()
        await self.send_cluster(kernel_id)


class KeepHandler(GpuDaskAPIHandler):
    """``clusters/<kernel_id>/keep``: answers the notice that the GPUs of an idle cluster are wanted."""

    @web.authenticated
    @authorized
    async def post(self, kernel_id: str) -> None:
        """Keep the GPUs; the idle time of the cluster begins anew."""
        self.manager.check_possible(kernel_id, "keep")
        self.manager.keep(kernel_id)
        await self.send_cluster(kernel_id)


class LogsHandler(GpuDaskAPIHandler):
    """``clusters/<kernel_id>/logs``: the logs of supervisor and workers."""

    @web.authenticated
    @authorized
    async def get(self, kernel_id: str) -> None:
        """Send the last lines of each log."""
        self.send_model(ClusterLogs(logs=await self.manager.get_shown(kernel_id).logs()))


class OpenApiHandler(GpuDaskAPIHandler):
    """``openapi.json``: the OpenAPI document of this interface."""

    @web.authenticated
    @authorized
    async def get(self) -> None:
        """Build and send the document."""
        self.finish(json.dumps(await asyncio.to_thread(openapi_document, self.base_url)))


HANDLERS = [
    (rf"{API}/gpus", GpusHandler),
    (rf"{API}/profiles", ProfilesHandler),
    (rf"{API}/clusters", ClustersHandler),
    (rf"{API}/clusters/{_KERNEL}", ClusterHandler),
    (rf"{API}/clusters/{_KERNEL}/scale", ScaleHandler),
    (rf"{API}/clusters/{_KERNEL}/adapt", AdaptHandler),
    (rf"{API}/clusters/{_KERNEL}/restart", RestartHandler),
    (rf"{API}/clusters/{_KERNEL}/release", ReleaseHandler),
    (rf"{API}/clusters/{_KERNEL}/keep", KeepHandler),
    (rf"{API}/clusters/{_KERNEL}/logs", LogsHandler),
    (rf"{API}/openapi\.json", OpenApiHandler),
]
