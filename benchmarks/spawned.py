"""A spawned process that answers over a pipe, so that a crash or a standstill costs one answer and no more."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable


class SpawnedProcess:
    """A process that runs ``serve(pipe, *arguments)``; it is made again after it was lost.

    Parameters
    ----------
    serve
        A function of a module. It sends one message when it is ready.
    arguments
        What it is called with, after its end of the pipe.
    daemon
        Whether the process ends with this one, and has no children by `multiprocessing`. Otherwise `serve` calls
        `os.setsid`, and what the process has started is ended with it.
    """

    def __init__(self, serve: Callable[..., None], *arguments: Any, daemon: bool = False) -> None:
        self._serve, self._arguments, self._daemon = serve, arguments, daemon
        self._process: Any = None
        self._pipe: Any = None

    @property
    def exists(self) -> bool:
        """Whether it was started, and not closed since."""
        return self._process is not None

    def start(self, limit: float) -> None:
        """Make the process, if there is none, and wait at most `limit` seconds until it is ready.

        Raises
        ------
        TimeoutError, EOFError, OSError
            It takes longer, or ends.
        """
        if self._process is not None:
            return
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        process = context.Process(target=self._serve, args=(theirs, *self._arguments), daemon=self._daemon)
        process.start()
        self._process = process
        theirs.close()
        self.receive(limit)

    def send(self, message: Any) -> None:
        """Send a message to it."""
        self._pipe.send(message)

    def receive(self, limit: float) -> Any:
        """Its next message.

        Raises
        ------
        TimeoutError, EOFError, OSError
            It takes over `limit` seconds, or ends.
        """
        if not self._pipe.poll(limit):
            raise TimeoutError
        return self._pipe.recv()

    def exit_code(self, limit: float) -> int | None:
        """Its exit code, as of `multiprocessing`; `None` if it does not end in `limit` seconds, or could not start."""
        if self._process is None:
            return None
        self._process.join(limit)
        code: int | None = self._process.exitcode
        return code

    def close(self) -> None:
        """End it, and what it has started."""
        if self._process is not None:
            if not self._daemon:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(self._process.pid, signal.SIGKILL)
            self._process.kill()
            self._process.join()
            self._pipe.close()
            self._process = None
