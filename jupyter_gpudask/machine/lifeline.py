"""End processes with their parent: a supervisor with the process that started it, workers with the supervisor."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import threading
import time
from collections.abc import Callable
from multiprocessing import util

import psutil

_PR_SET_PDEATHSIG = 1
_GRACE = 1.5
_END_LIMIT = 2.0
_POLL = 0.02

_exit_callbacks: list[Callable[[], None]] = []


def watch_parent(parent: int) -> None:
    """End this session if it still runs `_GRACE` seconds after `parent` is no longer the parent of this process.

    The end of stdin shows it sooner, unless a process that the parent forked holds the pipe open or the event loop is
    busy. This thread depends on neither.
    """
    threading.Thread(target=_wait_for_parent, args=(parent,), name="gpudask-parent-watch", daemon=True).start()


def _wait_for_parent(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(0.25)
    if signal.getsignal(signal.SIGTERM) != signal.SIG_DFL:  # else there is no event loop yet, and it would end at once
        os.kill(os.getpid(), signal.SIGTERM)  # ends gracefully if the event loop runs
        time.sleep(_GRACE)
    end_session()
    for callback in reversed(_exit_callbacks):
        with contextlib.suppress(Exception):  # the event loop may do the same at the same time
            callback()
    os._exit(1)


def on_forced_exit(callback: Callable[[], None]) -> None:
    """Call `callback`, in a thread, if this process is ended although its event loop did not end it."""
    _exit_callbacks.append(callback)


def end_session() -> None:
    """Kill all other processes of this session and all descendants, and wait until they have ended."""
    # Unlinks semaphores, which nobody else does once the resource tracker of `multiprocessing` is killed as well.
    util._run_finalizers(0)  # type: ignore[attr-defined] # noqa: SLF001
    me, session = os.getpid(), os.getsid(0)
    doomed = psutil.Process(me).children(recursive=True)
    if session == me:  # else this process was started by hand, in a session of others
        doomed += _processes_of(session)
    for process in doomed:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
    deadline, left = time.monotonic() + _END_LIMIT, set(doomed)
    while (left := {process for process in left if not _has_ended(process)}) and time.monotonic() < deadline:
        time.sleep(_POLL)


def _has_ended(process: psutil.Process) -> bool:
    """Whether a process has ended, and freed its memory; a child is reaped.

    A grandchild whose parent was killed as well stays a zombie until the machine's first process reaps it, which takes
    long in some containers. While a zombie still has threads, these use its memory, that of a GPU too.
    """
    try:
        process.wait(0)
    except psutil.TimeoutExpired:
        with contextlib.suppress(psutil.NoSuchProcess):
            return process.status() == psutil.STATUS_ZOMBIE and process.num_threads() <= 1
    return True


def kill_session(session: int) -> None:
    """Kill every process of a supervisor's session, in whatever process group it is.

    The supervisor must still exist, if only as a zombie; otherwise the session id may have been reused.
    """
    with contextlib.suppress(OSError):
        os.killpg(session, signal.SIGKILL)  # all at once, including processes that are just being forked
    for process in _processes_of(session):
        with contextlib.suppress(psutil.Error):
            process.kill()


def _processes_of(session: int) -> list[psutil.Process]:
    found = []
    for pid in psutil.pids():
        with contextlib.suppress(OSError, psutil.NoSuchProcess):
            if os.getsid(pid) == session and pid != os.getpid():
                found.append(psutil.Process(pid))
    return found


def die_with_parent() -> None:
    """Let Linux kill this process when the thread that started it ends, even if it is stuck in compiled code.

    Source: prctl(2), PR_SET_PDEATHSIG.
    """
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
