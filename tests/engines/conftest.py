"""Fixtures: Jupyter servers whose clusters are started elsewhere, on engines that run on this machine."""

import os
import tempfile
from pathlib import Path

import pytest
from helpers import wait_until
from servers import Server, kernel_of
from slurm import Slurm, missing_programs

JOB = {"class": "dask_jobqueue.SLURMCluster", "start_timeout": 90}
OPTIONS = {"cores": 1, "memory": "300MB", "walltime": "00:30:00"}
PRESETS = {
    "slurm": JOB | {"options": OPTIONS},
    "short": JOB | {"options": OPTIONS | {"walltime": "00:01:00"}},
    "no-queue": JOB | {"options": OPTIONS | {"queue": "nowhere"}},
    "too-large": JOB | {"options": OPTIONS | {"memory": "900GB"}},
    "no-interface": JOB | {"options": OPTIONS | {"interface": "ib0"}},
    "no-option": JOB | {"options": OPTIONS | {"no_option": 1, "account": "a-secret"}},
    "failing": JOB | {"options": OPTIONS | {"worker_extra_args": ["--no-such-option"]}},
    "later": JOB | {"start_timeout": 5, "options": OPTIONS | {"job_extra_directives": ["--begin=now+1hour"]}},
}


@pytest.fixture(scope="session")
def slurm():
    """A SLURM for all tests."""
    if missing := missing_programs():
        pytest.skip(f"{', '.join(missing)} are missing: run make test-engines")
    with tempfile.TemporaryDirectory(prefix="slurm-") as folder:  # short: a path of a socket has at most 108 characters
        slurm = Slurm(Path(folder))
        try:
            yield slurm
        finally:
            slurm.stop()


@pytest.fixture(scope="module")
def server(slurm, tmp_path_factory):
    """A server from which jobs are submitted, with a home directory of its own."""
    folder = tmp_path_factory.mktemp("server")
    (folder / "home").mkdir()
    environment = {**os.environ, **slurm.environment, "HOME": str(folder / "home")}
    server = Server(folder, f"--GpuDask.presets={PRESETS!r}", environment=environment)
    server.home = folder / "home"
    yield server
    server.stop()


@pytest.fixture
def kernel(slurm, server):
    """A kernel with the magics; after the test no job is left, and nothing in the directory that jobs share."""
    with kernel_of(server) as kernel:
        yield kernel
    wait_until(lambda: slurm.jobs() == {}, 90)
    assert list((server.home / ".cache" / "jupyter_gpudask").glob("*")) == []
