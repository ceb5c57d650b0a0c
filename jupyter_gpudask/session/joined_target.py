"""The scheduler to connect to, and the credentials, from the arguments of ``%gpudask connect``."""

from __future__ import annotations

import asyncio
import json
import re
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import dask.config
from distributed import Security

from ..client.connect import security_of
from ..errors import ConnectError, SpecError
from ..installation import pip_install
from ..protocol.credentials import read_credentials

_HOST = r"(?P<host>\[[0-9a-fA-F:.]+\]|[^\s/:\[\]]+):(?P<port>[0-9]{1,5})"
_ADDRESS = re.compile(rf"(?P<protocol>tcp|tls)://{_HOST}/?")
_GATEWAY = re.compile(rf"gateway://(?:{_HOST}/)?(?P<name>[A-Za-z0-9][\w.-]*)/?")
_DEFAULT_TIMEOUT = 30.0


@dataclass(frozen=True)
class Target:
    """A scheduler."""

    # ``tcp://HOST:PORT`` or ``tls://HOST:PORT``; or for a cluster of dask-gateway ``gateway://HOST:PORT/NAME``, or
    # ``gateway://NAME`` until `jupyter_gpudask.session.joined_target.locate` has found it
    address: str
    # the credentials; `None` for ``tcp``, and for a cluster of dask-gateway that is not located yet
    security: Security | None = field(default=None, repr=False)
    source: str = ""  # where the credentials are from, in words
    scheduler_id: str = ""  # the id that a scheduler file says the scheduler has; empty without such a file
    timeout: float = _DEFAULT_TIMEOUT  # seconds until the connection must be there
    # the address of the dashboard of a cluster of dask-gateway; empty if it has none, and for another scheduler
    dashboard: str = ""

    @property
    def host_and_port(self) -> tuple[str, int]:
        """The host without brackets, and the port."""
        match = _ADDRESS.fullmatch(self.address) or _GATEWAY.fullmatch(self.address)
        assert match is not None
        return match["host"].strip("[]"), int(match["port"])

    @property
    def gateway_cluster(self) -> str:
        """The name of the cluster of dask-gateway; empty for another scheduler."""
        match = _GATEWAY.fullmatch(self.address)
        return "" if match is None else match["name"]

    @property
    def has_host(self) -> bool:
        """Whether the address has a host and a port."""
        match = _GATEWAY.fullmatch(self.address)
        return match is None or match["host"] is not None

    @property
    def uses_tls(self) -> bool:
        """Whether the connection is encrypted."""
        return self.address.startswith("tls://")


def parse_target(
    address: str = "", *, scheduler_file: str = "", security: str = "", start_timeout: str | float = _DEFAULT_TIMEOUT
) -> Target:
    """Validate the arguments of ``%gpudask connect``, and read the files that they name.

    `address`: the address of the scheduler, see `Target`; empty with `scheduler_file`. Without both that of
    ``scheduler-address`` in Dask's configuration, as for Dask's client. `security`: a file for
    `jupyter_gpudask.protocol.credentials.read_credentials`. Without it the credentials for ``tls`` are those of Dask's
    configuration.
    """
    timeout = _parse_timeout(start_timeout)
    scheduler_id = ""
    if scheduler_file:
        address, scheduler_id = _read_scheduler_file(scheduler_file)
    elif not address:
        address = _configured_address()
    if not scheduler_file and _GATEWAY.fullmatch(address):
        if security:
            raise ConnectError("gateway-credentials", address=address)
        return Target(address.rstrip("/"), timeout=timeout)
    match = _ADDRESS.fullmatch(address)
    if match is None or not 0 < int(match["port"]) < 2**16:
        raise ConnectError("not-an-address", address=repr(address))
    address = address.rstrip("/")
    if match["protocol"] == "tcp":
        if security:
            raise ConnectError(
                "security-without-tls", file=repr(security), address=address, tls=f"tls{address.removeprefix('tcp')}"
            )
        return Target(address, scheduler_id=scheduler_id, timeout=timeout)
    if security:
        return Target(address, security_of(read_credentials(security)), security, scheduler_id, timeout)
    configured: Any = Security(require_encryption=True)
    if not (configured.tls_ca_file and configured.tls_client_cert):
        raise ConnectError("no-credentials")
    return Target(address, configured, "Dask's configuration", scheduler_id, timeout)


def _configured_address() -> str:
    address = dask.config.get("scheduler-address", None)
    if not address:
        raise ConnectError("no-address")
    return str(address)


def _parse_timeout(value: str | float) -> float:
    try:
        seconds = float(value)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds <= 3600:
        raise SpecError(
            "not-allowed", option="--start-timeout", value=repr(value), allowed="seconds above 0 and up to 3600"
        )
    return seconds


def _read_scheduler_file(name: str) -> tuple[str, str]:
    """The address and the id of the scheduler."""
    try:
        content = json.loads(Path(name).expanduser().read_text())
    except OSError as error:
        raise ConnectError("scheduler-file-unreadable", file=name, error=error.strerror) from None
    except ValueError:
        content = None
    address = content.get("address") if isinstance(content, dict) else None
    if not isinstance(address, str):
        raise ConnectError("not-a-scheduler-file", file=name)
    return address, str(content.get("id", ""))


async def locate(target: Target) -> Target:
    """Ask the Gateway of Dask's configuration for the addresses and the credentials of a cluster.

    Raises `ConnectError` if dask-gateway or the address of the Gateway is missing, the Gateway does not respond or
    refuses this user, or the cluster does not run.
    """
    try:
        from dask_gateway import Gateway
    except ImportError as error:
        raise ConnectError(
            "no-dask-gateway", address=target.address, error=error, install=pip_install("gateway")
        ) from None
    name = target.gateway_cluster
    try:
        gateway: Any = Gateway(asynchronous=True)
    except Exception as error:  # noqa: BLE001 - the address is missing, or the authentication cannot be set up
        raise ConnectError("gateway-unusable", address=target.address, error=_reason(error)) from None
    try:
        async with asyncio.timeout(target.timeout), gateway:
            report = await gateway.get_cluster(name)
    except TimeoutError:
        raise ConnectError("gateway-timeout", gateway=gateway.address, limit=target.timeout) from None
    except Exception as error:  # noqa: BLE001 - whatever dask-gateway, its authentication or aiohttp raise
        raise ConnectError("gateway-access", gateway=gateway.address, name=name, error=_reason(error)) from None
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


def _reason(error: Exception) -> str:
    return str(error).rstrip(".") or type(error).__name__
