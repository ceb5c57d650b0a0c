"""What the extension costs its Jupyter server, and what the panel costs the browser.

    python benchmarks/server_cost.py loop --out benchmarks/results/NAME.json
    python benchmarks/server_cost.py panel --out benchmarks/results/NAME.json

``loop``: 20 stream clients, 8 pretend GPUs of which each metric takes 20 ms, 32 clusters (2 real ones, and small
programs that speak the supervisor's protocol), one of them starting all the time: how long does ``GET /api/status``
take, beside an idle server, and does any callback of ours take over 5 ms?

``panel``: a real server with 8 pretend GPUs and 8 clusters of 8 workers, all of whose metrics change every second;
JupyterLab in a headless Chromium, watched through its DevTools protocol (`server_cost.mjs`):

- how many bytes the extension adds to Lab's start,
- what share of one core all processes of the browser take more with the panel open than with it closed,
- how much longer scripts run for each message, in the panel and in the history with all its 15 minutes, and in the
  history when a cluster of 500 workers has come,
- how evenly frames come while a list of 500 workers scrolls.

It needs `jlpm build:prod`, and the packages of labextension/ui-tests; with ``--seconds 0`` it measures only the bytes,
which no other load of the machine changes.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import websocket
from harness import Process, header, publish

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

TOKEN = "cost"  # noqa: S105
FAKE_GPUS = Path(__file__).parents[1] / "tests" / "fake_gpus"
MOST_BYTES = 65_000
"""The largest number of bytes that the extension may add to the start of JupyterLab."""
CLUSTERS, CLIENTS, REQUESTS = 32, 20, 300

# Says which callbacks of the loop take over 5 ms: by the clock, which goes on while other threads and processes run
# too, and of the processor's time.
PROBE = """
import asyncio, logging, time
def _jupyter_server_extension_points():
    return [{"module": "loop_probe"}]
def _load_jupyter_server_extension(app):
    pass
def name_of(callback):
    task = getattr(callback, "__self__", None)
    if not isinstance(task, asyncio.Task):
        return repr(callback)
    code = getattr(task.get_coro(), "cr_code", None)
    return f"{code.co_filename}:{code.co_qualname}" if code else repr(task)
async def _start_jupyter_server_extension(app):
    run = asyncio.Handle._run
    def timed(handle):
        name, began, worked = name_of(handle._callback), time.perf_counter(), time.thread_time()
        run(handle)
        took, worked = (time.perf_counter() - began) * 1000, (time.thread_time() - worked) * 1000
        if took > 5:
            logging.getLogger("loop").warning("slow: %s took %.1f ms, worked %.1f ms", name, took, worked)
    asyncio.Handle._run = timed
"""

# A kernel that does nothing, and whose interpreter is a supervisor that has 8 workers and tells of them.
SMALL = """
import json, math, os, sys, threading, time
if "jupyter_gpudask.supervisor" not in sys.argv:
    time.sleep(3600)
count = int(os.environ.get("WORKERS", "8"))
def worker(number):
    now = time.time()
    wave = 1 + math.sin(now / 5 + number)
    return dict(name=str(number), pid=number + 1, gpu_index=number % 8, memory=int(now * 1000), executing=1,
                device_memory_used=int(2**36 * wave), device_memory_total=2**37, waiting=int(9 * wave),
                pool_used=int(2**35 * wave), pool_size=2**36, executed=int(now % 10**6 * 9))
def tell(**event):
    print(json.dumps(event), flush=True)
def state():
    workers = [worker(number) for number in range(count)]
    tell(type="state", state=dict(engine="cpu", status="ready", time=time.time(), workers=workers))
interval = 0
def report():
    while True:
        time.sleep(interval or 1)
        if interval:
            state()
for line in sys.stdin:
    command = json.loads(line)
    if command["type"] == "start":
        tell(type="ready", protocol=command["protocol"], engine="cpu", address="tls://127.0.0.1:1", credentials=None,
             dashboard_port=None, workers=count, pid=1)
        threading.Thread(target=report, daemon=True).start()
    elif command["type"] == "watch":
        interval = command["interval"]
    elif command["type"] == "close":
        break
    else:
        state()
"""


# The fake of the tests, but GPUs whose metrics change.
RESTLESS_GPUS = """
import math, runpy, time
from types import SimpleNamespace
runpy.run_path({fake!r})
import pynvml
def wave(handle):
    return (1 + math.sin(time.time() / 5 + handle)) / 2
pynvml.nvmlDeviceGetUtilizationRates = lambda handle: SimpleNamespace(gpu=int(100 * wave(handle)), memory=5)
pynvml.nvmlDeviceGetMemoryInfo = lambda handle: SimpleNamespace(total=140 * 2**30, used=int(2**37 * wave(handle)))
pynvml.nvmlDeviceGetPowerUsage = lambda handle: int(600_000 * wave(handle))
"""


# An extension of the server: whenever there are more workers than ever, they have had 15 minutes already.
LONG_PAST = """
import math
from jupyter_gpudask.server.metrics.history import History
def _jupyter_server_extension_points():
    return [{"module": "long_past"}]
