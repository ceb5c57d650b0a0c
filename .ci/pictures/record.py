"""What the stream of a real server says while two notebooks work on GPUs: to be replayed where there are none.

    python .ci/pictures/record.py --out .ci/pictures/NAME.json [--seconds 75]

One notebook sums random numbers with CuPy, the other groups a frame with cuDF, each on one GPU, if there are two;
else both share the one. A line of the recording has the seconds since its begin, and the message.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from contextlib import suppress
from pathlib import Path
from typing import Any

import websocket
from jupyter_client import BlockingKernelClient

from jupyter_gpudask.machine.gpus import list_gpus

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))
from harness import header

TOKEN = "recording"  # noqa: S105
TOKEN_HEADER = {"Authorization": f"token {TOKEN}"}

CELLS = {
    "fluid-simulation.ipynb": (
        "%load_ext jupyter_gpudask",
        "%gpudask start --gpus {gpus}",
        """%%gpudask
import dask.array as da
for size in (20_000, 30_000, 40_000) * 60:
    x = da.random.normal(size=(size, size), chunks=10_000)
    float((x @ x.T).sum().compute())""",
    ),
    "taxi-fares.ipynb": (
        "%load_ext jupyter_gpudask",
        "%gpudask start --gpus {gpus}",
        """%%gpudask
import dask.dataframe as dd, numpy as np, pandas as pd
rows = pd.DataFrame({{"zone": np.arange(20_000_000) % 263, "fare": np.random.default_rng(0).gamma(3, 6, 20_000_000)}})
frame = dd.concat([dd.from_pandas(rows, npartitions=4)] * 20).persist()
for _ in range(600):
    top = frame.groupby("zone").fare.max().reset_index()
    frame.merge(top, on="zone").sort_values("fare_x").fare_x.sum().compute()""",
    ),
}


def cells_of(gpus: str) -> dict[str, list[str]]:
    """The cells of each notebook, with the value of ``--gpus`` filled in."""
    return {name: [cell.format(gpus=gpus) for cell in cells] for name, cells in CELLS.items()}


def work(runtime: Path, kernel_id: str, cells: list[str], over: threading.Event) -> None:
    """Run the cells in a kernel of the server until they end, or it does."""
    client = BlockingKernelClient(connection_file=str(runtime / f"kernel-{kernel_id}.json"))
    client.load_connection_file()
    client.start_channels()
    client.wait_for_ready(timeout=60)
    for code in cells:
        with suppress(Exception):  # the end of the recording comes while a cell runs
            client.execute_interactive(code, timeout=600, output_hook=show)
        if over.is_set():
            break
    client.stop_channels()


def show(message: dict[str, Any]) -> None:
    """Print errors of a cell."""
    if message["msg_type"] == "error":
        print("\n".join(message["content"]["traceback"]), file=sys.stderr)


def record(folder: Path, share: str, seconds: float) -> list[tuple[float, Any]]:
    """What the server says, and when, while the notebooks work."""
    options = ["--GpuDask.share_gpus=True"] if share == "all" else []
    command = [sys.executable, "-P", "-m", "jupyter_server", "--no-browser", "--allow-root", "--port=0", *options]
    command += [f"--IdentityProvider.token={TOKEN}", f"--ServerApp.root_dir={folder}"]
    command += ["--ServerApp.jpserver_extensions={'jupyter_gpudask': True}"]
    environment = os.environ | {"JUPYTER_RUNTIME_DIR": str(folder), "JUPYTER_CONFIG_DIR": str(folder)}
    server = subprocess.Popen(command, env=environment)
    over = threading.Event()
    try:
        info = folder / f"jpserver-{server.pid}.json"
        while not (info.exists() and info.read_text().endswith("}")):
            time.sleep(0.1)
        url = json.loads(info.read_text())["url"].replace("localhost", "127.0.0.1")
        for notebook, cells in cells_of(share).items():
            order = {"path": notebook, "name": notebook, "type": "notebook", "kernel": {"name": "python3"}}
            asked = urllib.request.Request(url + "api/sessions", json.dumps(order).encode(), TOKEN_HEADER)
            with urllib.request.urlopen(asked, timeout=60) as answer:
                arguments = (folder, json.load(answer)["kernel"]["id"], cells, over)
            threading.Thread(target=work, args=arguments, daemon=True).start()
        stream = websocket.create_connection(f"ws{url[4:]}gpudask/api/stream", header=TOKEN_HEADER, timeout=30)
        begin = time.monotonic()
        messages: list[tuple[float, Any]] = []
        while not messages or messages[-1][0] <= seconds:
            message = json.loads(stream.recv())
            messages.append((round(time.monotonic() - begin, 2), message))
        return messages
    finally:
        over.set()
        server.terminate()
        server.wait(30)


def main() -> int:
    """Record; 1 if nothing was busy."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seconds", type=float, default=75)
    options = parser.parse_args()
    share = "all" if len(list_gpus()) < 2 else "1"
    with tempfile.TemporaryDirectory() as folder:
        messages = record(Path(folder), share, options.seconds)
    busy = max((gpu["utilization"] or 0 for _, message in messages for gpu in (message["gpus"] or {}).get("gpus", ())))
    made = header() | {"cells": cells_of(share), "messages": messages}
    options.out.write_text(json.dumps(made, separators=(",", ":")).replace("],[", "],\n[") + "\n")
    print(f"{len(messages)} messages; a GPU was up to {busy} busy")
    return int(not busy)


if __name__ == "__main__":
    sys.exit(main())
