"""Find a running cluster of dask-gateway by its name: ``%gpudask connect gateway://NAME``."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ...errors import ConnectError
from ...installation import pip_install

if TYPE_CHECKING:
    from .target import Target


async def locate(target: Target) -> Target:
    """Ask the Gateway of Dask's configuration for the scheduler of a cluster, and for its credentials.

    Parameters
    ----------
    target
        ``gateway://NAME``, or ``gateway://HOST:PORT/NAME`` as Dask writes the address of the scheduler.

    Returns
    -------
    Target
        The same with the addresses of the scheduler and of its dashboard, and the credentials.

    Raises
    ------
    ConnectError
        dask-gateway or the address of the Gateway is missing, the Gateway does not respond or refuses this user, or the
        cluster does not run.
    """
    try:
        from dask_gateway import Gateway
    except ImportError as error:
        raise ConnectError(
            f"{target.address} needs dask-gateway, which cannot be imported: {error}.",
            f"Type: {pip_install('gateway')}",
        ) from None
    name = target.gateway_cluster
    gateway = _configured(Gateway, target)
    try:
        async with asyncio.timeout(target.timeout), gateway:
            report = await gateway.get_cluster(name)
    except TimeoutError:
        raise ConnectError(
            f"The Gateway at {gateway.address} did not respond within {target.timeout:g} s.",
            "Check gateway.address in Dask's configuration, or give more time with --start-timeout.",
        ) from None
    except Exception as error:  # noqa: BLE001 - whatever dask-gateway, its authentication or aiohttp raise
        reason = str(error).rstrip(".") or type(error).__name__
        raise ConnectError(
            f"The Gateway at {gateway.address} does not give access to the cluster {name}: {reason}.",
            "Check the name, and gateway.auth in Dask's configuration.",
        ) from None
    if report.scheduler_address is None or report.security is None:
        raise ConnectError(
            f"The cluster {name} of the Gateway at {gateway.address} does not run: it is {report.status.name.lower()}.",
            "Start one there, and connect to it.",
        )
    if report.scheduler_address != target.address and target.has_host:
        raise ConnectError(
            f"The Gateway at {gateway.address} has the scheduler of the cluster {name} at {report.scheduler_address}, "
            f"not at {target.address}.",
            "Set gateway.address in Dask's configuration to the Gateway of this cluster.",
        )
    found = {"address": report.scheduler_address, "security": report.security, "dashboard": report.dashboard_link or ""}
    return replace(target, source="the Gateway", **found)


def _configured(gateway_class: Any, target: Target) -> Any:
    try:
        return gateway_class(asynchronous=True)
    except Exception as error:  # noqa: BLE001 - the address is missing, or the authentication cannot be set up
        reason = str(error).rstrip(".") or type(error).__name__
        raise ConnectError(
            f"The Gateway of {target.address} cannot be used: {reason}.",
            "Set gateway.address and gateway.auth in Dask's configuration.",
        ) from None
