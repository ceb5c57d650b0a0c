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
            "no-dask-gateway", address=target.address, error=error, install=pip_install("gateway")
        ) from None
    name = target.gateway_cluster
    gateway = _configured(Gateway, target)
    try:
        async with asyncio.timeout(target.timeout), gateway:
            report = await gateway.get_cluster(name)
    except TimeoutError:
        raise ConnectError("gateway-timeout", gateway=gateway.address, limit=target.timeout) from None
    except Exception as error:  # noqa: BLE001 - whatever dask-gateway, its authentication or aiohttp raise
        reason = str(error).rstrip(".") or type(error).__name__
        raise ConnectError("gateway-access", gateway=gateway.address, name=name, error=reason) from None
    if report.scheduler_address is None or report.security is None:
        raise ConnectError("gateway-status", name=name, gateway=gateway.address, status=report.status.name.lower())
    if report.scheduler_address != target.address and target.has_host:
        raise ConnectError(
            "gateway-address",
            gateway=gateway.address,
            name=name,
            there=report.scheduler_address,
            address=target.address,
        )
    found = {"address": report.scheduler_address, "security": report.security, "dashboard": report.dashboard_link or ""}
    return replace(target, source="the Gateway", **found)


def _configured(gateway_class: Any, target: Target) -> Any:
    try:
        return gateway_class(asynchronous=True)
    except Exception as error:  # noqa: BLE001 - the address is missing, or the authentication cannot be set up
        reason = str(error).rstrip(".") or type(error).__name__
        raise ConnectError("gateway-unusable", address=target.address, error=reason) from None
