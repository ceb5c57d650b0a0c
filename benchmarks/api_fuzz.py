"""Bad requests by the thousand: schemathesis against the server's own OpenAPI description, all checks.

It needs ``pip install schemathesis``, in any environment; ``--schemathesis`` names the program. The kernel id that
half of the requests name is that of a real kernel, so clusters are started and closed while it runs.
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
import urllib.request
from pathlib import Path

from report import header, publish

TOKEN = "fuzz"  # noqa: S105

KERNEL = """
[parameters]
"path.kernel_id" = "{kernel_id}"
"""


def request(url: str, path: str, body: object = None) -> dict:
    """What the server answers, as JSON."""
    data = None if body is None else json.dumps(body).encode()
    headers = {"Authorization": f"token {TOKEN}"}
    with urllib.request.urlopen(urllib.request.Request(url + path, data=data, headers=headers), timeout=30) as answer:
        return json.load(answer)


def main() -> int:
    """Run it; the exit status is that of schemathesis."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--schemathesis", default="schemathesis")
    parser.add_argument("--examples", type=int, default=1250, help="for each operation and phase")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--real-kernel", action="store_true", help="name a real kernel: clusters come and go")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        environment = os.environ | {"JUPYTER_RUNTIME_DIR": folder, "JUPYTER_CONFIG_DIR": folder}
        command = [sys.executable, "-m", "jupyter_server", "--no-browser", "--allow-root", "--port=0"]
        command += [f"--IdentityProvider.token={TOKEN}", f"--ServerApp.root_dir={folder}"]
        command += ["--ServerApp.jpserver_extensions={'jupyter_gpudask': True}", "--GpuDask.max_workers=2"]
        with (Path(folder) / "server.log").open("wb") as log:
            server = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
        try:
            return fuzz(server, Path(folder), options)
        finally:
            server.terminate()
            server.wait(30)


def fuzz(server: subprocess.Popen, folder: Path, options: argparse.Namespace) -> int:
    """Send the requests, and tell what came of them."""
    info = folder / f"jpserver-{server.pid}.json"
    while not info.exists():
        time.sleep(0.1)
    url = json.loads(info.read_text())["url"]
    schema = folder / "openapi.json"
    schema.write_text(json.dumps(request(url, "gpudask/api/openapi.json")))
    settings = folder / "schemathesis.toml"
    if options.real_kernel:
        kernel_id = request(url, "api/kernels", {"name": "python3"})["id"]
        settings.write_text(KERNEL.format(kernel_id=kernel_id))
    else:
        settings.write_text("")
    began = time.monotonic()
    command = [options.schemathesis, "--config-file", str(settings), "run", str(schema)]
    command += ["--url", f"{url}gpudask/api", "--header", f"Authorization: Bearer {TOKEN}", "--checks", "all"]
    command += ["--exclude-checks", "missing_required_header"]  # Jupyter answers 403 where this wants 401
    command += ["--max-examples", str(options.examples), "--seed", str(options.seed), "--continue-on-failure"]
    command += ["--request-timeout", "60", "--no-color"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    print(done.stdout[-12000:], done.stderr[-2000:])
    counts = re.findall(r"(\d+) generated", done.stdout)
    report = {
        **header(),
        "examples": sum(int(count) for count in counts),
        "server_errors": (folder / "server.log").read_text().count("Traceback"),
        "passed": done.returncode == 0,
        "seconds": round(time.monotonic() - began, 1),
    }
    publish(report, options.out)
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())
