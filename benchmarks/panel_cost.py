"""What does the panel cost the browser?

A real server with 8 pretend GPUs and 8 clusters of 8 workers (programs that speak the supervisor's protocol), all of
whose metrics change every second; JupyterLab in a headless Chromium, watched through its DevTools protocol:

- how many bytes the extension adds to Lab's start,
- what share of one core all processes of the browser take more with the panel open than with it closed,
- how much longer scripts run for each message, in the panel and in the history with all its 15 minutes, and in the
  history when a cluster of 500 workers has come,
- how evenly frames come while a list of 500 workers scrolls.

It needs `jlpm build:prod`, and the packages of labextension/ui-tests.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from report import header, publish
from server_loop import ROOT, TOKEN, Server

MOST_BYTES = 65_000
"""The largest number of bytes that the extension may add to the start of JupyterLab."""

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


def add_kernel(folder: Path, name: str, workers: int) -> None:
    """A kernel whose clusters have so many workers."""
    specification = json.loads((folder / "kernels" / "small" / "kernel.json").read_text())
    specification["env"] = {"WORKERS": str(workers)}
    (folder / "kernels" / name).mkdir()
    (folder / "kernels" / name / "kernel.json").write_text(json.dumps(specification))


def main() -> int:
    """Measure, and say whether the limits hold."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--seconds",
        type=int,
        default=60,
        help="how long each state is watched; 0 measures only the bytes, which no other load of the machine changes",
    )
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "sitecustomize.py").write_text(
            RESTLESS_GPUS.format(fake=str(ROOT / "tests" / "fake_gpus" / "sitecustomize.py"))
        )
        (folder / "long_past.py").write_text(LONG_PAST)
        (folder / "jupyter_server_config.json").write_text('{"LabApp": {"expose_app_in_browser": true}}')
        server = Server(folder, "jupyter_gpudask", "jupyterlab", "long_past", variables={"FAKE_GPUS": "8"})
        try:
            add_kernel(folder, "huge", 500)
            kernels = [server.cluster("small") for _ in range(8)]
            while any(server.request(f"gpudask/api/clusters/{kernel}")["status"] == "starting" for kernel in kernels):
                time.sleep(0.2)
            command = ["node", str(Path(__file__).with_suffix(".mjs")), server.url, TOKEN, str(options.seconds)]
            measured = json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)
        finally:
            server.stop()
    result = {
        **header(),
        "gpus": 8,
        "workers": 64,
        **measured,
    }
    publish(result, options.out)
    if options.seconds == 0:
        return 0 if result["bytes_at_start"] < MOST_BYTES else 1
    views = [result[name] for name in ("panel", "history")]
    is_quick = result["panel"]["core_percent"] < 3 and all(view["script_ms_per_tick"] < 4 for view in views)
    return 0 if is_quick and result["bytes_at_start"] < MOST_BYTES else 1


if __name__ == "__main__":
    sys.exit(main())
