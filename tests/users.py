"""Processes of several users, and a directory in which they hold GPUs."""

import os
import shutil
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path

import pytest

from jupyter_gpudask.machine.lease_registry import LeaseRegistry

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can start processes of other users")
ANNA, BERT = 65534, 54321  # the second has no name
SINCE = r"since \d\d:\d\d( of [\d-]+)?"  # with the day, if midnight has just passed
UUID = "GPU-00000000-1111-2222-3333-444444444444"  # of fake_gpus

# A process of another user, which imports what it needs before it is one.
PROCESS = """
import fcntl, json, os, pathlib, sys
from jupyter_gpudask.machine.lease_registry import LeaseRegistry
from jupyter_gpudask.machine.leases import LeaseFolder
uid, registry, own = int(sys.argv[1]), pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3])
os.chown(own, uid, uid)
os.setgroups([])
os.setresgid(uid, uid, uid)
os.setresuid(uid, uid, uid)
leases = LeaseFolder(own, LeaseRegistry(registry))
"""


@contextmanager
def lease_registry():
    """A directory as an administrator makes it, where other users reach it."""
    path = Path(tempfile.mkdtemp(dir="/tmp"))
    path.chmod(0o1777)
    try:
        yield LeaseRegistry(path)
    finally:
        shutil.rmtree(path)


@contextmanager
def process_of(uid, registry, script, prefix=(), imports=""):
    """A process of another user, which has `leases` and runs `script`; what this imports, `imports` must have named."""
    own = Path(tempfile.mkdtemp(dir="/tmp"))
    command = [
        *prefix,
        sys.executable,
        "-c",
        f"{imports}{PROCESS}UUID = {UUID!r}\n{script}",
        str(uid),
        str(registry.path),
        str(own),
    ]
    try:
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
            try:
                yield process
            finally:
                process.kill()
    finally:
        shutil.rmtree(own)
