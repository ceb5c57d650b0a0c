"""Real processes for the tests, and a look at what they leave behind."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil
import pytest
from jupyter_client.manager import KernelManager
from jupyter_core.utils import ensure_event_loop

FAKE_GPUS = Path(__file__).parent / "fake_gpus"
FAKE_CUPY = Path(__file__).parent / "fake_cupy"

# `GPUDASK_TEST_ENGINE=cuda pytest server` gives the clusters of the server's tests real GPUs.
ON_GPUS = os.environ.get("GPUDASK_TEST_ENGINE") == "cuda"
ONE_WORKER = {"engine": "cuda", "gpus": 1, "share": True} if ON_GPUS else {"engine": "cpu", "workers": 1}
START_ONE = f"%gpudask start {'--gpus 1 --share yes' if ON_GPUS else '--cpu 1'}"
without_gpus = pytest.mark.skipif(ON_GPUS, reason="what is so on the CPU, or where there is no GPU")


def fake_gpu_environment(*, cupy: bool = False, **settings: str) -> dict[str, str]:
    """Variables of a process that shall see GPUs which are not there; see fake_gpus/sitecustomize.py.

    With `cupy` it has the stand-in for CuPy, which computes, and not an empty module of that name.
    """
    folders = [str(FAKE_GPUS), str(FAKE_CUPY) if cupy else "", os.environ.get("PYTHONPATH", "")]
    path = os.pathsep.join(filter(None, folders))
    visible = {name: value for name, value in os.environ.items() if name != "CUDA_VISIBLE_DEVICES"}  # real GPUs
    return {**visible, "PYTHONPATH": path, **settings}


def pids_of_session(session: int) -> list[int]:
    """Processes of the session that a supervisor leads, but for zombies.

    A killed one is a zombie as soon as its first thread has ended. Its others may need a second to give device memory
    back; until then it has its ports still, and counts.
    """
    pids = []
    for process in psutil.process_iter():
        try:
            if os.getsid(process.pid) != session:
                continue
            if process.status() != psutil.STATUS_ZOMBIE or process.num_threads() > 1:
                pids.append(process.pid)
        except (OSError, psutil.NoSuchProcess):
            continue
    return pids


def addresses_of_session(session: int):
    """Where the processes of the session that a supervisor leads listen, but for Unix sockets."""
    connections = (each for pid in pids_of_session(session) for each in psutil.Process(pid).net_connections("inet"))
    return [each.laddr for each in connections if each.status == psutil.CONN_LISTEN]


def leftover_directories():
    """Folders of clusters in the folder for temporary files."""
    return [path for path in Path(tempfile.gettempdir()).glob("jupyter-gpudask-*") if path.is_dir()]


def command_line(process: psutil.Process) -> list[str]:
    """Of a process that may have ended meanwhile: nothing then."""
    try:
        return process.cmdline()
    except psutil.Error:
        return []


@contextmanager
def small_disk(folder: Path, *, size: str = "1m", files: int = 1000):
    """A file system of that size at `folder`, which a test can fill; for root alone."""
    folder.mkdir(exist_ok=True)
    mount = ["mount", "-t", "tmpfs", "-o", f"size={size},nr_inodes={files},mode=0700", "tmpfs", str(folder)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("file systems cannot be mounted here")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def fill_disk(folder: Path) -> Path:
    """Leave no room where `folder` is; the file that takes it."""
    filler = folder / "filler"
    with filler.open("wb", buffering=0) as file, suppress(OSError):
        while file.write(bytes(4096)):
            pass
    return filler


def wait_until(condition, limit: float = 30.0) -> float:
    """Wait until `condition()` is true; the seconds it took, or a failure of the test.

    The limit is for what never happens. If a test is about the time, use `promised`.
    """
    began = time.monotonic()
    while not condition():
        assert time.monotonic() - began < limit, f"not within {limit} s"
        time.sleep(0.02)
    return time.monotonic() - began


@contextmanager
def promised(seconds: float):
    """Check that what happens inside takes at most so long; longer in proportion while the machine does other work."""
    before = slowdown()
    began = time.monotonic()
    yield
    took = time.monotonic() - began
    factor = max(before, slowdown())
    assert took < seconds * factor, f"{took:.2f} s, not {seconds} s, where all takes {factor:.1f} times as long"


def slowdown() -> float:
    """How many times as long as on an idle machine a computation takes now, by the processor time that it needs."""
    began, used = time.monotonic(), time.thread_time()
    while time.thread_time() - used < 0.1:
        pass
    return max(1.0, (time.monotonic() - began) / 0.1)


@dataclass
class Reply:
    """What a cell gave: its status, the value, what it printed and displayed, and the error."""

    status: str
    value: str | None = None
    printed: str = ""
    displayed: list[str] = field(default_factory=list)
    kinds: list[str] = field(default_factory=list)
    html: list[str] = field(default_factory=list)
    error: str | None = None
    error_value: str = ""
    traceback: str = ""
    errors_shown: int = 0
    count: int | None = None


# Of kernels that were killed: these processes close their clusters, and hold GPUs until then.
_SUPERVISORS: list[psutil.Process] = []


def wait_for_supervisors() -> None:
    """Wait until the GPUs are free that kernels reserved which were killed."""
    _, living = psutil.wait_procs(_SUPERVISORS, timeout=60)
    _SUPERVISORS[:] = living


class Kernel:
    """A real kernel, driven as a notebook drives it."""

    def __init__(self, environment: dict[str, str] | None = None) -> None:
        try:
            self._start(environment or dict(os.environ))
        except RuntimeError:  # Jupyter chooses its ports before it binds them, and somebody else has one of them now
            self.shutdown()
            self._start(environment or dict(os.environ))
        wait_for_supervisors()

    def _start(self, environment: dict[str, str]) -> None:
        self.manager = KernelManager(kernel_name="python3")
        self.manager.start_kernel(env=environment, stderr=subprocess.DEVNULL)
        self.client = self.manager.client()
        self.client.start_channels()
        self.client.wait_for_ready(timeout=60)

    @property
    def pid(self) -> int:
        return self.manager.provisioner.pid

    def run(self, code: str, *, timeout: float = 60, on_display=lambda: None, **options) -> Reply:
        reply = Reply("")

        def take(message):
            kind, content = message["msg_type"], message["content"]
            reply.kinds.append(kind)
            if kind == "stream":
                reply.printed += content["text"]
            elif kind == "execute_result":
                reply.value = content["data"]["text/plain"]
                reply.html.append(content["data"].get("text/html", ""))
            elif kind in ("display_data", "update_display_data"):
                if not reply.displayed:
                    on_display()
                reply.displayed.append(content["data"].get("text/plain", ""))
                reply.html.append(content["data"].get("text/html", ""))
            elif kind == "error":
                reply.errors_shown += 1
                reply.traceback += "\n".join(content["traceback"])

        message = self.client.execute_interactive(code, timeout=timeout, output_hook=take, **options)
        content = message["content"]
        reply.status = content["status"]
        reply.error, reply.error_value = content.get("ename"), content.get("evalue", "")
        reply.count = content.get("execution_count")
        return reply

    def ok(self, code: str, **options) -> Reply:
        reply = self.run(code, **options)
        assert reply.status == "ok", (reply.error, reply.error_value, reply.printed, reply.traceback)
        return reply

    def interrupt(self) -> None:
        """What the manager's `interrupt_kernel` does, for any thread: a SIGINT to the kernel's process group."""
        os.killpg(self.pid, signal.SIGINT)

    def supervisor(self) -> int:
        """The pid of this kernel's supervisor."""
        return int(
            self.ok("print(get_ipython().magics_manager.registry['GpuDaskMagics'].session.cluster.process.pid)").printed
        )

    def shutdown(self) -> None:
        self.client.stop_channels()
        with suppress(psutil.NoSuchProcess):
            _SUPERVISORS.extend(psutil.Process(self.pid).children() if self.manager.is_alive() else [])
        self.manager.shutdown_kernel(now=True)
        self.manager.cleanup_resources()


