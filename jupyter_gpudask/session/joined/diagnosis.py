"""Find out why a connection to a scheduler fails: nothing listens, TLS on one side only, or wrong credentials."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import ssl
from typing import TYPE_CHECKING, Literal

from ...errors import ConnectError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from .target import Target

_OPEN_TIMEOUT = 10.0
_TLS_TIMEOUT = 5.0
_READ_TIMEOUT = 2.0

# The reasons of OpenSSL for an answer that is no TLS; they differ between its releases.
_NOT_TLS = frozenset({"WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "PACKET_LENGTH_TOO_LONG", "HTTP_REQUEST"})

# The error that `distributed.core.Server` raises for an operation of its setting `blocked-handlers`.
_BLOCKED = re.compile(r"The '(?P<operation>[\w-]+)' handler has been explicitly disallowed in (?P<where>\w+)")


def refused_operation(target: Target, error: BaseException) -> ConnectError | None:
    """The error to raise if a scheduler or a worker refuses an operation by its setting; `None` for another error."""
    match = _BLOCKED.search(str(error))
    if match is None:
        return None
    side = "scheduler" if match["where"] == "Scheduler" else "worker"
    return ConnectError("operation-refused", address=target.address, side=side, operation=match["operation"])


async def diagnose(target: Target, *, is_slow: bool) -> ConnectError | None:
    """The error that an attempt of a few seconds shows; `None` if it shows none.

    Parameters
    ----------
    target
        The scheduler.
    is_slow
        Whether it may just be slow: that it does not respond is then no error.
    """
    address, (host, port) = target.address, target.host_and_port
    try:
        async with asyncio.timeout(_OPEN_TIMEOUT):
            other = await _protocol_of(host, port)
    except TimeoutError:
        return None if is_slow else _silence(address)
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno and error.errno > 0 else error.strerror or error
        return ConnectError("unreachable", address=address, error=reason)
    if target.gateway_cluster:  # its proxy chooses the scheduler by a name that only Dask's connection has
        return None
    if other == "tls" and target.uses_tls:
        return await _try_credentials(target, host, port)
    if other == "silent":
        return None if is_slow else _silence(address)
    return _mismatch(address, other, target.uses_tls)


def not_a_scheduler(address: str) -> ConnectError:
    """The error to raise for another program, such as a web server."""
    return ConnectError("not-a-scheduler", address=address)


def _silence(address: str) -> ConnectError:
    return ConnectError("silent", address=address)


def _mismatch(address: str, other: str, uses_tls: bool) -> ConnectError | None:
    match other, uses_tls:
        case "other", _:
            return not_a_scheduler(address)
        case "plain", True:
            return ConnectError("no-tls", address=address, tcp=f"tcp{address.removeprefix('tls')}")
        case "tls", False:
            return ConnectError("uses-tls", address=address, tls=f"tls{address.removeprefix('tcp')}")
    return None


async def _try_credentials(target: Target, host: str, port: int) -> ConnectError | None:
    refusal = await _refusal(target, host, port)
    if not refusal:
        return None
    return ConnectError("other-credentials", source=target.source, address=target.address, error=refusal)


async def _protocol_of(host: str, port: int) -> Literal["plain", "tls", "other", "silent"]:
    """What listens at a port: Dask without TLS, which speaks first, something with TLS, or another program."""
    async with _connected(host, port) as reader:
        with contextlib.suppress(TimeoutError, ConnectionError):
            async with asyncio.timeout(_READ_TIMEOUT):
                if await reader.read(1):
                    return "plain"
    trusting = ssl.create_default_context()
    trusting.check_hostname, trusting.verify_mode = False, ssl.CERT_NONE
    try:
        async with asyncio.timeout(_TLS_TIMEOUT), _connected(host, port, trusting):
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
        async with asyncio.timeout(_OPEN_TIMEOUT), _connected(host, port, context) as reader:
            await reader.read(1)  # since TLS 1.3 a refused certificate shows on the first read
    except ssl.SSLCertVerificationError as error:
        return error.verify_message
    except ssl.SSLError as error:
        return (error.reason or str(error)).replace("_", " ").lower()
    except (TimeoutError, OSError):
        return ""
    return ""


@contextlib.asynccontextmanager
async def _connected(
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
