"""Nothing outlives its parent: the supervisor ends with what started it, and workers end with the supervisor."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import threading
import time
from typing import TYPE_CHECKING

import psutil

if TYPE_CHECKING:
    from collections.abc import Callable

_PR_SET_PDEATHSIG = 1
_GRACE = 2.0

_last_acts: list[Callable[[], None]] = []


def watch_parent(parent: int) -> None:
    """End this session when process `parent` is no longer our parent, `_GRACE` seconds after its death at the latest.

    The end of stdin says the same and sooner; but a process that the parent forked may hold the pipe open, and the
    event loop may be busy. This is a thread, and needs neither.
    """
    threading.Thread(target=_wait_for_parent, args=(parent,), name="gpudask-parent-watch", daemon=True).start()


def _wait_for_parent(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(0.25)
    os.kill(os.getpid(), signal.SIGTERM)  # the graceful way, if the loop still turns
    time.sleep(_GRACE)
    end_session()
    for act in _last_acts:
        with contextlib.suppress(Exception):  # the loop may be at the same, and this process has no time left
            act()
    os._exit(1)


def on_forced_exit(act: Callable[[], None]) -> None:
    """Have `act` called, by a thread, when this process is ended because its loop did not end it."""
    _last_acts.append(act)


def end_session() -> None:
    """Kill every other process of this session, and every descendant, and wait until they are gone."""
    me, session = os.getpid(), os.getsid(0)
    doomed = psutil.Process(me).children(recursive=True)
    if session == me:  # else the session is that of whoever ran us by hand
        doomed += _processes_of(session)
    for process in doomed:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
    psutil.wait_procs(set(doomed), timeout=2)


def kill_session(session: int) -> None:
    """Kill what a supervisor has left: every process of its session, whatever its process group is.

    The supervisor must be there, if only as a zombie: else the session may be another's.
    """
    with contextlib.suppress(OSError):
        os.killpg(session, signal.SIGKILL)  # all in one go, also those that are just being forked
    for process in _processes_of(session):
        with contextlib.suppress(psutil.Error):
            process.kill()


def _processes_of(session: int) -> list[psutil.Process]:
    """Those of a session, without this process."""
    found = []
    for pid in psutil.pids():
        with contextlib.suppress(OSError, psutil.NoSuchProcess):
            if os.getsid(pid) == session and pid != os.getpid():
                found.append(psutil.Process(pid))
    return found


def die_with_parent() -> None:
    """Have Linux kill this process when the thread that started it ends, even if it is stuck in compiled code.

    Source: prctl(2), PR_SET_PDEATHSIG. Elsewhere this does nothing, and Dask's own watch of the parent remains.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    if hasattr(libc, "prctl"):
        libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
