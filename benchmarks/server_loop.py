"""Does the extension hold up its Jupyter server?

20 stream clients, 8 pretend GPUs of which each metric takes 20 ms, 32 clusters (2 real ones, and small programs that
speak the supervisor's protocol), one of them starting all the time: how long does ``GET /api/status`` take, beside an
idle server, and does any callback of ours take over 5 ms?
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

import psutil
import websocket
from report import header, publish

TOKEN = "loop"  # noqa: S105
ROOT = Path(__file__).parents[1]

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


def simulated_gpus() -> dict[str, str]:
    """Variables of a process that sees eight GPUs which are not there, of which each metric takes 20 ms."""
    path = [str(ROOT / "tests" / "fake_gpus"), os.environ.get("PYTHONPATH", "")]
    return {"PYTHONPATH": os.pathsep.join(filter(None, path)), "FAKE_GPUS": "8", "FAKE_NVML_DELAY": "0.02"}


class Server:
    """A Jupyter server with the extension, and what it takes to load it.

    Its files and log are in `folder`; `variables` are added to its environment.
    """

    def __init__(self, folder: Path, *extensions: str, variables: dict[str, str]) -> None:
        (folder / "loop_probe.py").write_text(PROBE)
        (folder / "small.py").write_text(SMALL)
        small = folder / "small"
        small.write_text(f'#!/bin/bash\nexec -a {small} {sys.executable} -S {folder}/small.py "$@"\n')
        small.chmod(0o700)
        kernels = folder / "kernels" / "small"
        kernels.mkdir(parents=True)
        specification = {"argv": [str(small), "-f", "{connection_file}"], "display_name": "small", "language": "python"}
        (kernels / "kernel.json").write_text(json.dumps(specification))
        environment = os.environ | {
            "JUPYTER_RUNTIME_DIR": str(folder),
            "JUPYTER_CONFIG_DIR": str(folder),
            "JUPYTER_PATH": str(folder),
            **variables,
        }
        environment["PYTHONPATH"] = os.pathsep.join(filter(None, [str(folder), environment.get("PYTHONPATH", "")]))
        enabled = dict.fromkeys(extensions, True)
        command = [sys.executable, "-m", "jupyter_server", "--no-browser", "--allow-root", "--port=0"]
        command += [f"--IdentityProvider.token={TOKEN}", f"--ServerApp.root_dir={folder}"]
        command += [f"--ServerApp.jpserver_extensions={enabled}"]
        self.log = folder / "server.log"
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
        info = folder / f"jpserver-{self.process.pid}.json"
        while not info.exists():
            time.sleep(0.1)
        self.url = json.loads(info.read_text())["url"].replace("localhost", "127.0.0.1")

    def request(self, path: str, method: str = "GET", body: object = None) -> dict:
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

    def watch(self, seen: list[int]) -> None:
        """Receive the stream until it ends."""
        url = f"ws{self.url[4:]}gpudask/api/stream"
        stream = websocket.create_connection(
            url, header=[f"Authorization: token {TOKEN}"], timeout=60, skip_utf8_validation=True
        )
        try:
            while True:
                stream.recv()
                seen.append(1)
        except (websocket.WebSocketException, OSError):
            stream.close()

    def status_times(self, count: int) -> dict:
        """How long the server takes for the simplest thing; asked by a process that does nothing else."""
        command = [sys.executable, __file__, "--times", self.url, "--count", str(count)]
        return json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)

    def stop(self) -> None:
        """End it."""
        self.process.terminate()
        self.process.wait(60)


def status_times(url: str, count: int) -> dict:
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
    return {"median_ms": round(times[count // 2], 2), "p99_ms": round(times[int(count * 0.99)], 2)}


def load(server: Server, clusters: int, clients: int, count: int) -> dict:
    """Put the load on, and look."""
    idle = server.status_times(count)
    real = [server.cluster("python3") for _ in range(2)]
    small = [server.cluster("small") for _ in range(clusters - 3)]
    while any(server.request(f"gpudask/api/clusters/{kernel}")["status"] == "starting" for kernel in real + small):
        time.sleep(0.5)
    seen: list[int] = []
    threads = [threading.Thread(target=server.watch, args=(seen,), daemon=True) for _ in range(clients)]
    for thread in threads:
        thread.start()
    restless = server.cluster("small")
    over = threading.Event()

    def restart() -> None:
        while not over.wait(1):
            server.request(f"gpudask/api/clusters/{restless}/restart", "POST", {})

    restarting = threading.Thread(target=restart)
    restarting.start()
    time.sleep(3)
    began, before = time.monotonic(), len(seen)
    loaded = server.status_times(count)
    rate = (len(seen) - before) / clients / (time.monotonic() - began)
    over.set()
    restarting.join()
    return {
        "idle": idle,
        "loaded": loaded,
        "messages_per_client_and_second": round(rate, 2),
        "server_threads": psutil.Process(server.process.pid).num_threads(),
    }


def main() -> int:
    """Measure twice: as it is, and with a look at each callback of the loop."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clusters", type=int, default=32)
    parser.add_argument("--clients", type=int, default=20)
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--times", metavar="URL", help="only ask that server for its status")
    options = parser.parse_args()
    if options.times:
        print(json.dumps(status_times(options.times, options.count)))
        return 0
    result: dict = header()
    for name, extensions in (("plain", ()), ("probed", ("loop_probe",))):
        with tempfile.TemporaryDirectory() as folder:
            server = Server(Path(folder), "jupyter_gpudask", *extensions, variables=simulated_gpus())
            try:
                result[name] = load(server, options.clusters, options.clients, options.count)
            finally:
                server.stop()
            slow = re.findall(r"slow: (.*) took ([0-9.]+) ms, worked ([0-9.]+) ms", server.log.read_text())
            ours = [found for found in slow if "jupyter_gpudask" in found[0]]
            result[name]["callbacks_over_5_ms"] = len(slow)
            result[name]["callbacks_of_ours_over_5_ms"] = [
                {"name": name.rpartition("jupyter_gpudask/")[2], "took_ms": float(took), "worked_ms": float(worked)}
                for name, took, worked in ours
            ]
            result[name]["longest_work_of_ours_ms"] = max((float(worked) for *_, worked in ours), default=0.0)
            result[name]["load_average"], result[name]["cores"] = os.getloadavg()[0], os.cpu_count()
    publish(result, options.out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
