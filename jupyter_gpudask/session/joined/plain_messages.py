"""Ask a scheduler before it is trusted: its answers are read without unpickling, so that they cannot run code here.

Dask unpickles parts of any message that it receives. The answers that are needed are plain MessagePack.
"""

from __future__ import annotations

import struct
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import msgpack
from distributed.comm.addressing import parse_address
from distributed.comm.registry import get_backend
from distributed.protocol.utils import msgpack_opts, unpack_frames

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from distributed.comm.core import Comm

    from .target import Target

_MAX_BYTES = 2**28  # thousands of workers
_LENGTH = struct.Struct("Q")


class AnswerError(Exception):
    """What was received is not an answer of a Dask scheduler."""


class RefusalError(Exception):
    """The scheduler answers with an error, whose text this is."""


@asynccontextmanager
async def connected(target: Target) -> AsyncIterator[Comm]:
    """Connect once; nothing is tried again.

    Raises
    ------
    OSError, AnswerError
        The connection failed.
    """
    scheme, location = parse_address(target.address)
    arguments = {} if target.security is None else target.security.get_connection_args("client")
    comm = await get_backend(scheme).get_connector().connect(location, deserialize=False, **arguments)
    try:
        await comm.write(comm.handshake_info())
        await _read(comm)
        yield comm
    finally:
        comm.abort()


async def ask(comm: Comm, operation: str, **arguments: object) -> Any:
    """Ask for an operation of the scheduler; its answer, of whatever type.

    Raises
    ------
    OSError, AnswerError, RefusalError
        There is no answer.
    """
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
