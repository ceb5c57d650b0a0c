"""The REST interface: what is answered at which path."""

from __future__ import annotations

import asyncio
import json
from http import HTTPStatus

from jupyter_server.auth.decorator import authorized
from tornado import web

from ...protocol.rest import ClusterList, ClusterLogs, CreateCluster, ProfileList, RestartCluster, ScaleCluster
from .base import API, GpuDaskHandler
from .openapi import openapi_document

_KERNEL = r"(?P<kernel_id>[^/]+)"


class GpusHandler(GpuDaskHandler):
    """``gpus``: those of the machine."""

    @web.authenticated
    @authorized
    async def get(self) -> None:
        """List them."""
        self.answer(await self.watch.gpus())


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
        self.answer(ClusterList(clusters=await self.watch.describe(*self.manager.clusters.values())))

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
        await self.manager.check_restart(kernel_id, order.spec)
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
        self.finish(json.dumps(await asyncio.to_thread(openapi_document, self.base_url)))


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
