"""No telemetry, and a server without Dask: what Python itself reports of each process of a session."""

import contextlib
import os

import pytest

pytestmark = pytest.mark.cluster

HERE = {f"{what} {host}" for what in ("connects", "looks up") for host in ("127.0.0.1", "localhost", "::1")}

# Writes down each address of the network, and each import of a heavy package, with the pid.
AUDIT = """
import os, socket, sys

HEAVY = {"dask", "distributed", "dask_cuda", "cupy", "cudf", "rmm"}

def audit(event, arguments):
    if event == "import" and arguments[0] in HEAVY:
        note("imports", arguments[0])
    elif event == "socket.connect" and arguments[0].family != socket.AF_UNIX:
        if arguments[0].type == socket.SOCK_STREAM:  # to connect a datagram socket sends nothing
            note("connects", arguments[1][0])
    elif event == "socket.sendto" and arguments[0].family != socket.AF_UNIX:
        note("connects", arguments[1][0])
    elif event == "socket.getaddrinfo":
        note("looks up", arguments[0])

def note(*words):
    os.write(file, f"{os.getpid()} {' '.join(map(str, words))}\\n".encode())

file = os.open(os.environ["AUDIT"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
sys.addaudithook(audit)
"""


def test_no_process_connects_to_another_machine_and_the_server_never_imports_dask(own_server, tmp_path):
    (tmp_path / "sitecustomize.py").write_text(AUDIT)
    file = tmp_path / "audit"
    server = own_server(environment={**os.environ, "PYTHONPATH": str(tmp_path), "AUDIT": str(file)})
    kernel = server.kernel("analysis.ipynb")
    with contextlib.closing(server.socket("stream")) as stream:
        assert stream.recv()
    kernel.ok("%load_ext jupyter_gpudask\nstarted = %gpudask start --cpu 2 --protocol tcp")
    kernel.ok("%%gpudask\nimport dask.array as da\nda.ones((40, 40), chunks=10).sum().compute()")
    for command in ("status", "logs", "doctor", "gpus"):
        kernel.ok(f"shown = %gpudask {command}")
    assert b"Dask" in server.fetch(f"{kernel.id}/status", prefix="gpudask/dashboard/").text
    kernel.ok("%gpudask stop")
    server.stop()
    noted = {tuple(line.split(" ", 1)) for line in file.read_text().splitlines()}
    assert {what for _, what in noted if not what.startswith("imports")} <= HERE
    assert len([what for _, what in noted if what == "connects 127.0.0.1"]) > 3, "each process writes it down"
    assert {what for pid, what in noted if pid != str(server.pid)} >= {"imports dask", "imports distributed"}
    assert [what for pid, what in noted if pid == str(server.pid) and what.startswith("imports")] == []
