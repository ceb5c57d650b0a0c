"""Notebooks that compute at the same time, each on GPUs of its own, through one Jupyter server."""

from __future__ import annotations

import json
import statistics
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import websocket
from jupyter_client import BlockingKernelClient
from report import header
from server_loop import TOKEN, Server

from .plan import NOTEBOOKS

if TYPE_CHECKING:
    from concurrent.futures import Future

    from .works import Sizes

NAMES = ("fluid-simulation", "taxi-fares", "climate-anomalies", "gene-expression")
# Seconds for which the notebooks compute, and those for a start and for a single run.
BUSY, LIMIT = 15.0, 120
REQUESTS = 300
CELL = """%%gpudask --dataframe {frames}
import time
import dask.array as da
while time.time() < {begin}:
    time.sleep(0.01)
seconds = []
while time.time() < {begin} + {busy}:
    began = time.perf_counter()
    x = da.random.normal(10, 1, size=({side}, {side}), chunks=({block}, {block}))
    total = float((x + 1)[::2, ::2].sum().compute())
    seconds.append(time.perf_counter() - began)
    assert abs(total - 11 * ({side} // 2) ** 2) < 3 * {side}, total
"""


class Notebook:
    """A notebook of the server, with a kernel."""

    def __init__(self, server: Server, folder: Path, name: str) -> None:
        self.name = f"{name}.ipynb"
        order = {"path": self.name, "name": self.name, "type": "notebook", "kernel": {"name": "python3"}}
        self.kernel_id = server.request("api/sessions", "POST", order)["kernel"]["id"]
        self._client = _connect(folder / f"kernel-{self.kernel_id}.json")

    def run(self, code: str) -> str:
        """Run a cell; what it prints.

        Raises
        ------
        RuntimeError
            The cell raised an error, which the message has.
        """
        printed: list[str] = []

        def take(message: dict[str, Any]) -> None:
            if message["msg_type"] == "stream":
                printed.append(message["content"]["text"])

        reply = self._client.execute_interactive(code, timeout=LIMIT, output_hook=take)["content"]
        if reply["status"] != "ok":
            raise RuntimeError(f"{self.name}: {reply.get('ename')}: {reply.get('evalue')}")
        return "".join(printed)

    def start(self, gpus: int) -> float:
        """Start a cluster with that many GPUs; the seconds it took."""
        self.run("%load_ext jupyter_gpudask")
        began = time.perf_counter()
        self.run(f"%gpudask start --gpus {gpus}")
        return round(time.perf_counter() - began, 2)

    def compute(self, begin: float, side: int, sizes: Sizes) -> list[float]:
        """Run the cell again and again from the time `begin` on; the seconds of each run but the first, a warm-up."""
        self.run(CELL.format(begin=begin, busy=BUSY, side=side, block=sizes.cell_block, frames=sizes.frames))
        seconds: list[float] = json.loads(self.run("import json; print(json.dumps(seconds))"))
        return [round(each, 3) for each in seconds[1:] or seconds]

    def close(self) -> None:
        """Close the connection; the kernel ends with the server."""
        self._client.stop_channels()


def _connect(file: Path) -> BlockingKernelClient:
    """Connect to a kernel as soon as it responds."""
    began = time.monotonic()
    while True:
        client = BlockingKernelClient(connection_file=str(file))
        client.load_connection_file()
        client.start_channels()
        try:
            client.wait_for_ready(timeout=LIMIT)
        except RuntimeError:  # also if a kernel that is starting misses a heartbeat
            client.stop_channels()
            if time.monotonic() - began > LIMIT:
                raise
        else:
            return client


class Recording:
    """The messages of the stream, each with the seconds since the first."""

    def __init__(self, server: Server) -> None:
        self.messages: list[tuple[float, Any]] = []
        address = f"ws{server.url[4:]}gpudask/api/stream"
        self._socket = websocket.create_connection(address, header=[f"Authorization: token {TOKEN}"], timeout=30)
        self._thread = threading.Thread(target=self._receive, daemon=True)
        self._thread.start()

    def _receive(self) -> None:
        began = time.monotonic()
        with suppress(websocket.WebSocketException, OSError):
            while text := self._socket.recv():
                self.messages.append((round(time.monotonic() - began, 2), json.loads(text)))

    def close(self) -> None:
        """Close the stream."""
        self._socket.close()
        self._thread.join(10)

    def write(self, file: Path) -> None:
        """Write it as ``benchmarks/record_stream.py`` does."""
        made = {name: value for name, value in header().items() if name != "command"} | {"messages": self.messages}
        file.write_text(json.dumps(made, separators=(",", ":")).replace("],[", "],\n[") + "\n")

    def busy(self) -> dict[str, float]:
        """The highest utilization of each GPU, in percent."""
        highest: dict[str, float] = {}
        for _, message in self.messages:
            for gpu in (message["gpus"] or {}).get("gpus", ()):
                highest[gpu["uuid"]] = max(highest.get(gpu["uuid"], 0), gpu["utilization"] or 0)
        return highest


def run_notebooks(gpus: int, sizes: Sizes, recording: Path | None) -> dict[str, Any]:
    """Run up to four notebooks at once, each with an equal share of the GPUs.

    Meanwhile a client receives the stream, for which the server reads its metrics once per second, and the response
    time of the server is measured as in ``benchmarks/server_loop.py``.
    """
    count = min(NOTEBOOKS, gpus)
    share = gpus // count
    blocks = max(2, round(sizes.cell / sizes.cell_block * (share / gpus) ** 0.5))
    side = blocks * sizes.cell_block
    with tempfile.TemporaryDirectory() as name, ThreadPoolExecutor(count) as pool:
        folder = Path(name)
        server = Server(folder, "jupyter_gpudask", variables={})
        notebooks: list[Notebook] = []
        try:
            idle = server.status_times(REQUESTS)
            notebooks += [Notebook(server, folder, name) for name in NAMES[:count]]
            stream = Recording(server)
            starts = _results([pool.submit(notebook.start, share) for notebook in notebooks])
            held = {each.name: _gpus_of(server, each) for each in notebooks}
            begin = time.time() + 1
            computing = [pool.submit(notebook.compute, begin, side, sizes) for notebook in notebooks]
            time.sleep(max(0, begin + BUSY / 4 - time.time()))
            loaded = server.status_times(REQUESTS)
            runs = _results(computing)
            stream.close()
        except BaseException:
            print(server.log.read_text()[-3000:])
            raise
        finally:
            for notebook in notebooks:
                notebook.close()
            server.stop()
    if recording:
        stream.write(recording)
    uuids = [uuid for each in held.values() for uuid in each]
    assert len(uuids) == len(set(uuids)) == count * share, f"the notebooks hold {held}"
    return {
        "gpus_of_each": share,
        "side": side,
        "start": starts,
        "held": held,
        "runs": dict(zip(held, runs, strict=True)),
        "seconds": {name: round(statistics.median(each), 3) for name, each in zip(held, runs, strict=True)},
        "status_idle": idle,
        "status_loaded": loaded,
        "messages": len(stream.messages),
        "utilization": stream.busy(),
    }


def _results(futures: list[Future[Any]]) -> list[Any]:
    """The results, or the first error after all have ended: a kernel's client cannot be closed while it is in use."""
    wait(futures)
    return [each.result() for each in futures]


def _gpus_of(server: Server, notebook: Notebook) -> list[str]:
    found: list[str] = server.request(f"gpudask/api/clusters/{notebook.kernel_id}")["gpus"]
    return found