@contextmanager
def thread_for_cells():
    """An executor with one thread, in which cells run while the test goes on.

    jupyter_client makes an event loop for each thread that it is used in, and nobody else would close this one.
    """
    with ThreadPoolExecutor(1) as thread:
        try:
            yield thread
        finally:
            thread.submit(lambda: ensure_event_loop().close()).result()


@contextmanager
def kernel_with_cupy(gpus: int, *, options: str = "", **settings: str):
    """A kernel with a cluster on so many GPUs that are not there, and with the stand-in for CuPy.

    Its cells leave their results on the GPU, so that tests see what computed them.
    """
    kernel = Kernel(fake_gpu_environment(cupy=True, FAKE_GPUS=str(gpus), **settings))
    try:
        kernel.ok("%load_ext jupyter_gpudask\n%config GpuDask.results = 'gpu'")
        kernel.ok(f"import cupy, dask.array as da\nstarted = %gpudask start {options}\nclient = started.client")
        yield kernel
    finally:
        kernel.shutdown()


class RunningCluster:
    """A cluster and a client of it, for tests that share it or are not asynchronous; used in a ``with`` block.

    The methods of `process` are coroutines, which `run` awaits.
    """

    def __init__(self, options, *, set_as_default: bool = False, **start) -> None:
        from jupyter_gpudask.client.connect import connect
        from jupyter_gpudask.launcher.cluster import ClusterProcess
        from jupyter_gpudask.protocol.spec import ClusterSpec

        self._runner = asyncio.Runner()
        try:
            self.process = self.run(ClusterProcess.start(ClusterSpec.parse(options), **({"path": sys.path} | start)))
        except BaseException:
            self._runner.close()
            raise
        self.client = connect(self.process.ready, set_as_default=set_as_default)

    def run(self, coroutine):
        return self._runner.run(coroutine)

    def state(self):
        return self.run(self.process.state())

    def wait_for_workers(self, count: int) -> None:
        wait_until(lambda: len(self.state().workers) == count, 60)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.client.close(1)
        self.run(self.process.close())
        self._runner.close()


@contextmanager
def client_of(options):
    """A client of a new cluster, on a machine with two GPUs that only NVML pretends to have."""
    wait_for_supervisors()
    with RunningCluster(options, set_as_default=True, environment=fake_gpu_environment()) as cluster:
        yield cluster.client


def places_of(secrets: list[str], *folders: Path) -> list[str]:
    """Where one of these texts can be read: in a command line, in an environment, or in a file below the folders."""
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            texts = {"command line": process.cmdline(), "environment": list(process.environ().items())}
            found += [
                f"{name} of {process.cmdline()[:6]}"
                for name, text in texts.items()
                if any(secret in str(text) for secret in secrets)
            ]
    for folder in folders:
        for path in folder.rglob("*"):
            if path.is_file() and any(secret.encode() in path.read_bytes() for secret in secrets):
                found.append(str(path))
    return found
