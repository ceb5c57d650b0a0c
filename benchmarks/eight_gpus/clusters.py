"""The clusters that are compared: one set up by hand, and ours over Unix sockets, TLS, plain TCP and UCX."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .works import Sizes

START_LIMIT = 120
# UCX moves data over NVLink only between allocations that another process can open: those of a pool that RMM has made
# with cudaMalloc, not those of CUDA's own pool, which is the default.
OPTIONS: dict[str, dict[str, Any]] = {
    "unix": {},
    "tls": {"protocol": "tcp"},
    "ucx": {"protocol": "ucx", "pool": 0.5},
    "ucx without pool": {"protocol": "ucx"},
    "tcp": {},
}


@contextmanager
def open_cluster(cluster: str, gpus: int, sizes: Sizes) -> Iterator[None]:
    """A cluster with `gpus` GPUs whose workers are all up, with Dask's backends set to `sizes.arrays` and `frames`."""
    with ExitStack() as stack:
        if cluster == "by hand":
            stack.enter_context(_by_hand(gpus, sizes))
        else:
            if cluster == "tcp":
                stack.enter_context(_plain_tcp(gpus))
            import jupyter_gpudask

            options = OPTIONS[cluster] if cluster == "tcp" else {"engine": "cuda", "gpus": gpus, **OPTIONS[cluster]}
            client = stack.enter_context(jupyter_gpudask.gpu(array=sizes.arrays, dataframe=sizes.frames, **options))
            found = len(client.scheduler_info(n_workers=-1)["workers"])
            assert found == gpus, f"{found} workers for {gpus} GPUs"
        yield


@contextmanager
def _by_hand(gpus: int, sizes: Sizes) -> Iterator[None]:
    import dask
    from dask_cuda import LocalCUDACluster
    from distributed import Client

    local = LocalCUDACluster(n_workers=gpus, pre_import="cudf,cupy", dashboard_address="127.0.0.1:0")
    with local as cluster, Client(cluster) as client:
        client.wait_for_workers(gpus, timeout=START_LIMIT)
        with dask.config.set({"array.backend": sizes.arrays, "dataframe.backend": sizes.frames}):
            yield


@contextmanager
def _plain_tcp(gpus: int) -> Iterator[None]:
    """Connect to a scheduler without TLS: jupyter_gpudask starts none itself."""
    from distributed import Client

    from jupyter_gpudask.machine.gpus import visible_gpus
    from jupyter_gpudask.session.session import process_session

    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        file = f"{folder}/scheduler.json"
        place = ["--host=127.0.0.1", "--dashboard-address=127.0.0.1:0", f"--scheduler-file={file}"]
        chosen = {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
        chosen["CUDA_VISIBLE_DEVICES"] = ",".join(gpu.uuid for gpu in visible_gpus()[:gpus])
        unseen = {"CUDA_VISIBLE_DEVICES": ""}
        stack.enter_context(_running("dask", "scheduler", "--port=0", *place, cwd=folder, variables=unseen))
        _wait_for(Path(file))
        stack.enter_context(_running("jupyter_gpudask", "worker", *place, cwd=folder, variables=chosen))
        with Client(scheduler_file=file, set_as_default=False, timeout=START_LIMIT) as client:
            client.wait_for_workers(gpus, timeout=START_LIMIT)
        session = process_session()
        session.connect({"scheduler_file": file}, lambda: None)
        try:
            yield
        finally:
            session.disconnect()


def _wait_for(file: Path) -> None:
    began = time.monotonic()
    while not (file.exists() and file.read_text()):
        if time.monotonic() - began > START_LIMIT:
            raise TimeoutError(f"the scheduler did not write {file} within {START_LIMIT} s")
        time.sleep(0.1)


@contextmanager
def _running(module: str, *arguments: str, cwd: str, variables: dict[str, str]) -> Iterator[None]:
    command = [sys.executable, "-P", "-m", module, *arguments]
    process = subprocess.Popen(command, cwd=cwd, env=os.environ | variables)
    try:
        yield
    finally:
        process.terminate()
        try:
            process.wait(15)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
