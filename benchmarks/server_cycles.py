"""Start and stop a cluster through a Jupyter server, again and again: what grows?

Each line: cycles so far, and the server's memory (USS, bytes), file descriptors, threads and processes under it.
With ``--engine cuda`` the clusters have a GPU each, which those of several kernels share; of each GPU the memory that
is held is noted, too.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
from report import header, publish

from jupyter_gpudask.errors import GpuUnavailableError
from jupyter_gpudask.machine.gpus import list_gpus

TOKEN = "cycles"  # noqa: S105
SPECS = {
    "cpu": {"engine": "cpu", "workers": 1, "threads": 1},
    "cuda": {"engine": "cuda", "gpus": 1, "share": True},
}


def request(url: str, path: str, method: str = "GET", body: object = None) -> dict:
    """What the server answers, as JSON."""
    data = None if body is None else json.dumps(body).encode()
    headers = {"Authorization": f"token {TOKEN}"}
    asked = urllib.request.Request(url + path, data=data, headers=headers, method=method)
    with urllib.request.urlopen(asked, timeout=30) as answer:
        return json.loads(answer.read() or b"{}")


def gpu_memory() -> int:
    """Bytes held on all GPUs; 0 where there is none."""
    try:
        return sum(gpu.memory_used or 0 for gpu in list_gpus())
    except GpuUnavailableError:
        return 0


def descriptors(server: psutil.Process) -> Counter[str]:
    """How many of each kind the server has open; numbers in the names are left out."""
    folder = Path(f"/proc/{server.pid}/fd")
    return Counter(re.sub(r"\d+", "", str(each.readlink())) for each in folder.iterdir())


def look(server: psutil.Process, cycles: int) -> dict:
    """What the server holds now."""
    seen = {
        "cycles": cycles,
        "memory": server.memory_full_info().uss,
        "descriptors": server.num_fds(),
        "threads": server.num_threads(),
        "processes": len(server.children(recursive=True)),
        "gpu_memory": gpu_memory(),
    }
    print(json.dumps(seen), flush=True)
    return seen


def main() -> int:
    """Run the cycles; 1 if something has grown."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cycles", type=int, default=200)
    parser.add_argument("--warm-up", type=int, default=60, help="cycles before those")
    parser.add_argument("--engine", choices=SPECS, default="cpu")
    parser.add_argument("--kernels", type=int, default=1, help="how many of them start and stop at the same time")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        environment = os.environ | {"JUPYTER_RUNTIME_DIR": folder, "JUPYTER_CONFIG_DIR": folder, "TMPDIR": folder}
        command = [sys.executable, "-m", "jupyter_server", "--no-browser", "--allow-root", "--port=0"]
        command += [f"--IdentityProvider.token={TOKEN}", f"--ServerApp.root_dir={folder}"]
        command += ["--ServerApp.jpserver_extensions={'jupyter_gpudask': True}"]
        server = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            samples = run(server, Path(folder), options)
        finally:
            server.terminate()
            server.wait(30)
    # The first cycles import and open what stays, and fill Python's pool of threads, which has a limit.
    first = next(sample for sample in samples if sample["cycles"] >= options.warm_up)
    last = samples[-1]
    grown = {name: last[name] - first[name] for name in first}
    publish({**header(), "samples": samples, "grown": grown}, options.out, hide="samples")
    held = ("descriptors", "threads", "processes")
    return int(any(grown[name] > 0 for name in held) or max(grown["memory"], grown["gpu_memory"]) > 10 * 2**20)


def run(server: subprocess.Popen, folder: Path, options: argparse.Namespace) -> list[dict]:
    """What the server held before, after a few, and after all cycles."""
    info = folder / f"jpserver-{server.pid}.json"
    while not info.exists():
        time.sleep(0.1)
    url = json.loads(info.read_text())["url"]
    kernels = [request(url, "api/kernels", "POST", {"name": "python3"})["id"] for _ in range(options.kernels)]
    process = psutil.Process(server.pid)
    time.sleep(10)  # the kernels' own start
    samples, opened = [look(process, 0)], Counter()
    with ThreadPoolExecutor(options.kernels) as pool:
        last = options.warm_up + options.cycles
        for cycle in range(options.kernels, last + 1, options.kernels):
            list(pool.map(lambda kernel_id: start_and_stop(url, kernel_id, SPECS[options.engine]), kernels))
            if cycle + options.kernels > last or cycle // 20 > samples[-1]["cycles"] // 20:
                samples.append(look(process, cycle))
                print(dict(descriptors(process) - opened), flush=True)
                opened = descriptors(process)
    return samples


def start_and_stop(url: str, kernel_id: str, spec: dict) -> None:
    """One cycle; an error if the cluster does not get ready."""
    request(url, "gpudask/api/clusters", "POST", {"kernel_id": kernel_id, "spec": spec})
    while (cluster := request(url, f"gpudask/api/clusters/{kernel_id}"))["status"] == "starting":
        time.sleep(0.05)
    if cluster["status"] != "ready":
        raise RuntimeError(cluster["reason"])
    request(url, f"gpudask/api/clusters/{kernel_id}", "DELETE")


if __name__ == "__main__":
    sys.exit(main())
