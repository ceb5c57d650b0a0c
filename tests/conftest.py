"""Fixtures: kernels, and a temporary folder of the tests' own."""

from __future__ import annotations

import subprocess
import sys
import tempfile

import pytest
from helpers import Kernel
from jupyter_core.utils import ensure_event_loop


@pytest.fixture(scope="session", autouse=True)
def own_temporary_folder(tmp_path_factory):
    """Clusters of these tests make their folders here, where no other process makes any."""
    patch = pytest.MonkeyPatch()
    patch.setenv("TMPDIR", str(tmp_path_factory.mktemp("tmp")))
    patch.setattr(tempfile, "tempdir", None)
    patch.setenv("JUPYTER_RUNTIME_DIR", str(tmp_path_factory.mktemp("runtime")))
    yield
    patch.undo()
    ensure_event_loop().close()  # jupyter_client's, for its blocking calls


@pytest.fixture
def kernel():
    """A kernel on this machine as it is."""
    kernel = Kernel()
    yield kernel
    kernel.shutdown()


@pytest.fixture
def run_python():
    """Run a script in a process of its own, and give what it printed."""

    def run(script: str, environment: dict[str, str] | None = None) -> str:
        return subprocess.run(
            [sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True, timeout=100
        ).stdout

    return run
