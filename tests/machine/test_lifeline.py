"""How the processes of a session are ended."""

import ctypes
import os
import subprocess
import sys

import psutil
import pytest
from helpers import slowdown

_PR_SET_CHILD_SUBREAPER = 36  # prctl(2)

LEADER = """
import subprocess, sys, time
from jupyter_gpudask.machine.lifeline import end_session
grandparent = "import signal, subprocess, sys;" \\
    "c = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)']);" \\
    "print(c.pid, flush=True); signal.pause()"  # and does not reap it
child = subprocess.Popen([sys.executable, "-c", grandparent], stdout=subprocess.PIPE, text=True)
grandchild = int(child.stdout.readline())
began = time.monotonic()
end_session()
print(child.pid, grandchild, time.monotonic() - began)
"""


@pytest.fixture
def reaps_nothing():
    """This process adopts orphans, and leaves them zombies, as the first process of some containers does."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_CHILD_SUBREAPER, 1):
        pytest.skip("orphans cannot be adopted here")
    yield
    libc.prctl(_PR_SET_CHILD_SUBREAPER, 0)


@pytest.mark.usefixtures("reaps_nothing")
def test_a_session_is_ended_without_waiting_for_somebody_to_reap_its_orphans():
    done = subprocess.run(
        [sys.executable, "-c", LEADER], start_new_session=True, capture_output=True, text=True, check=True, timeout=60
    )
    child, grandchild, seconds = done.stdout.split()
    assert not psutil.pid_exists(int(child))
    assert psutil.Process(int(grandchild)).status() == psutil.STATUS_ZOMBIE
    os.waitpid(int(grandchild), 0)
    assert float(seconds) < 1.5 * slowdown()
