"""Authentication and authorization."""

import contextlib
import http.cookiejar
import os
import stat
import subprocess
import sys
import urllib.request
from pathlib import Path

import psutil
import pytest
import websocket
from helpers import addresses_of_session, pids_of_session, places_of
from servers import joined_to

pytestmark = pytest.mark.cluster

PATHS = ["gpus", "presets", "clusters", "clusters/x", "clusters/x/logs", "openapi.json"]


def test_no_method_is_available_without_authentication(server):
    # Jupyter Server logs handlers that do not declare it.
    assert "jupyter_gpudask | extension was successfully loaded" in server.log
    assert "registered for /a%40b/gpudask" not in server.log
    verbs = ["scale", "adapt", "restart"]
    for path in [*PATHS, "stream", *(f"clusters/x/{verb}" for verb in verbs), "../dashboard/x/status"]:
        for method in ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"):
            answer = server.fetch(path, method, headers={})
            # Python 3.14 asks for the login page with HEAD, too, which redirects to itself.
            is_login_page = b"Password or token" in answer.text or "/login?" in answer.headers.get("Location", "")
            assert is_login_page or answer.status in (403, 404, 405), (path, method)


@pytest.mark.parametrize("headers", [{}, {"Authorization": "token wrong"}], ids=["none", "wrong"])
def test_requests_without_a_valid_token_get_only_an_error(server, headers):
    for path in PATHS:
        answer = server.fetch(path, headers=headers)
        assert answer.status == 403, path
        assert set(answer.body) == {"message", "fix", "kind", "field", "error", "others"}
        assert answer.body["message"] == "Forbidden"
        for method in ("POST", "DELETE"):
            assert server.fetch(path, method, {} if method == "POST" else None, headers=headers).status in (403, 405)


def test_another_origin_and_a_change_by_cookie_without_the_xsrf_token_are_refused(server):
    cookie = cookie_of(server)
    with pytest.raises(websocket.WebSocketBadStatusException, match="403"):
        server.socket("stream", token=False)
    with pytest.raises(websocket.WebSocketBadStatusException, match="403"):
        server.socket("stream", token=False, origin="https://evil.example", cookie=cookie)
    answer = server.fetch("gpus", headers={"Cookie": cookie, "Origin": "https://evil.example"})
    assert answer.status in (403, 404)
    assert server.fetch("gpus").status == 200
    body = {"kernel_id": "none"}
    assert server.fetch("clusters", "POST", body, headers={"Cookie": cookie}).status == 403
    xsrf = dict(part.split("=", 1) for part in cookie.split("; "))["_xsrf"]
    allowed = {"Cookie": cookie, "X-XSRFToken": xsrf}
    assert server.fetch("clusters", "POST", body, headers=allowed).status == 404


def cookie_of(server):
    """The cookies of a browser after login."""
    jar = http.cookiejar.CookieJar()
    browser = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(jar))
    browser.open(f"{server.url}login?token={server.token}", timeout=30).close()
    return "; ".join(f"{cookie.name}={cookie.value}" for cookie in jar)


# Of the dashboard, which only the Jupyter server and the supervisor know.
DASHBOARD = """
import inspect
def find(dask_scheduler):
    guard = inspect.getclosurevars(type(dask_scheduler.http_application).find_handler).nonlocals["handler_of"]
    return inspect.getclosurevars(guard).nonlocals["secret"]
print(started.client.run_on_scheduler(find))
"""


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


AUTHORIZER = """
import os
from pathlib import Path
from jupyter_server.auth.authorizer import Authorizer

class OnlyAllowed(Authorizer):
    def is_authorized(self, handler, user, action, resource):
        return resource != "gpudask" or action in Path(os.environ["ALLOWED"]).read_text().split()
"""


@pytest.fixture(scope="module")
def guarded_server(server_in):
    """A server with folders of its own and an authorizer, whose processes note what they import and connect to."""

    def environment(folder):
        for name, text in {"sitecustomize.py": AUDIT, "only_allowed.py": AUTHORIZER, "allowed": ""}.items():
            (folder / name).write_text(text)
        files = {"JUPYTER_RUNTIME_DIR": "runtime", "TMPDIR": "tmp", "AUDIT": "audit", "ALLOWED": "allowed"}
        for name in ("runtime", "tmp"):
            (folder / name).mkdir()
        return {**os.environ, "PYTHONPATH": str(folder), **{name: str(folder / file) for name, file in files.items()}}

    return server_in(environment, ["--ServerApp.authorizer_class=only_allowed.OnlyAllowed"])


@pytest.fixture(scope="module")
def guarded_kernel(guarded_server):
    """A kernel of that server, with a cluster."""
    allowed(guarded_server).write_text("read write")
    kernel = guarded_server.kernel("analysis.ipynb")
    kernel.ok("%load_ext jupyter_gpudask\nstarted = %gpudask start --cpu 2 --protocol tcp")
    return kernel


def allowed(server):
    """The file with the actions that the authorizer allows."""
    return server.root.parent / "allowed"


