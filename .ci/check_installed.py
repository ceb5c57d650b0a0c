"""``check_installed.py lab|notebook``: start that server and run a cell; prints a row of docs/versions.md.

The packages are those of the environment of this interpreter, whose folder `bin` is the first on the ``PATH``.
"""

import json
import os
import platform
import re
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any

from jupyter_client import BlockingKernelClient

LIMIT = 120
CELL = "%%gpudask\nimport dask.array as da\nfloat(da.ones((100, 100), chunks=50).sum().compute())"


def wait_for(condition: Callable[[], Any], what: str) -> Any:
    """The first true value of `condition`; the program ends if it does not come."""
    deadline = time.monotonic() + LIMIT
    while not (value := condition()):
        if time.monotonic() > deadline:
            sys.exit(f"{what}: not within {LIMIT} s")
        time.sleep(0.1)
    return value


@contextmanager
def server(program: str) -> Any:
    """Start the server; gives a function that sends a request, and the folder of its kernels' connection files."""
    runtime = Path(os.environ["JUPYTER_RUNTIME_DIR"])
    command = ["jupyter", program, "--no-browser", "--allow-root", "--ServerApp.port=0"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            path = runtime / f"jpserver-{process.pid}.json"
            text = wait_for(lambda: path.exists() and path.read_text().endswith("}") and path.read_text(), "the server")
            information = json.loads(text)

            def send(path: str, method: str = "GET") -> Any:
                headers = {"Authorization": f"token {information['token']}"}
                request = urllib.request.Request(information["url"] + path, method=method, headers=headers)
                with urllib.request.urlopen(request, timeout=LIMIT) as response:
                    text = response.read().decode()
                return json.loads(text) if "json" in response.headers.get("Content-Type", "") else text

            def answers() -> bool:
                try:
                    return bool(send("api/status"))
                except OSError:
                    return False

            wait_for(answers, "the server")
            yield send, runtime
        finally:
            process.terminate()


def connect(connection_file: Path) -> BlockingKernelClient | None:
    """A client of a kernel; `None` if its heartbeat is late, as on a busy machine."""
    client = BlockingKernelClient(connection_file=str(connection_file))
    client.load_connection_file()
    client.start_channels()
    try:
        client.wait_for_ready(timeout=LIMIT)
    except RuntimeError:
        client.stop_channels()
        return None
    return client


def run(client: BlockingKernelClient, code: str) -> str:
    """The value of a cell, as text; the program ends if it fails."""
    values = []

    def take(message: dict[str, Any]) -> None:
        if message["msg_type"] == "execute_result":
            values.append(message["content"]["data"]["text/plain"])

    reply = client.execute_interactive(code, output_hook=take, timeout=LIMIT)["content"]
    if reply["status"] != "ok":
        sys.exit(f"{code!r} failed: {reply['ename']}: {reply['evalue']}")
    return "".join(values)


def panel() -> str:
    """What JupyterLab says of the front end."""
    command = ["jupyter", "labextension", "list"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    listing = re.sub(r"\x1b\[[0-9;]*m", "", done.stdout + done.stderr)
    return "yes" if re.search(r"jupyter-gpudask v\S+ enabled +OK", listing) else "incompatible"


def main(program: str) -> None:
    """Check the environment, and print the row."""
    with server(program) as (send, runtime):
        if "jupyter-gpudask" not in send("tree" if program == "notebook" else "lab"):
            sys.exit("The page does not load the front end.")
        kernel = send("api/kernels", "POST")["id"]
        client = wait_for(lambda: connect(runtime / f"kernel-{kernel}.json"), "the kernel")
        run(client, "%load_ext jupyter_gpudask")
        value = run(client, CELL)
        clusters = [each["kernel_id"] for each in send("gpudask/api/clusters")["clusters"]]
        if (value, clusters) != ("10000.0", [kernel]):
            sys.exit(f"The cell gave {value}, and the server has clusters for {clusters}.")
        send(f"api/kernels/{kernel}", "DELETE")
        wait_for(lambda: not send("gpudask/api/clusters")["clusters"], "the end of the cluster")
    front = f"Notebook {version('notebook')}" if program == "notebook" else f"JupyterLab {version('jupyterlab')}"
    print(f"| {platform.python_version()} | {front} | {version('dask')} | yes | yes | {panel()} |")


if __name__ == "__main__":
    main(*sys.argv[1:])
