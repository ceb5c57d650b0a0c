"""Fixtures: kernels, and a temporary folder of the tests' own."""

from __future__ import annotations

import asyncio
import inspect
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from helpers import Kernel
from jupyter_core.utils import ensure_event_loop

sys.path.append(str(Path(__file__).parents[1] / "oracle"))  # which has tests, too


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


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem):
    """Run tests that are coroutines, each in an event loop of its own."""
    if inspect.iscoroutinefunction(pyfuncitem.obj):
        arguments = {name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames}
        asyncio.run(pyfuncitem.obj(**arguments))
        return True
    return None


@pytest.fixture
def kernel():
    """A kernel on this machine as it is."""
    kernel = Kernel()
    yield kernel
    kernel.shutdown()


@pytest.fixture
def short_directory():
    """One that other users can reach, if its mode allows it."""
    with tempfile.TemporaryDirectory(dir="/tmp") as path:
        yield Path(path)


@pytest.fixture
def run_python():
    """Run a script in a process of its own, and give what it printed."""

    def run(script: str, environment: dict[str, str] | None = None) -> str:
        return subprocess.run(
            [sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True, timeout=100
        ).stdout

    return run
