"""Rows of the first results: from the start of a process to what a cluster that it starts has computed.

The clock runs in another process, and starts before the interpreter. With standby it starts when a cell is sent to the
kernel of a Jupyter server that keeps a supervisor ready; kernel and server are idle then.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
import urllib.request
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .table import BY_HAND, OURS, ROWS, STANDBY, Row, Seconds

if TYPE_CHECKING:
    from collections.abc import Iterator

ARRAY = "from nothing to the first CuPy result"
BOTH = "from nothing to the first CuPy and the first cuDF result"

_TOKEN = "first-result"  # noqa: S105 - of a server on this machine that ends with the measurement
_LIMIT = 300.0

_PREPARE = """import sys; sys.path.append({folder!r})
from workloads.first_result import compute
%load_ext jupyter_gpudask"""


def compute(frame: bool) -> None:
    """Compute the first array, and with `frame` the first dataframe."""
    import dask.array as da

    assert float(da.ones((4000, 4000), chunks=(1000, 1000)).sum().compute()) == 4000 * 4000
    if frame:
        import dask.dataframe as dd

        columns = {"key": list(range(10)) * 100, "x": [1.0] * 1000}
        means = dd.from_dict(columns, npartitions=4).groupby("key").x.mean().compute()
        assert float(means.sum()) == 10


def _in_process(side: str, large: bool, frame: bool) -> Seconds:
    """In a process of its own that starts and closes a cluster; its end does not count."""
    script = "from workloads.first_result import main\nif __name__ == '__main__':\n    main()\n"
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "first_result.py"  # spawned workers import it again, so it must be a file
        file.write_text(script)
        arguments = [side, "cuda" if large else "cpu", str(int(frame))]
        # Without an empty entry, which would be the working folder.
        given = filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))
        variables = os.environ | {"PYTHONPATH": os.pathsep.join([str(_benchmarks()), *given])}
        start = time.perf_counter()
        process = subprocess.Popen(
            [sys.executable, str(file), *arguments], env=variables, stdout=subprocess.PIPE, text=True
        )
        assert process.stdout is not None
        seconds = next((time.perf_counter() - start for line in process.stdout if line == "computed\n"), None)
        process.communicate()
    if seconds is None:
        raise RuntimeError("No result was computed; the reason is above.")
    return Seconds(seconds)


def main() -> None:
    """The process that is measured."""
    from .clusters import cluster

    side, engine, frame = sys.argv[1:]
    with cluster(side, "whole", engine):
        compute(bool(int(frame)))
        print("computed", flush=True)


def _with_standby(large: bool, frame: bool) -> Seconds:
    """In a cell of a notebook whose server has a supervisor ready."""
    from jupyter_client.blocking.client import BlockingKernelClient

    with _server() as (url, server):
        kernel = _request(url, "api/kernels", {"name": "python3"})["id"]
        runtime = Path(os.environ["JUPYTER_RUNTIME_DIR"])
        client = BlockingKernelClient(connection_file=str(runtime / f"kernel-{kernel}.json"))
        client.load_connection_file()
        client.start_channels()
        _wait(lambda: _is_ready(client))
        _run(client, _PREPARE.format(folder=str(_benchmarks())))
        _wait_until_idle(server)
        start = time.perf_counter()
        _run(client, f"%gpudask start {'' if large else '--cpu 1'}")
        _run(client, f"%%gpudask\ncompute({frame})")
        seconds = time.perf_counter() - start
        client.stop_channels()
    return Seconds(seconds)


def _is_ready(client: Any) -> bool:
    """Whether the kernel answers; on a busy machine Jupyter's client takes a kernel that is starting for a dead one."""
    try:
        client.wait_for_ready(timeout=_LIMIT)
    except RuntimeError:
        return False
    return True


def _run(client: Any, cell: str) -> None:
    content = client.execute_interactive(cell, timeout=_LIMIT, output_hook=lambda _: None)["content"]
    if content["status"] != "ok":
        raise RuntimeError(f"{cell}: {content['ename']}: {content['evalue']}")


@contextmanager
def _server() -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """A Jupyter server with a standby supervisor; its address and process."""
    runtime = Path(os.environ["JUPYTER_RUNTIME_DIR"])
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "jupyter_server", "--no-browser", "--allow-root", "--port=0"]
        command += [f"--IdentityProvider.token={_TOKEN}", f"--ServerApp.root_dir={folder}"]
        command += ["--ServerApp.jpserver_extensions={'jupyter_gpudask': True}", "--GpuDask.standby=True"]
        variables = os.environ | {"JUPYTER_CONFIG_DIR": folder}
        # In that folder, because kernels start in the working folder of the server and import what is there.
        process = subprocess.Popen(
            command, cwd=folder, env=variables, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        try:
            info = runtime / f"jpserver-{process.pid}.json"
            _wait(info.exists)
            url = json.loads(info.read_text())["url"]
            _wait(lambda: _answers(url))
            yield url, process
        finally:
            process.terminate()
            process.wait(60)


def _answers(url: str) -> bool:
    try:
        _request(url, "api/status")
    except OSError:
        return False
    return True


def _request(url: str, path: str, body: dict[str, Any] | None = None) -> Any:
    """A GET request, or with a `body` a POST request."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url + path, data=data, headers={"Authorization": f"token {_TOKEN}"})
    with urllib.request.urlopen(request, timeout=60) as reply:
        return json.loads(reply.read())


def _wait_until_idle(server: subprocess.Popen[bytes]) -> None:
    """Wait until a standby supervisor is there and no process of the server has computed for two seconds."""
    import psutil

    def standby() -> list[psutil.Process]:
        children = psutil.Process(server.pid).children()
        return [child for child in children if "--standby" in child.cmdline()]

    def computed() -> float:
        family = [psutil.Process(server.pid), *psutil.Process(server.pid).children(recursive=True)]
        return sum(sum(process.cpu_times()[:2]) for process in family)

    _wait(standby)
    before = -1.0
    while (now := computed()) - before > 0.1:
        before = now
        time.sleep(2)


def _wait(condition: Any) -> None:
    end = time.monotonic() + _LIMIT
    while not condition():
        if time.monotonic() > end:
            raise TimeoutError(f"The Jupyter server was not ready after {_LIMIT:g} s.")
        time.sleep(0.1)


def _benchmarks() -> Path:
    return Path(__file__).parents[1]


for _name, _frame in ((ARRAY, False), (BOTH, True)):
    ROWS[_name] = Row(
        _name,
        {
            BY_HAND: lambda large, frame=_frame: _in_process(BY_HAND, large, frame),
            OURS: lambda large, frame=_frame: _in_process(OURS, large, frame),
            STANDBY: lambda large, frame=_frame: _with_standby(large, frame),
        },
        cluster=None,
    )
