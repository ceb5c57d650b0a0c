"""Fixtures: Jupyter servers."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest
from helpers import pids_of_session, wait_until
from servers import Server


@pytest.fixture(scope="module")
def server_in(tmp_path_factory):
    """Start a server shared by the tests of a file, with an environment and command-line options."""
    servers = []

    def make(environment=lambda _: dict(os.environ), options=()):
        folder = Path(tempfile.mkdtemp(dir=tmp_path_factory.getbasetemp()))
        servers.append(Server(folder, *options, environment=environment(folder)))
        return servers[-1]

    yield make
    for server in servers:
        server.stop()


@pytest.fixture(scope="module")
def server(server_in):
    """A server shared by the tests of a file."""
    return server_in()


@pytest.fixture
def kernel(server):
    """A kernel of the shared server, which is shut down after the test."""
    kernel = server.kernel()
    yield kernel
    kernel.disconnect()
    server.fetch(f"kernels/{kernel.id}", "DELETE", prefix="api/")


@pytest.fixture
def own_server(tmp_path):
    """Start a server for one test, with command-line options."""
    servers = []

    def make(*options, environment=None):
        servers.append(Server(tmp_path, *options, environment=environment))
        return servers[-1]

    yield make
    for server in servers:
        server.stop()


@pytest.fixture
def gone():
    """Wait until the process sessions of these supervisors have no processes."""

    def wait(*supervisors, limit=30):
        return wait_until(lambda: not any(pids_of_session(pid) for pid in supervisors), limit)

    return wait
