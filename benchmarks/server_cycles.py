"""Start and stop a cluster through a Jupyter server, again and again: what grows?

Each line: cycles so far, and the server's memory (USS, bytes), file descriptors, threads and processes under it.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path

import psutil

TOKEN = "cycles"  # noqa: S105
SPEC = {"engine": "cpu", "workers": 1, "threads": 1}


def request(url: str, path: str, method: str = "GET", body: object = None) -> dict:
    """What the server answers, as JSON."""
    data = None if body is None else json.dumps(body).encode()
    headers = {"Authorization": f"token {TOKEN}"}
    asked = urllib.request.Request(url + path, data=data, headers=headers, method=method)
    with urllib.request.urlopen(asked, timeout=30) as answer:
        return json.loads(answer.read() or b"{}")


def look(server: psutil.Process, cycles: int) -> dict:
    """What the server holds now."""
    seen = {
        "cycles": cycles,
        "memory": server.memory_full_info().uss,
        "descriptors": server.num_fds(),
        "threads": server.num_threads(),
        "processes": len(server.children(recursive=True)),
    }
    print(json.dumps(seen), flush=True)
    return seen


def main() -> int:
    """Run the cycles; 1 if something has grown."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cycles", type=int, default=200)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        environment = os.environ | {"JUPYTER_RUNTIME_DIR": folder, "JUPYTER_CONFIG_DIR": folder, "TMPDIR": folder}
        command = [sys.executable, "-m", "jupyter_server", "--no-browser", "--allow-root", "--port=0"]
        command += [f"--IdentityProvider.token={TOKEN}", f"--ServerApp.root_dir={folder}"]
        command += ["--ServerApp.jpserver_extensions={'jupyter_gpudask': True}"]
        server = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            samples = run(server, Path(folder), options.cycles)
        finally:
            server.terminate()
            server.wait(30)
    # The first cycles import and open what stays, the threads of Python's pool among it.
    first, last = next(sample for sample in samples if sample["cycles"] >= min(20, options.cycles)), samples[-1]
    grown = {name: last[name] - first[name] for name in first}
    result = {"samples": samples, "grown": grown}
    print(json.dumps(grown))
    if options.out:
        options.out.write_text(json.dumps(result, indent=1) + "\n")
    held = ("descriptors", "threads", "processes")
    return int(any(grown[name] > 0 for name in held) or grown["memory"] > 10 * 2**20)


def run(server: subprocess.Popen, folder: Path, cycles: int) -> list[dict]:
    """What the server held before, after a few, and after all cycles."""
    info = folder / f"jpserver-{server.pid}.json"
    while not info.exists():
        time.sleep(0.1)
    url = json.loads(info.read_text())["url"]
    kernel_id = request(url, "api/kernels", "POST", {"name": "python3"})["id"]
    process = psutil.Process(server.pid)
    samples = [look(process, 0)]
    for cycle in range(1, cycles + 1):
        request(url, "gpudask/api/clusters", "POST", {"kernel_id": kernel_id, "spec": SPEC})
        while (status := request(url, f"gpudask/api/clusters/{kernel_id}")["status"]) == "starting":
            time.sleep(0.05)
        if status != "ready":
            raise RuntimeError(status)
        request(url, f"gpudask/api/clusters/{kernel_id}", "DELETE")
        if cycle == cycles or cycle % 20 == 0:
            samples.append(look(process, cycle))
    return samples


if __name__ == "__main__":
    sys.exit(main())
