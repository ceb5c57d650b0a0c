"""Connect the kernel to a scheduler that somebody else started."""

from __future__ import annotations

from typing import TYPE_CHECKING

import dask.config

from ...client.connect import connect_joined
from ...errors import ConnectError
from ...protocol import Joined
from ...protocol.cluster.limits import gateway_dashboard, joined_limits
from ..background_imports import BackgroundImports
from ..running_cluster import RunningCluster
from .check import check_scheduler
from .cluster import JoinedCluster
from .diagnosis import refused_operation
from .gateway import locate
from .target import parse_target

if TYPE_CHECKING:
    from collections.abc import Callable

    from ...client.kernel_client import KernelClient
    from ...launcher.connection import LostCallback
    from ..event_loop import EventLoopThread
    from .check import Identity
    from .target import Target


def connect(
    loop: EventLoopThread, arguments: dict[str, str], while_waiting: Callable[[], None], on_lost: LostCallback
) -> RunningCluster:
    """Connect to a scheduler; see `jupyter_gpudask.session.session.Session.connect`.

    Parameters
    ----------
    loop
        Watches the connection.
    arguments
        The arguments of `parse_target`.
    while_waiting
        Called in this thread ten times a second.
    on_lost
        Called in another thread if the connection is lost.
    """
    target = parse_target(**arguments)
    if target.gateway_cluster:
        target = loop.run(locate(target), while_waiting)
    identity = loop.run(check_scheduler(target), while_waiting)
    client = _connect_client(target)
    cluster = JoinedCluster(client, _describe(target, identity, on_gpus=client.is_on_gpus))
    try:
        imports = BackgroundImports(cluster.spec)
        imports.on_progress(cluster.ready)
        imports.wait(while_waiting)
        loop.run(cluster.follow(on_lost))
    except BaseException:
        loop.run(cluster.leave())
        client.close(timeout=2)
        raise
    return RunningCluster(loop, cluster, client)


def _connect_client(target: Target) -> KernelClient:
    try:
        return connect_joined(target.address, target.security, target.timeout)
    except Exception as error:  # noqa: BLE001 - whatever Dask or a worker raises
        reason = f"{type(error).__name__}: {error}".rstrip(".")
        raise refused_operation(target, error) or ConnectError(
            "not-accepted", address=target.address, error=reason
        ) from None


def _describe(target: Target, identity: Identity, *, on_gpus: bool) -> Joined:
    dashboard = _dashboard(target, identity.services.get("dashboard"))
    limits = joined_limits(target.address)
    if not dashboard:
        is_gateway = bool(target.gateway_cluster)
        limits["dashboard"] = (
            gateway_dashboard(target.dashboard) if is_gateway else f"{target.address} has no dashboard."
        )
    return Joined(
        engine="cuda" if on_gpus else "cpu",
        stand_in="" if on_gpus else f"The workers of {target.address} have no GPU.",
        address=target.address,
        credentials=None,
        dashboard_port=None,
        dashboard_token="",
        dashboard=dashboard,
        limits=limits,
        workers=len(identity.workers),
        pid=0,
    )


def _dashboard(target: Target, port: object) -> str:
    """The address of the dashboard, at the host of the scheduler; empty without the port that it reported.

    That of dask-gateway can be reached by the Gateway's proxy only.
    """
    if not isinstance(port, int) or target.gateway_cluster:
        return ""
    # Dask's clients decide so, too.
    scheme = "https" if dask.config.get("distributed.scheduler.dashboard.tls.cert", None) else "http"
    host, _ = target.host_and_port
    return f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}/status"
