"""The scheduler to connect to, from the arguments of ``%gpudask connect``, and a check before a client connects.

The check finds out whether it responds, the credentials are right and the versions agree. Its answers are read without
unpickling, so that they cannot run code here: Dask unpickles parts of any message that it receives, and the answers
that are needed are plain MessagePack.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import platform
import re
import ssl
import struct
from collections.abc import AsyncIterator
from dataclasses import dataclass, field, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal

import dask.config
import msgpack
from distributed import Security
from distributed.comm.addressing import parse_address
from distributed.comm.core import Comm, CommClosedError, FatalCommClosedError
from distributed.comm.registry import get_backend
from distributed.protocol.utils import msgpack_opts, unpack_frames
from pydantic import BaseModel, TypeAdapter, ValidationError

from ..client.connect import security_of
from ..errors import ConnectError, SpecError
from ..installation import pip_install
from ..protocol.rest import shared_name
from ..protocol.state import read_credentials

_HOST = r"(?P<host>\[[0-9a-fA-F:.]+\]|[^\s/:\[\]]+):(?P<port>[0-9]{1,5})"
_ADDRESS = re.compile(rf"(?P<protocol>tcp|tls)://{_HOST}/?")
_SOCKET = re.compile(r"unix:///[^\s:]+:[0-9]{1,5}")
_GATEWAY = re.compile(rf"gateway://(?:{_HOST}/)?(?P<name>[A-Za-z0-9][\w.-]*)/?")
_DEFAULT_TIMEOUT = 30.0


@dataclass(frozen=True)
class Target:
    """A scheduler."""

    # ``tcp://HOST:PORT`` or ``tls://HOST:PORT``; for a cluster of a terminal ``unix://DIRECTORY:NUMBER``; for a cluster
    # of dask-gateway ``gateway://HOST:PORT/NAME``, or ``gateway://NAME`` until
    # `jupyter_gpudask.session.joined_target.locate` has found it; ``shared-NUMBER`` for a shared cluster of the Jupyter
    # server, until that has said where it is
    address: str
    # the credentials; `None` for ``tcp`` and ``unix``, and for a cluster of dask-gateway that is not located yet
    security: Security | None = field(default=None, repr=False)
    source: str = ""  # where the credentials are from, in words
    scheduler_id: str = ""  # the id that a scheduler file says the scheduler has; empty without such a file
    timeout: float = _DEFAULT_TIMEOUT  # seconds until the connection must be there
    # the address of the dashboard of a cluster of dask-gateway; empty if it has none, and for another scheduler
    dashboard: str = ""
    name: str = ""  # of a shared cluster of the Jupyter server that is found; else empty

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
    def is_socket(self) -> bool:
        """Whether it listens at a Unix socket of this machine, without a host and a port."""
        return _SOCKET.fullmatch(self.address) is not None

    @property
    def is_shared(self) -> bool:
        """Whether it is a shared cluster of the Jupyter server that is not found yet."""
        return shared_name(self.address) != ""

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
    `jupyter_gpudask.protocol.state.read_credentials`. Without it the credentials for ``tls`` are those of Dask's
    configuration.
    """
    timeout = _parse_timeout(start_timeout)
    scheduler_id = ""
    if scheduler_file:
        address, scheduler_id = _read_scheduler_file(scheduler_file)
    elif not address:
        address = _configured_address()
    if not scheduler_file and (_GATEWAY.fullmatch(address) or shared_name(address)):
        if security:
            raise ConnectError("gateway-credentials", address=address)
        return Target(address.rstrip("/"), timeout=timeout)
    match = _ADDRESS.fullmatch(address)
    is_socket = _SOCKET.fullmatch(address) is not None
    if not is_socket and (match is None or not 0 < int(match["port"]) < 2**16):
        raise ConnectError("not-an-address", address=repr(address))
    address = address.rstrip("/")
    if match is None or match["protocol"] == "tcp":
        if security:
            tls = "tls://HOST:8786" if is_socket else f"tls{address.removeprefix('tcp')}"
            raise ConnectError("security-without-tls", file=repr(security), address=address, tls=tls)
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


_PACKAGES = ("dask", "distributed", "jupyter_gpudask")
_DIAGNOSIS_DELAY = 2.0

