"""Authentication and authorization."""

import http.cookiejar
import os
import subprocess
import sys
import urllib.request
from pathlib import Path

import psutil
import pytest
import websocket
from helpers import pids_of_session

pytestmark = pytest.mark.cluster

PATHS = ["gpus", "profiles", "clusters", "clusters/x", "clusters/x/logs", "openapi.json"]


def test_each_method_of_each_handler_declares_its_authorization(server):
    """Jupyter Server logs those that do not when it starts."""
    assert "jupyter_gpudask | extension was successfully loaded" in server.log
    assert "registered for /a%40b/gpudask" not in server.log


@pytest.mark.parametrize("verb", ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"])
@pytest.mark.parametrize(
    "path", [*PATHS, "stream", "clusters/x/scale", "clusters/x/adapt", "clusters/x/restart", "../dashboard/x/status"]
)
def test_no_method_is_available_without_authentication(server, path, verb):
    answer = server.fetch(path, verb, headers={})
    # Python 3.14 asks for the login page with HEAD, too, which redirects to itself.
    is_login_page = b"Password or token" in answer.text or "/login?" in answer.headers.get("Location", "")
    assert is_login_page or answer.status in (403, 404, 405)


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("headers", [{}, {"Authorization": "token wrong"}])
def test_requests_without_a_valid_token_get_only_an_error(server, path, headers):
    answer = server.fetch(path, headers=headers)
    assert answer.status == 403
    assert set(answer.body) == {"message", "fix", "kind", "field", "others"}
    assert answer.body["message"] == "Forbidden"
    for method in ("POST", "DELETE"):
        assert server.fetch(path, method, {} if method == "POST" else None, headers=headers).status in (403, 405)


def test_a_page_of_another_origin_is_refused(server):
    token = f"token {server.token}"
    with pytest.raises(websocket.WebSocketBadStatusException, match="403"):
        server.socket("stream", token=False, origin="https://evil.example", cookie=cookie_of(server))
    answer = server.fetch("gpus", headers={"Cookie": cookie_of(server), "Origin": "https://evil.example"})
    assert answer.status in (403, 404)
    assert server.fetch("gpus", headers={"Authorization": token}).status == 200


def test_a_request_that_changes_something_by_cookie_needs_the_xsrf_token(server):
    cookie = cookie_of(server)
    body = {"kernel_id": "none"}
    assert server.fetch("clusters", "POST", body, headers={"Cookie": cookie}).status == 403
    xsrf = dict(part.split("=", 1) for part in cookie.split("; "))["_xsrf"]
    allowed = {"Cookie": cookie, "X-XSRFToken": xsrf}
    assert server.fetch("clusters", "POST", body, headers=allowed).status == 404


def test_a_stream_without_a_token_is_refused(server):
    with pytest.raises(websocket.WebSocketBadStatusException, match="403"):
        server.socket("stream", token=False)


def cookie_of(server):
    """The cookies of a browser after login."""
    jar = http.cookiejar.CookieJar()
    browser = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(jar))
    browser.open(f"{server.url}login?token={server.token}", timeout=30).close()
    return "; ".join(f"{cookie.name}={cookie.value}" for cookie in jar)


def test_no_process_has_a_secret_in_its_environment_or_command_line(server):
    kernel = server.kernel()
    cluster = server.start(kernel)
    for process in [*psutil.Process(cluster["pid"]).children(recursive=True), psutil.Process(cluster["pid"])]:
        text = " ".join(process.cmdline()) + " ".join(f"{k}={v}" for k, v in process.environ().items())
        assert "PRIVATE KEY" not in text
        assert server.token not in text


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
def test_another_user_of_the_machine_gets_no_answer_at_any_port_of_a_cluster(server):
    kernel = server.kernel()
    cluster = server.start(kernel)
    ports = {
        str(connection.laddr.port)
        for pid in pids_of_session(cluster["pid"])
        for connection in psutil.Process(pid).net_connections(kind="inet")
        if connection.status == psutil.CONN_LISTEN
    }
    assert len(ports) >= 2  # the HTTP servers of scheduler and worker
    lock = next(file.path for file in psutil.Process(cluster["pid"]).open_files() if "gpudask-" in file.path)
    sockets = [str(path) for path in Path(lock).parent.glob("sockets/*")]
    assert len(sockets) >= 3  # scheduler, nanny, worker
    command = [sys.executable, "-c", STRANGER, "65534", *ports, *sockets]
    assert subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout == "[]\n"
    server.fetch(f"kernels/{kernel.id}", "DELETE", prefix="api/")