def test_each_request_needs_authorization(guarded_server, guarded_kernel):
    server = guarded_server

    def status(path, method="GET"):
        return server.fetch(path, method, prefix="gpudask/").status

    def upgrade(path):
        try:
            server.socket(path, prefix="gpudask/", origin=server.url.rstrip("/")).close()
        except websocket.WebSocketBadStatusException as error:
            return error.status_code
        return 101

    page, sockets = f"dashboard/{guarded_kernel.id}/status", ["api/stream", f"dashboard/{guarded_kernel.id}/status/ws"]
    with joined_to(server, "http://127.0.0.1:1/status") as joined:
        joined_page = f"dashboard/{joined.id}/status"
        for actions in ("", "read", "write", "execute"):
            allowed(server).write_text(actions)
            reads = {status(path) == 200 for path in (page, *(f"api/{path}" for path in PATHS if "x" not in path))}
            assert reads == {actions == "read"}, actions
            writes = {status(f"api/clusters/x{verb}", "POST") == 403 for verb in ("/restart", "/scale", "/keep")}
            assert writes | {status("api/clusters/x", "DELETE") == 403} == {actions != "write"}, actions
            assert {upgrade(path) for path in sockets} == {101 if actions == "execute" else 403}, actions
            assert (status(joined_page) == 403) is (actions != "execute"), actions
        allowed(server).write_text("read")


def test_no_secret_of_a_cluster_is_visible_and_no_process_connects_to_another_machine(guarded_server, guarded_kernel):
    server, kernel, folder = guarded_server, guarded_kernel, guarded_server.root.parent
    allowed(server).write_text("read write execute")
    replies = [kernel.ok("started")]
    kernel.ok("%%gpudask\nimport dask.array as da\nda.ones((40, 40), chunks=10).sum().compute()")
    secrets = [key_of(kernel), kernel.ok(DASHBOARD).printed.strip()]
    assert [len(secret) > 40 for secret in secrets] == [True, True]
    commands = ("status", "logs", "doctor", "gpus")
    replies += [kernel.ok(f"shown = %gpudask {command}\nprint(shown)\nshown") for command in commands]
    page = server.fetch(f"{kernel.id}/status", prefix="gpudask/dashboard/")
    assert b"Dask" in page.text
    answers = [page, server.fetch("clusters"), server.fetch(f"clusters/{kernel.id}/logs")]
    with contextlib.closing(server.socket("stream")) as stream:
        replies.append(stream.recv())
    assert [secret for secret in secrets if secret in str(replies) + str([answer.text for answer in answers])] == []
    assert str(server.log_path) in places_of(["ServerApp"], folder)  # a text that is there is found
    assert places_of(secrets, folder) == []
    processes = [psutil.Process(pid) for pid in pids_of_session(server.cluster(kernel)["pid"])]
    assert server.token not in str([(process.cmdline(), process.environ()) for process in processes])
    (directory,) = (folder / "tmp").glob("jupyter-gpudask-*")
    assert stat.S_IMODE(directory.stat().st_mode) == 0o700
    kernel.ok("started = %gpudask restart")
    assert key_of(kernel) != secrets[0]

    kernel.ok("%gpudask stop")
    server.stop()
    noted = {tuple(line.split(" ", 1)) for line in (folder / "audit").read_text().splitlines()}
    assert {what for _, what in noted if not what.startswith("imports")} <= HERE
    assert len([what for _, what in noted if what == "connects 127.0.0.1"]) > 3, "each process writes it down"
    assert {what for pid, what in noted if pid != str(server.pid)} >= {"imports dask", "imports distributed"}
    assert [what for pid, what in noted if pid == str(server.pid) and what.startswith("imports")] == []


def key_of(kernel):
    """A line of the private key of a cluster with TLS."""
    return kernel.ok("print(started.client.security.tls_client_key)").printed.split("\n")[1]


STRANGER = """
import asyncio, os, socket, sys, urllib.request
from distributed.core import rpc
from distributed.security import Security

credentials = Security.temporary()
os.setuid(int(sys.argv[1]))

async def ask(port, scheme, security):
    address, arguments = f"{scheme}://127.0.0.1:{port}", security.get_connection_args("client")
    try:
        async with rpc(address, connection_args=arguments, timeout=3) as server:
            return address, await asyncio.wait_for(server.identity(), 3)
    except Exception:
        return None

def read(port, path):
    url = f"http://127.0.0.1:{port}{path}"
    try:
        with urllib.request.urlopen(url, timeout=3) as page:
            return url, page.read()[:100]
    except Exception:
        return None

async def main(ports):
    pages = ("/", "/status", "/info/main/workers.html", "/metrics", "/json/counts.json")
    tries = [ask(port, *how) for port in ports for how in (("tcp", Security()), ("tls", credentials))]
    tries += [asyncio.to_thread(read, port, page) for port in ports for page in pages]
    print([answer for answer in await asyncio.gather(*tries) if answer])
    for path in paths:
        try:
            socket.socket(socket.AF_UNIX).connect(path)
            print(path)
        except PermissionError:
            pass

ports, paths = (list(group) for group in (filter(str.isdigit, sys.argv[2:]), filter(os.path.isabs, sys.argv[2:])))
asyncio.run(main(ports))
"""


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become another user")
def test_another_user_of_the_machine_gets_no_answer_at_any_port_of_a_cluster(server, kernel):
    cluster = server.start(kernel)
    ports = {str(address.port) for address in addresses_of_session(cluster["pid"])}
    assert len(ports) >= 2  # the HTTP servers of scheduler and worker
    lock = next(file.path for file in psutil.Process(cluster["pid"]).open_files() if "gpudask-" in file.path)
    sockets = [str(path) for path in Path(lock).parent.glob("sockets/*")]
    assert len(sockets) >= 3  # scheduler, nanny, worker
    command = [sys.executable, "-c", STRANGER, "65534", *ports, *sockets]
    assert subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout == "[]\n"