_OPEN_TIMEOUT = 10.0
_TLS_TIMEOUT = 5.0
_READ_TIMEOUT = 2.0
# The reasons of OpenSSL for an answer that is no TLS; they differ between its releases.
_NOT_TLS = frozenset({"WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "PACKET_LENGTH_TOO_LONG", "HTTP_REQUEST"})
# The error that `distributed.core.Server` raises for an operation of its setting `blocked-handlers`.
_BLOCKED = re.compile(r"The '(?P<operation>[\w-]+)' handler has been explicitly disallowed in (?P<where>\w+)")
_MAX_BYTES = 2**28  # thousands of workers
_LENGTH = struct.Struct("Q")


class Identity(BaseModel):
    """The part of `distributed.Scheduler.identity` that is used: workers by address, and ports by service."""

    id: str
    workers: dict[str, Any]
    services: dict[str, Any]


class _Host(BaseModel):
    python: str


class _Versions(BaseModel):
    host: _Host
    packages: dict[str, str | None]


_versions_of_workers = TypeAdapter(dict[str, _Versions])


async def check_scheduler(target: Target) -> Identity:
    """Ask a scheduler who it is, and compare its versions and those of its workers with the kernel's.

    Nothing that it sends is unpickled.

    Raises `ConnectError` if the scheduler does not respond in time, refuses the credentials, has no worker, or has
    other versions.
    """
    try:
        async with asyncio.timeout(target.timeout):
            identity, scheduler, workers = await _ask_or_diagnose(target)
    except TimeoutError:
        raise ConnectError("check-timeout", address=target.address, limit=target.timeout) from None
    if target.scheduler_id and identity.id != target.scheduler_id:
        raise ConnectError("scheduler-file-stale", address=target.address)
    for name, versions in {"the scheduler": scheduler, **workers}.items():
        _check_versions(name, versions)
    if not identity.workers:
        raise ConnectError("no-workers-of-gateway" if target.gateway_cluster else "no-workers", address=target.address)
    return identity


async def _ask_or_diagnose(target: Target) -> tuple[Identity, _Versions, dict[str, _Versions]]:
    asking = asyncio.create_task(_ask(target))
    try:
        await asyncio.wait({asking}, timeout=_DIAGNOSIS_DELAY)
        problem = None if asking.done() else await diagnose(target, is_slow=True)
        if problem is not None:
            raise problem
        await asyncio.wait({asking})
        error = asking.exception()
        if error is None:
            return asking.result()
        is_other_program = isinstance(error, AnswerError | ValidationError)
        problem = (
            refused_operation(target, error)
            or _of_socket(target, error)
            or await diagnose(target, is_slow=is_other_program)
        )
        if problem is None and is_other_program:
            problem = ConnectError("not-a-scheduler", address=target.address)
        reason = f"{type(error).__name__}: {error}".rstrip(".")
        raise problem or ConnectError("connection-failed", address=target.address, error=reason)
    finally:
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)


async def _ask(target: Target) -> tuple[Identity, _Versions, dict[str, _Versions]]:
    packages = ["jupyter_gpudask"]
    async with _connect_as_client(target) as comm:
        identity = Identity.model_validate(await _ask_for(comm, "identity"))
        versions = _Versions.model_validate(await _ask_for(comm, "versions", packages=packages))
        message = {"op": "versions", "packages": packages}
        workers = _versions_of_workers.validate_python(
            await _ask_for(comm, "broadcast", msg=message, on_error="ignore")
        )
    return identity, versions, {f"the worker {address}": found for address, found in workers.items()}


def _check_versions(name: str, found: _Versions) -> None:
    here, there = platform.python_version_tuple()[:2], tuple(found.host.python.split(".")[:2])
    if here != there:
        raise ConnectError("other-version", name="Python", here=".".join(here), where=name, there=".".join(there))
    for package in _PACKAGES:
        other = found.packages.get(package)
        if other is None:
            raise ConnectError("package-missing", where=name, name=package, here=version(package))
        if other != version(package):
            raise ConnectError("other-version", name=package, here=version(package), where=name, there=other)


def refused_operation(target: Target, error: BaseException) -> ConnectError | None:
    """The error to raise if a scheduler or a worker refuses an operation by its setting; `None` for another error."""
    match = _BLOCKED.search(str(error))
    if match is None:
        return None
    side = "scheduler" if match["where"] == "Scheduler" else "worker"
    return ConnectError("operation-refused", address=target.address, side=side, operation=match["operation"])


def _of_socket(target: Target, error: BaseException) -> ConnectError | None:
    """The error to raise if a Unix socket cannot be used; `None` for another error, and without a socket."""
    if not (target.is_socket and isinstance(error, CommClosedError)):
        return None
    is_of_other_user = isinstance(error, FatalCommClosedError) or isinstance(error.__cause__, PermissionError)
    return ConnectError("socket-of-other-user" if is_of_other_user else "socket-gone", address=target.address)


async def diagnose(target: Target, *, is_slow: bool) -> ConnectError | None:
    """The error that an attempt of a few seconds shows; `None` if it shows none, and for a Unix socket.

    `is_slow`: whether it may just be slow: that it does not respond is then no error.
    """
    if target.is_socket:
        return None
    address, (host, port) = target.address, target.host_and_port
    try:
        async with asyncio.timeout(_OPEN_TIMEOUT):
            other = await _protocol_of(host, port)
    except TimeoutError:
        return None if is_slow else ConnectError("silent", address=address)
    except OSError as failure:
        reason = os.strerror(failure.errno) if failure.errno and failure.errno > 0 else failure.strerror or failure
        return ConnectError("unreachable", address=address, error=reason)
    if target.gateway_cluster:  # its proxy chooses the scheduler by a name that only Dask's connection has
        return None
    if other == "tls" and target.uses_tls:
        refusal = await _refusal(target, host, port)
        error = ConnectError("other-credentials", source=target.source, address=address, error=refusal)
        return error if refusal else None
    return None if other == "silent" and is_slow else _mismatch(address, other, target.uses_tls)


def _mismatch(address: str, other: str, uses_tls: bool) -> ConnectError | None:
    match other, uses_tls:
        case "silent", _:
            return ConnectError("silent", address=address)
        case "other", _:
            return ConnectError("not-a-scheduler", address=address)
        case "plain", True:
            return ConnectError("no-tls", address=address, tcp=f"tcp{address.removeprefix('tls')}")
        case "tls", False:
            return ConnectError("uses-tls", address=address, tls=f"tls{address.removeprefix('tcp')}")
    return None


async def _protocol_of(host: str, port: int) -> Literal["plain", "tls", "other", "silent"]:
    """What listens at a port: Dask without TLS, which speaks first, something with TLS, or another program."""
    async with _open_connection(host, port) as reader:
        with contextlib.suppress(TimeoutError, ConnectionError):
            async with asyncio.timeout(_READ_TIMEOUT):
                if await reader.read(1):
                    return "plain"
    trusting = ssl.create_default_context()
    trusting.check_hostname, trusting.verify_mode = False, ssl.CERT_NONE
    try:
        async with asyncio.timeout(_TLS_TIMEOUT), _open_connection(host, port, trusting):
            return "tls"
    except ssl.SSLEOFError:
        return "silent"
    except ssl.SSLError as error:  # it may speak TLS, and require a certificate
        return "other" if error.reason in _NOT_TLS else "tls"
    except (TimeoutError, OSError):
        return "silent"


async def _refusal(target: Target, host: str, port: int) -> str:
    """Why TLS with the credentials of `target` fails; empty if it does not."""
    assert target.security is not None
    context = target.security.get_connection_args("client")["ssl_context"]
    try:
        async with asyncio.timeout(_OPEN_TIMEOUT), _open_connection(host, port, context) as reader:
            await reader.read(1)  # since TLS 1.3 a refused certificate shows on the first read
    except ssl.SSLCertVerificationError as error:
        return error.verify_message
    except ssl.SSLError as error:
        return (error.reason or str(error)).replace("_", " ").lower()
    except (TimeoutError, OSError):
        return ""
    return ""


@contextlib.asynccontextmanager
async def _open_connection(
    host: str, port: int, context: ssl.SSLContext | None = None
) -> AsyncIterator[asyncio.StreamReader]:
    try:
        reader, writer = await asyncio.open_connection(host, port, ssl=context)
    except BaseException:
        await asyncio.sleep(0)  # the transport of a failed handshake is closed in the next turn of the event loop
        raise
    try:
        yield reader
    finally:
        writer.transport.abort()  # `close` would wait for the other side
        with contextlib.suppress(OSError):
            await writer.wait_closed()


class AnswerError(Exception):
    """What was received is not an answer of a Dask scheduler."""


class RefusalError(Exception):
    """The scheduler answers with an error, whose text this is."""


@contextlib.asynccontextmanager
async def _connect_as_client(target: Target) -> AsyncIterator[Comm]:
    """Connect once; nothing is tried again."""
    scheme, location = parse_address(target.address)
    arguments = {} if target.security is None else target.security.get_connection_args("client")
    comm = await get_backend(scheme).get_connector().connect(location, deserialize=False, **arguments)
    try:
        await comm.write(comm.handshake_info())
        await _read(comm)
        yield comm
    finally:
        comm.abort()


async def _ask_for(comm: Comm, operation: str, **arguments: object) -> Any:
    """Ask for an operation of the scheduler; its answer, of whatever type."""
    await comm.write({"op": operation, "reply": True, **arguments})
    answer = await _read(comm)
    if isinstance(answer, dict) and answer.get("status") in ("error", "uncaught-error"):
        raise RefusalError(str(answer.get("exception_text")))
    return answer


async def _read(comm: Any) -> Any:
    """Read a message. Source: `distributed.comm.tcp.TCP.read` and `distributed.protocol.core.loads`."""
    try:
        frames, missing = unpack_frames(
            await _read_bytes(comm, *_LENGTH.unpack(await _read_bytes(comm, 8))), partial=True
        )
        await _read_bytes(comm, sum(missing))  # of what is pickled
        return msgpack.loads(frames[0], use_list=False, **msgpack_opts)
    except (ValueError, TypeError, IndexError, struct.error) as error:
        raise AnswerError from error


async def _read_bytes(comm: Any, size: int) -> bytes:
    if size > _MAX_BYTES:
        raise AnswerError
    content: bytes = await comm.stream.read_bytes(size)
    return content
