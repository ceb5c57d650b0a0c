"""Kernels that several files share, because most of the time of a test would be that of its start.

A test puts back what it changes in them. They have folders of their own for leases and clusters, so that the kernels of
other tests may use the same pretend GPUs.
"""

import pytest
from helpers import Kernel, fake_gpu_environment, kernel_with_cupy


def own_folders(tmp_path_factory):
    return {name: str(tmp_path_factory.mktemp("shared")) for name in ("TMPDIR", "JUPYTER_RUNTIME_DIR")}


@pytest.fixture(scope="package")
def cupy_kernel(tmp_path_factory):
    """A kernel with a cluster on two pretend GPUs, of which each adds 1 Wh whenever its energy counter is read."""
    with kernel_with_cupy(gpus=2, FAKE_ENERGY="3600", **own_folders(tmp_path_factory)) as kernel:
        kernel.ok("import dask, dask.config, os, time\nimport numpy as np")
        yield kernel


@pytest.fixture(scope="package")
def gpu_kernel(tmp_path_factory):
    """A kernel with a cluster on one pretend GPU, whose libraries are empty modules."""
    kernel = Kernel(fake_gpu_environment(FAKE_GPUS="1", **own_folders(tmp_path_factory)))
    kernel.ok("%load_ext jupyter_gpudask\nstarted = %gpudask start\nclient = started.client\nimport dask.config")
    yield kernel
    kernel.shutdown()


@pytest.fixture(scope="package")
def cpu_kernel(tmp_path_factory):
    """A kernel on a machine without a GPU."""
    kernel = Kernel(
        fake_gpu_environment(FAKE_NVML_ERROR="LIBRARY_NOT_FOUND", FAKE_GPU_PACKAGES="", **own_folders(tmp_path_factory))
    )
    kernel.ok("%load_ext jupyter_gpudask\nimport dask, os, signal, threading, time")
    yield kernel
    kernel.shutdown()


@pytest.fixture
def without_cluster(cpu_kernel):
    cpu_kernel.ok("%gpudask stop")
    yield cpu_kernel
    cpu_kernel.ok("%gpudask stop")


@pytest.fixture
def with_cluster(cpu_kernel):
    """The kernel with a cluster of one worker, which the next test uses, too, unless this one ends it."""
    cpu_kernel.ok("started = %gpudask start --cpu 1 --threads 2\nclient = started.client")
    return cpu_kernel
