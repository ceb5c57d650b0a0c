"""What a real server says and cells show while a notebook works on GPUs: to be replayed where there are none.

    python .ci/pictures/record.py --out .ci/pictures/NAME.json

The cells reduce 2 TB of random numbers with CuPy, and group a dataframe with cuDF, on all GPUs of the machine; each
keeps two GPUs busy for some seconds. A line of the recording has the seconds since its begin, and a message of the
stream or of the kernel.
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
from functools import partial
from pathlib import Path
from typing import Any

import websocket
from jupyter_client import BlockingKernelClient

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))
from harness import header

TOKEN = "recording"  # noqa: S105
TOKEN_HEADER = {"Authorization": f"token {TOKEN}"}
NOTEBOOK = "taxi-fares.ipynb"
# Of the kernel's messages those that change what is below a cell.
SHOWN = ("display_data", "update_display_data", "execute_result", "stream", "error")
# So that the film does not begin or end with the first or last cell, in seconds.
PAUSE = 3

CELLS = (
    "%load_ext jupyter_gpudask\n%gpudask start\n%gpudask on",
    """import dask.array as da

noise = da.random.normal(size=({rows:_}, 60_000), chunks=10_000)
noise.std(axis=0).mean().compute()""",
    """import dask.dataframe as dd

numbers = da.random.random(size=({rides:_}, 2), chunks=(20_000_000, 2))
rides = dd.from_dask_array(numbers, columns=["zone", "fare"])
rides["zone"] = (rides.zone * 263).astype(int)
rides.groupby("zone").fare.agg(["mean", "max"]).nlargest(3, "mean").compute()""",
)


def cells(on_cpu: bool) -> list[str]:
    """The cells of the notebook; on the CPU they compute less."""
    sizes = {"rows": 2_000, "rides": 2_000_000} if on_cpu else {"rows": 4_000_000, "rides": 4_000_000_000}
    first, *others = [cell.format(**sizes) for cell in CELLS]
    return [first.replace("start", "start --cpu --workers 2") if on_cpu else first, *others]


def work(runtime: Path, kernel_id: str, sources: list[str], keep: Any) -> None:
    """Run the cells in a kernel of the server, and keep what they show."""
    client = BlockingKernelClient(connection_file=str(runtime / f"kernel-{kernel_id}.json"))
    client.load_connection_file()
    client.start_channels(hb=False)
    client.kernel_info(reply=True, timeout=60)
    time.sleep(1)  # until its other channel is connected, too
    for index, code in enumerate(sources):
        keep({"cell": index, "began": True})
        reply = client.execute_interactive(code, timeout=120, output_hook=partial(show, index, keep))
        keep({"cell": index, "count": reply["content"]["execution_count"]})
        time.sleep(1)
    client.stop_channels()


def show(index: int, keep: Any, message: dict[str, Any]) -> None:
    """Keep what changes the output of a cell, and print errors."""
    if message["msg_type"] in SHOWN:
        keep({"cell": index, "type": message["msg_type"], **message["content"]})
    if message["msg_type"] == "error":
        print("\n".join(message["content"]["traceback"]), file=sys.stderr)


def record(folder: Path, sources: list[str], limit: float) -> tuple[list[Any], list[Any]]:
    """What the server says, and what the cells show, each with its second, until some seconds after the last cell."""
    command = [sys.executable, "-P", "-m", "jupyter_server", "--no-browser", "--allow-root", "--port=0"]
    command += [f"--IdentityProvider.token={TOKEN}", f"--ServerApp.root_dir={folder}"]
    command += ["--ServerApp.jpserver_extensions={'jupyter_gpudask': True}"]
    environment = os.environ | {"JUPYTER_RUNTIME_DIR": str(folder), "JUPYTER_CONFIG_DIR": str(folder)}
    server = subprocess.Popen(command, env=environment)
    try:
        info = folder / f"jpserver-{server.pid}.json"
        while not (info.exists() and info.read_text().endswith("}")):
            time.sleep(0.1)
        url = json.loads(info.read_text())["url"].replace("localhost", "127.0.0.1")
        order = {"path": NOTEBOOK, "name": NOTEBOOK, "type": "notebook", "kernel": {"name": "python3"}}
        asked = urllib.request.Request(url + "api/sessions", json.dumps(order).encode(), TOKEN_HEADER)
        with urllib.request.urlopen(asked, timeout=60) as answer:
            kernel_id = json.load(answer)["kernel"]["id"]
        stream = websocket.create_connection(f"ws{url[4:]}gpudask/api/stream", header=TOKEN_HEADER, timeout=30)
        begin = time.monotonic()
        messages: list[tuple[float, Any]] = []
        outputs: list[tuple[float, Any]] = []

        def keep(output: Any) -> None:
            outputs.append((round(time.monotonic() - begin, 2), output))

        worker = threading.Thread(target=work, args=(folder, kernel_id, sources, keep), daemon=True)
        worker.start()
        end = limit
        while not messages or messages[-1][0] < end:
            message = json.loads(stream.recv())
            messages.append((round(time.monotonic() - begin, 2), message))
            if not worker.is_alive():
                end = min(end, outputs[-1][0] + PAUSE)
        return messages, outputs
    finally:
        server.terminate()
        server.wait(30)


def main() -> int:
    """Record; 1 if nothing was busy."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--limit", type=float, default=80, help="seconds after which it ends, also if cells still run")
    parser.add_argument("--cpu", action="store_true", help="try the script on a machine without GPUs")
    options = parser.parse_args()
    sources = cells(options.cpu)
    with tempfile.TemporaryDirectory() as folder:
        messages, outputs = record(Path(folder), sources, options.limit)
    busy = max(
        (gpu["utilization"] or 0 for _, message in messages for gpu in (message["gpus"] or {}).get("gpus", ())),
        default=0,
    )
    made = header() | {"cells": {NOTEBOOK: sources}, "messages": messages, "outputs": outputs}
    options.out.write_text(json.dumps(made, separators=(",", ":")).replace("],[", "],\n[") + "\n")
    print(f"{len(messages)} messages, {len(outputs)} outputs; a GPU was up to {busy} % busy")
    return int(not busy)


if __name__ == "__main__":
    sys.exit(main())
