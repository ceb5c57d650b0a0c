"""Nothing outlives its parent: the supervisor ends with what started it, and workers end with the supervisor."""

from __future__ import annotations

import ctypes
import os
import signal
import threading
import time

import psutil

_PR_SET_PDEATHSIG = 1
_GRACE = 2.0


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
    os._exit(1)


def end_session() -> None:
    """Kill every other process of this session, and every descendant, and wait until they are gone."""
    me, session = os.getpid(), os.getsid(0)
    doomed = {child.pid: child for child in psutil.Process(me).children(recursive=True)}
    if session == me:  # else the session is that of whoever ran us by hand
        for process in psutil.process_iter():
            try:
                if os.getsid(process.pid) == session and process.pid != me:
                    doomed[process.pid] = process
            except OSError:
                continue
    for process in doomed.values():
        try:
            process.kill()
        except psutil.NoSuchProcess:
            continue
    psutil.wait_procs(doomed.values(), timeout=2)


def die_with_parent() -> None:
    """Have Linux kill this process when the thread that started it ends, even if it is stuck in compiled code.

    Source: prctl(2), PR_SET_PDEATHSIG. Elsewhere this does nothing, and Dask's own watch of the parent remains.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    if hasattr(libc, "prctl"):
        libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