def _load_jupyter_server_extension(app):
    pass
add, most = History.add, 0
def with_past(history, time, gpus, clusters, machine, pcie):
    global most
    clusters = [cluster for cluster in clusters if cluster.state is not None]
    count = sum(len(cluster.state.workers) for cluster in clusters)
    if count > most:
        most = count
        history._samples.clear()
        for back in range(900, 0, -1):
            add(history, time - back, gpus, [before(cluster, back) for cluster in clusters], machine, pcie)
    add(history, time, gpus, clusters, machine, pcie)
def before(cluster, back):
    workers = tuple(
        worker.model_copy(update=dict(
            memory=worker.memory - 1000 * back,
            pool_used=int(2**35 * (1 + math.sin(back / 5 + number))),
            executed=worker.executed - 9 * back,
        ))
        for number, worker in enumerate(cluster.state.workers)
    )
    return cluster.model_copy(update={"state": cluster.state.model_copy(update={"workers": workers})})
History.add = with_past
"""


class Server:
    """A Jupyter server with the extension, and what it takes to load it.

    Its files and log are in `folder`; `variables` are added to its environment, and `options` to its command.
    """

    def __init__(self, folder: Path, *extensions: str, variables: dict[str, str], options: Sequence[str] = ()) -> None:
        (folder / "loop_probe.py").write_text(PROBE)
        (folder / "small.py").write_text(SMALL)
        small = folder / "small"
        small.write_text(f'#!/bin/bash\nexec -a {small} {sys.executable} -S {folder}/small.py "$@"\n')
        small.chmod(0o700)
        kernels = folder / "kernels" / "small"
        kernels.mkdir(parents=True)
        specification = {"argv": [str(small), "-f", "{connection_file}"], "display_name": "small", "language": "python"}
        (kernels / "kernel.json").write_text(json.dumps(specification))
        places = ("JUPYTER_RUNTIME_DIR", "JUPYTER_CONFIG_DIR", "JUPYTER_PATH")
        environment = os.environ | dict.fromkeys(places, str(folder)) | variables
        environment["PYTHONPATH"] = os.pathsep.join(filter(None, [str(folder), environment.get("PYTHONPATH", "")]))
        enabled = dict.fromkeys(extensions, True)
        command = [sys.executable, "-m", "jupyter_server", "--no-browser", "--allow-root", "--port=0"]
        command += [f"--IdentityProvider.token={TOKEN}", f"--ServerApp.root_dir={folder}"]
        command += [f"--ServerApp.jpserver_extensions={enabled}", *options]
        self.log = folder / "server.log"
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
        info = folder / f"jpserver-{self.process.pid}.json"
        while not info.exists():
            time.sleep(0.1)
        self.url = json.loads(info.read_text())["url"].replace("localhost", "127.0.0.1")

    def request(self, path: str, method: str = "GET", body: object = None) -> dict[str, Any]:
        """What the server answers, as JSON."""
        data = None if body is None else json.dumps(body).encode()
        headers = {"Authorization": f"token {TOKEN}"}
        asked = urllib.request.Request(self.url + path, data=data, headers=headers, method=method)
        with urllib.request.urlopen(asked, timeout=60) as answer:
            return json.loads(answer.read() or b"{}")

    def cluster(self, name: str) -> str:
        """A kernel of that name with a cluster; its id."""
        kernel_id = self.request("api/kernels", "POST", {"name": name})["id"]
        self.request("gpudask/api/clusters", "POST", {"kernel_id": kernel_id, "spec": {"engine": "cpu", "workers": 1}})
        return kernel_id

    def stream(self) -> websocket.WebSocket:
        """The connection to the stream of its metrics."""
        url, token = f"ws{self.url[4:]}gpudask/api/stream", [f"Authorization: token {TOKEN}"]
        return websocket.create_connection(url, header=token, timeout=60, skip_utf8_validation=True)

    def watch(self, seen: list[int]) -> None:
        """Receive the stream until it ends."""
        stream = self.stream()
        try:
            while True:
                stream.recv()
                seen.append(1)
        except (websocket.WebSocketException, OSError):
            stream.close()

    def start_clusters(self, name: str, count: int) -> None:
        """Start kernels of that name with clusters, and wait until all are ready."""
        kernels = [self.cluster(name) for _ in range(count)]
        while any(self.request(f"gpudask/api/clusters/{kernel}")["status"] == "starting" for kernel in kernels):
            time.sleep(0.2)

    def status_times(self, count: int) -> dict[str, float]:
        """How long the server takes for the simplest thing; asked by a process that does nothing else."""
        process = Process(status_times, {}, url=self.url, count=count)
        found: dict[str, float] = next(process)
        process.end()
        return found

    def stop(self) -> None:
        """End it."""
        self.process.terminate()
        self.process.wait(60)


def status_times(url: str, count: int) -> Iterator[dict[str, float]]:
    """How long ``GET /api/status`` takes, in milliseconds."""
    asked = urllib.request.Request(f"{url}api/status", headers={"Authorization": f"token {TOKEN}"})
    times = []
    for _ in range(count):
        began = time.perf_counter()
        with urllib.request.urlopen(asked, timeout=60) as answer:
            answer.read()
        times.append((time.perf_counter() - began) * 1000)
        time.sleep(0.02)
    times.sort()
    yield {"median_ms": round(times[count // 2], 2), "p99_ms": round(times[int(count * 0.99)], 2)}


def load(server: Server) -> dict[str, Any]:
    """Put the load on, and look."""
    idle = server.status_times(REQUESTS)
    server.start_clusters("python3", 2)
    server.start_clusters("small", CLUSTERS - 3)
    seen: list[int] = []
    for _ in range(CLIENTS):
        threading.Thread(target=server.watch, args=(seen,), daemon=True).start()
    restless, over = server.cluster("small"), threading.Event()

    def restart() -> None:
        while not over.wait(1):
            server.request(f"gpudask/api/clusters/{restless}/restart", "POST", {})

    restarting = threading.Thread(target=restart)
    restarting.start()
    time.sleep(3)
    began, before = time.monotonic(), len(seen)
    loaded = server.status_times(REQUESTS)
    rate = (len(seen) - before) / CLIENTS / (time.monotonic() - began)
    over.set()
    restarting.join()
    threads = psutil.Process(server.process.pid).num_threads()
    return {"idle": idle, "loaded": loaded, "messages_per_client_and_second": round(rate, 2), "server_threads": threads}


def measure_loop() -> dict[str, Any]:
    """Measure twice: as it is, and with a look at each callback of the loop."""
    result: dict[str, Any] = {}
    gpus = {"PYTHONPATH": str(FAKE_GPUS), "FAKE_GPUS": "8", "FAKE_NVML_DELAY": "0.02"}
    for name, extensions in (("plain", ()), ("probed", ("loop_probe",))):
        with tempfile.TemporaryDirectory() as folder:
            server = Server(Path(folder), "jupyter_gpudask", *extensions, variables=gpus)
            try:
                result[name] = load(server)
            finally:
                server.stop()
            slow = re.findall(r"slow: (.*) took ([0-9.]+) ms, worked ([0-9.]+) ms", server.log.read_text())
        ours = [
            {"name": name.rpartition("jupyter_gpudask/")[2], "took_ms": float(took), "worked_ms": float(worked)}
            for name, took, worked in slow
            if "jupyter_gpudask" in name
        ]
        result[name] |= {"callbacks_over_5_ms": len(slow), "callbacks_of_ours_over_5_ms": ours}
        result[name] |= {"longest_work_of_ours_ms": max((each["worked_ms"] for each in ours), default=0.0)}
        result[name] |= {"load_average": os.getloadavg()[0]}
    return result


def measure_panel(seconds: int) -> dict[str, Any]:
    """Measure in the browser, each state for so many seconds."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "sitecustomize.py").write_text(RESTLESS_GPUS.format(fake=str(FAKE_GPUS / "sitecustomize.py")))
        (folder / "long_past.py").write_text(LONG_PAST)
        (folder / "jupyter_server_config.json").write_text('{"LabApp": {"expose_app_in_browser": true}}')
        server = Server(folder, "jupyter_gpudask", "jupyterlab", "long_past", variables={"FAKE_GPUS": "8"})
        try:
            specification = json.loads((folder / "kernels" / "small" / "kernel.json").read_text())
            (folder / "kernels" / "huge").mkdir()
            huge = json.dumps(specification | {"env": {"WORKERS": "500"}})
            (folder / "kernels" / "huge" / "kernel.json").write_text(huge)
            server.start_clusters("small", 8)
            command = ["node", str(Path(__file__).with_suffix(".mjs")), server.url, TOKEN, str(seconds)]
            measured = json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)
        finally:
            server.stop()
    return {"gpus": 8, "workers": 64} | measured


def main() -> int:
    """Measure; 1 if a limit of the panel does not hold."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["loop", "panel"])
    parser.add_argument("--seconds", type=int, default=60, help="how long each state of the panel is watched")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    result = header() | (measure_loop() if options.what == "loop" else measure_panel(options.seconds))
    publish(result, options.out)
    if options.what == "loop":
        return 0
    views = [result[name] for name in ("panel", "history")] if options.seconds else []
    is_quick = all(view["script_ms_per_tick"] < 4 for view in views) and (not views or views[0]["core_percent"] < 3)
    return 0 if is_quick and result["bytes_at_start"] < MOST_BYTES else 1


if __name__ == "__main__":
    sys.exit(main())
