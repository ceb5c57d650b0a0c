"""A process with three pipes that threads start and wait for, not the loop."""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
import threading
from concurrent.futures import Future
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import IO


class ChildProcess:
    """What `asyncio.subprocess.Process` is, but for the start.

    `asyncio.create_subprocess_exec` forks on the loop, which stands still until the program runs.

    Attributes
    ----------
    pid
        Its process id, which is also the id of its session; no other process gets it before `wait` returns.
    stdin, stdout, stderr
        Its pipes.
    """

    stdin: asyncio.StreamWriter
    stdout: asyncio.StreamReader
    stderr: asyncio.StreamReader

    def __init__(self, process: subprocess.Popen[bytes], ended: Future[int]) -> None:
        self.pid = process.pid
        self._process = process
        self._ended = ended
        self._transports: list[asyncio.BaseTransport] = []

    @classmethod
    async def start(cls, command: Sequence[str], environment: Mapping[str, str] | None, *, limit: int) -> Self:
        """Start `command` in a session of its own.

        Parameters
        ----------
        command
            The program and its arguments.
        environment
            Its variables, by default those of this process.
        limit
            Bytes of the longest line that can be read from it.

        Raises
        ------
        OSError
            It cannot be started. Nothing is left behind, as when this is cancelled.
        """
        starting = asyncio.create_task(cls._start(command, environment, limit))
        try:
            return await asyncio.shield(starting)
        except asyncio.CancelledError:
            with contextlib.suppress(OSError):
                await (await starting).kill()
            raise

    @property
    def returncode(self) -> int | None:
        """How it ended, as `subprocess.Popen` says it; `None` while it runs."""
        return self._ended.result() if self._ended.done() else None

    async def ended(self) -> None:
        """Wait until it has ended; its pid is still its own."""
        await asyncio.wrap_future(self._ended)

    async def wait(self) -> None:
        """Wait until it has ended, and let go of its pid."""
        await self.ended()
        self._process.wait()

    async def kill(self) -> None:
        """End it by force."""
        self._process.kill()
        await self.wait()
        self.close()

    def close(self) -> None:
        """Let go of its pipes."""
        for transport in self._transports:
            transport.close()

    @classmethod
    async def _start(cls, command: Sequence[str], environment: Mapping[str, str] | None, limit: int) -> Self:
        process, ended = await asyncio.to_thread(_begin, command, environment)
        child = cls(process, ended)
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        child.stdin = await child._writer(process.stdin)
        child.stdout = await child._reader(process.stdout, limit)
        child.stderr = await child._reader(process.stderr, limit)
        return child

    async def _writer(self, pipe: IO[bytes]) -> asyncio.StreamWriter:
        loop = asyncio.get_running_loop()
        transport, protocol = await loop.connect_write_pipe(
            lambda: asyncio.StreamReaderProtocol(asyncio.StreamReader()), pipe
        )
        self._transports.append(transport)
        return asyncio.StreamWriter(transport, protocol, None, loop)

    async def _reader(self, pipe: IO[bytes], limit: int) -> asyncio.StreamReader:
        reader = asyncio.StreamReader(limit)
        loop = asyncio.get_running_loop()
        transport, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), pipe)
        self._transports.append(transport)
        return reader


def _begin(
    command: Sequence[str], environment: Mapping[str, str] | None
) -> tuple[subprocess.Popen[bytes], Future[int]]:
    """The process, and how it will have ended."""
    pipe = subprocess.PIPE
    process = subprocess.Popen(  # noqa: S603 - the kernel's own interpreter
        command,
        stdin=pipe,
        stdout=pipe,
        stderr=pipe,
        bufsize=0,
        env=environment,
        start_new_session=True,  # so that an interrupt of the kernel's process group does not reach it
    )
    ended: Future[int] = Future()
    ended.set_running_or_notify_cancel()  # who no longer waits for it does not cancel it
    waiting = threading.Thread(
        target=lambda: ended.set_result(_wait_for_end(process)), name="gpudask-wait", daemon=True
    )
    waiting.start()
    return process, ended


def _wait_for_end(process: subprocess.Popen[bytes]) -> int:
    """How it ended; it is left a zombie, so that Linux gives its pid, and the id of its session, to nobody else."""
    try:
        end = os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    except ChildProcessError:  # somebody has waited for all children of this process
        end = None
    if end is None:
        return process.wait()
    return end.si_status if end.si_code == os.CLD_EXITED else -end.si_status
