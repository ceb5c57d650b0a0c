"""A process that loses its parent cleans up, also before it has an event loop."""

import subprocess
import sys

import pytest
from helpers import wait_until

CHILD = """
import os, pathlib, signal, sys, time
from jupyter_gpudask.machine.lifeline import on_forced_exit, watch_parent
os.setsid()
on_forced_exit(pathlib.Path(sys.argv[1]).touch)
if sys.argv[2] == "busy":
    signal.signal(signal.SIGTERM, lambda *_: None)
watch_parent(os.getppid())
print(flush=True)
time.sleep(60)
"""
PARENT = "import subprocess, sys; subprocess.Popen(sys.argv[1:], stdout=subprocess.PIPE).stdout.readline()"


@pytest.mark.parametrize("state", ["starting", "busy"])
def test_what_a_process_made_is_removed_although_it_handles_no_signal(tmp_path, state):
    removed = tmp_path / "removed"
    child = [sys.executable, "-c", CHILD, str(removed), state]
    subprocess.run([sys.executable, "-W", "ignore", "-c", PARENT, *child], check=True)
    wait_until(removed.exists)
