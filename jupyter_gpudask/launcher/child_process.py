"""A child process with three pipes, started and awaited in threads so that the event loop never blocks."""

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
    """Like `asyncio.subprocess.Process`, but started in a thread.

    `asyncio.create_subprocess_exec` forks in the event loop, which blocks until the program runs.

    Attributes
    ----------
    pid
        The process id, which is also the session id; it is not reused before `wait` returns.
    stdin, stdout, stderr
        The pipes.
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
            Environment variables, by default those of this process.
        limit
            The maximum length of a line that is read from it, in bytes.

        Raises
        ------
        OSError
            It cannot be started. Nothing is left behind, nor if this is cancelled.
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
        """The exit status, as in `subprocess.Popen`; `None` while it runs."""
        return self._ended.result() if self._ended.done() else None

    async def ended(self) -> None:
        """Wait until it has ended; its pid stays reserved."""
        await asyncio.wrap_future(self._ended)

    async def wait(self) -> None:
        """Wait until it has ended, and release its pid."""
        await self.ended()
        self._process.wait()

    async def kill(self) -> None:
        """Kill it."""
        self._process.kill()
        await self.wait()
        self.close()

    def close(self) -> None:
        """Close its pipes."""
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
    """Start the process; a future has its exit status when it has ended."""
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
    ended.set_running_or_notify_cancel()  # cancelling a wait does not cancel it
    waiting = threading.Thread(
        target=lambda: ended.set_result(_wait_for_end(process)), name="gpudask-wait", daemon=True
    )
    waiting.start()
    return process, ended


def _wait_for_end(process: subprocess.Popen[bytes]) -> int:
    """Wait for the exit status, and leave a zombie, so that Linux does not reuse the pid and the session id."""
    try:
        end = os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    except ChildProcessError:  # other code has waited for all children of this process
        end = None
    if end is None:
        return process.wait()
    return end.si_status if end.si_code == os.CLD_EXITED else -end.si_status
