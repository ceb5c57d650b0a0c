"""The dashboards of clusters that somebody else started: their pages have no rights at the Jupyter server."""

import contextlib
import http.client
import re
import ssl
import subprocess
import time
from functools import partial

import pytest
import websocket
from dashboards import Program, check_resources, check_that_no_path_reaches_another_port, serving, session_token
from helpers import promised, wait_until
from others import OthersCluster, terminal
from servers import joined_to

from jupyter_gpudask.server.cluster import dashboard_origin
from jupyter_gpudask.server.dashboard_proxy import is_plain_path, redirect_target

pytestmark = pytest.mark.cluster

PREFIX = "gpudask/joined/"


@pytest.fixture(scope="module")
def server(server_in):
    return server_in(options=["--log-level=DEBUG"])


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    cluster = OthersCluster(tmp_path_factory.mktemp("others"))
    try:
        cluster.add_worker("one")
        yield cluster
    finally:
        cluster.close()


@pytest.fixture(scope="module")
def kernel(server, cluster):
    """A kernel that is connected to the cluster."""
    kernel = server.kernel("joined.ipynb")
    kernel.ok("%load_ext jupyter_gpudask")
    connect(server, kernel, cluster)
    return kernel


def connect(server, kernel, cluster):
    for _ in range(30):  # until the worker is there
        if kernel.run(f"connected = %gpudask connect {cluster.address}").status == "ok":
            break
        time.sleep(1)
    wait_until(lambda: server.cluster(kernel))


def secret_of(server, kernel):
    """The secret in the path to which the user is redirected."""
    connection = http.client.HTTPConnection(server.url.split("/")[2], timeout=30)
    try:
        path = f"{server.base}gpudask/dashboard/{kernel.id}/status"
        connection.request(
            "GET", f"{path}?a=1&token={server.token}", headers={"Authorization": f"token {server.token}"}
        )
        location = connection.getresponse().headers["Location"]
    finally:
        connection.close()
    match = re.fullmatch(rf"{server.base}{PREFIX}([\w-]{{43}})/status\?a=1", location)
    assert match, location
    return match[1]


def page(server, secret, path="/status", **options):
    """A page, as a document with an origin of its own requests it: without cookies and tokens."""
    return server.fetch(f"{secret}{path}", prefix=PREFIX, **({"headers": {}} | options))


def socket(server, secret, path="/status/ws", origin="null", **options):
    return server.socket(f"{secret}{path}", prefix=PREFIX, token=False, origin=origin, **options)


def test_the_pages_of_a_joined_cluster_are_served_to_who_knows_the_secret(server, kernel):
    secret = secret_of(server, kernel)
    check_resources(page(server, secret), lambda path: page(server, secret, path))
    for path in page(server, secret, "/individual-plots.json").body.values():
        assert is_plain_path(path)
    root = page(server, secret, "/")  # Dask redirects to the status page
    assert b"Dask" in root.text
    # The panel requests the list of plots as that of a cluster of its own.
    plots = server.fetch(f"{kernel.id}/individual-plots.json", prefix="gpudask/dashboard/")
    assert "/individual-task-stream" in plots.body.values()
    token = session_token(page(server, secret))
    with contextlib.closing(socket(server, secret, subprotocols=["bokeh", token])) as plots:
        assert plots.subprotocol == "bokeh"
        assert "ACK" in plots.recv()
        for part in ('{"msgid":"1","msgtype":"PULL-DOC-REQ"}', "{}", "{}"):
            plots.send(part)
        wait_until(lambda: "PULL-DOC-REPLY" in plots.recv())

    # Neither somebody without a token, nor the panel or the stream learn the secret.
    answer = server.fetch(f"{kernel.id}/status", prefix="gpudask/dashboard/", headers={})
    assert b"Password or token" in answer.text
    assert b"Dask" not in answer.text
    assert server.cluster(kernel)["dashboard"] == f"gpudask/dashboard/{kernel.id}/"
    assert secret not in str(server.fetch("clusters").body)
    with contextlib.closing(server.socket("stream")) as stream:
        assert secret not in stream.recv()


@pytest.mark.parametrize("path", ["/status", "/individual-plots.json", "/nothing", "/static/js/bokeh.min.js"])
def test_each_response_puts_its_document_in_a_sandbox(server, kernel, path):
    secret = secret_of(server, kernel)
    for given in (secret, "wrong" * 8):
        (policy,) = page(server, given, path).headers.get_all("Content-Security-Policy")
        directives = dict(each.split(" ", 1) for each in policy.split("; "))
        assert directives["sandbox"] == "allow-scripts"
        assert directives["frame-ancestors"] == "'self'"
        sources = directives["default-src"].split()
        assert all(each.startswith(("'unsafe-", "data:", "blob:")) or f"/{given}/" in each for each in sources)
    headers = page(server, secret, path).headers
    names = ("X-Content-Type-Options", "Referrer-Policy", "Cache-Control", "Access-Control-Allow-Origin")
    assert [headers[name] for name in names] == ["nosniff", "no-referrer", "no-store", None]


def test_other_secrets_methods_and_origins_are_refused(server, kernel):
    """A wrong secret and one of another cluster are not told apart."""
    wrong = [page(server, given) for given in ("wrong" * 8, "x", kernel.id, server.token)]
    assert {(answer.status, answer.text) for answer in wrong} == {(404, b"Not found.\n")}
    with pytest.raises(websocket.WebSocketBadStatusException, match="404"):
        socket(server, "wrong" * 8)
    secret = secret_of(server, kernel)
    for method in ("POST", "PUT", "DELETE", "PATCH", "OPTIONS", "HEAD"):
        assert page(server, secret, method=method).status in (403, 405)
    for origin in ("https://evil.example", "http://127.0.0.1", None):  # but that of a sandbox
        options = {"suppress_origin": True} if origin is None else {}
        with pytest.raises(websocket.WebSocketBadStatusException, match="403"):
            socket(server, secret, origin=origin, **options)


def test_the_secret_is_gone_after_the_kernel_has_disconnected_and_is_never_logged(server, kernel, cluster):
    secret = secret_of(server, kernel)
    token = session_token(page(server, secret))
    page(server, secret, "/nothing")
    page(server, secret, method="POST")
    with contextlib.closing(socket(server, secret, subprotocols=["bokeh", token])) as plots:
        assert "ACK" in plots.recv()
        kernel.ok("%gpudask disconnect")
        wait_until(lambda: server.cluster(kernel) is None)
        with contextlib.suppress(websocket.WebSocketConnectionClosedException):
            while plots.recv():
                pass
        assert not plots.connected
        plots.shutdown()
    assert page(server, secret).status == 404
    with pytest.raises(websocket.WebSocketBadStatusException, match="404"):
        socket(server, secret, subprotocols=["bokeh", token])
    connect(server, kernel, cluster)
    assert secret_of(server, kernel) != secret
    assert page(server, secret).status == 404
    assert "gpudask/dashboard" in server.log  # requests are logged
    assert secret not in server.log
    assert secret_of(server, kernel) not in server.log


def test_the_server_gives_the_dashboard_of_a_cluster_of_a_terminal_the_token_that_it_requires(server, kernel, cluster):
    with terminal("--cpu", "1", "--dashboard") as running:
        kernel.run("%gpudask disconnect")
        address = re.search(r"%gpudask connect (\S+)", running.line)[1]
        link = re.search(r"http://127\.0\.0\.1:(\d+)/status\?token=\w+", running.line)
        assert link[0] in kernel.ok(f"%gpudask connect {address}").value
        wait_until(lambda: server.cluster(kernel))
        secret = secret_of(server, kernel)
        answer = page(server, secret)
        check_resources(answer, lambda path: page(server, secret, path))
        with contextlib.closing(socket(server, secret, subprotocols=["bokeh", session_token(answer)])) as plots:
            assert "ACK" in plots.recv()
        connection = http.client.HTTPConnection("127.0.0.1", int(link[1]), timeout=30)
        connection.request("GET", "/status")
        assert connection.getresponse().status == 403
        connection.close()
        kernel.ok("%gpudask disconnect")
    connect(server, kernel, cluster)


class Hostile(Program):
    """A dashboard that attacks."""

    def respond(self):
        name = self.path.split("?")[0].strip("/").replace("-", "_")
        if name.startswith("redirect/"):
            return self.answer(302, Location=self.redirects[int(name.split("/")[1])])
        return getattr(self, f"get_{name}", self.get_status)()

    def get_status(self):
        script = b"<script>fetch('/api/contents')</script>"
        headers = {
            "Content-Type": "text/html",
            "Content-Security-Policy": "sandbox allow-scripts allow-same-origin",
            "Set-Cookie": "_xsrf=evil; Path=/",
            "Access-Control-Allow-Origin": "*",
            "Service-Worker-Allowed": "/",
            "Clear-Site-Data": '"cookies"',
            "WWW-Authenticate": "Basic",
            "Refresh": "0; url=/logout",
            "Link": "</logout>; rel=preload",
        }
        self.answer(200, script, **headers)

    def get_folded(self):
        self.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/html\x01\x7f;\r\n Set-Cookie: a=b\r\n")
        self.wfile.write(b"Content-Length: 2\r\nContent-Encoding: gzip\x0b\r\n\r\nok")

    def get_huge(self):
        self.send_response(200)
        self.send_header("Content-Length", str(2**40))
        self.end_headers()
        self.stream()

    def get_endless(self):
        self.send_response(200)
        self.send_header("Connection", "close")
        self.end_headers()
        self.stream()

    def get_nonsense(self):
        self.wfile.write(b"\x00" * 100 + b"\r\n\r\n")
        self.close_connection = True

    def get_silent(self):
        self.close_connection = True
        self.connection.settimeout(60)
        with contextlib.suppress(OSError):
            self.rfile.read(1)

    def get_refuses(self):
        self.answer(401, b"", **{"WWW-Authenticate": "Basic"})

    def stream(self):
        self.close_connection = True
        with contextlib.suppress(OSError):
            while True:
                self.wfile.write(b"x" * 2**20)


@pytest.fixture
def hostile(server):
    """The secret of a hostile dashboard, with what its program sees."""
    with serving(Hostile) as program, joined_to(server, f"http://127.0.0.1:{program.port}/status") as kernel:
        program.secret = secret_of(server, kernel)
        yield program


def test_nothing_of_jupyter_is_sent_to_the_dashboard(server, hostile):
    private = {
        "Cookie": f"a={server.token}",
        "Authorization": f"token {server.token}",
        "X-XSRFToken": server.token,
        "Referer": f"{server.url}lab?token={server.token}",
        "X-Forwarded-For": server.token,
    }
    page(server, hostile.secret, f"/status?b=2&token={server.token}&c", headers=private)
    jupyters = f"v1.token.websocket.jupyter.org.{server.token}"
    with pytest.raises(websocket.WebSocketBadStatusException, match="502"):
        socket(server, hostile.secret, cookie=f"a={server.token}", subprotocols=[jupyters, "bokeh"])
    assert [path for path, _ in hostile.seen] == ["/status?b=2&c", "/status/ws"]
    assert server.token not in str(hostile.seen)
    assert hostile.secret not in str(hostile.seen)
    assert hostile.seen[1][1]["Sec-Websocket-Protocol"] == "bokeh"
    assert "Origin" not in hostile.seen[1][1]
    assert hostile.seen[0][1].keys() == {"Host", "User-Agent", "Accept", "Accept-Encoding", "Connection"}


def test_no_header_of_the_dashboard_passes_but_the_type_of_the_content_and_no_huge_or_invalid_response(server, hostile):
    own = page(server, hostile.secret)
    assert own.status == 200
    assert b"/api/contents" in own.text
    assert own.headers["Content-Type"] == "text/html"
    (policy,) = own.headers.get_all("Content-Security-Policy")
    assert policy.startswith("sandbox allow-scripts; ")
    for name in (
        "Set-Cookie",
        "Access-Control-Allow-Origin",
        "Service-Worker-Allowed",
        "Clear-Site-Data",
        "WWW-Authenticate",
        "Refresh",
        "Link",
        "Server",
    ):
        assert own.headers[name] is None
    assert page(server, hostile.secret, "/refuses").headers["WWW-Authenticate"] is None
    answer = page(server, hostile.secret, "/folded")  # with control characters
    assert answer.status in (200, 502)
    assert answer.headers["Set-Cookie"] is None
    assert answer.headers["Content-Encoding"] is None
    assert answer.headers["Content-Type"] == "text/plain; charset=utf-8"
    for path in ("/huge", "/endless", "/nonsense"):
        answer = page(server, hostile.secret, path)
        assert answer.status == 502
        assert "it sent no valid response" in answer.text.decode()
    assert page(server, hostile.secret).status == 200


REDIRECTS = [
    "https://evil.example/",
    "//evil.example/",
    "http://127.0.0.1:1/",
    "http://127.0.0.1:{port}@evil.example/",
    "http://user@127.0.0.1:{port}/",
    "http://127.0.0.1:{port}\\@evil.example/",
    "https://127.0.0.1:{port}/status",
    "http://127.0.0.1:{port}/../../../../api/contents",
    "http://127.0.0.1:{port}/%2e%2E/%2e./api/contents",
    "/a/\\..\\..\\..\\api",
    "\\\\evil.example",
    "javascript:alert(1)",
    "http://[",
]


def test_no_redirect_leads_to_another_place_and_those_inside_the_dashboard_are_kept(server, hostile):
    port = hostile.port
    refused = f"Dask's dashboard at http://127.0.0.1:{port} redirects to another address.\n"
    hostile.redirects = [each.format(port=port) for each in REDIRECTS]
    for number, location in enumerate(hostile.redirects):
        answer = page(server, hostile.secret, f"/redirect/{number}")
        assert (answer.status, answer.text.decode()) == (502, refused), location
    hostile.redirects = ["/status?a=1", f"http://127.0.0.1:{port}/status?a=1", "../status?a=1"]
    for number in range(3):
        answer = page(server, hostile.secret, f"/redirect/{number}")
        assert b"/api/contents" in answer.text
        assert hostile.seen[-1][0] == "/status?a=1"


@pytest.mark.slow
def test_a_response_that_takes_more_than_twenty_seconds_is_refused(server, hostile):
    with promised(21):
        answer = page(server, hostile.secret, "/silent")
    assert answer.status == 502
    assert "it did not respond in time" in answer.text.decode()


def test_no_path_reaches_another_place(server, hostile):
    check_that_no_path_reaches_another_port(lambda trick: page(server, hostile.secret, trick))


def test_a_dashboard_that_cannot_be_reached_is_named(server):
    with serving(Hostile) as program:
        pass  # nobody listens there any more
    with joined_to(server, f"http://127.0.0.1:{program.port}/status") as kernel:
        secret = secret_of(server, kernel)
        answer = page(server, secret)
    assert page(server, secret).status == 404  # the kernel has ended
    assert answer.status == 502
    assert answer.text.decode() == (
        f"Dask's dashboard at http://127.0.0.1:{program.port} cannot be reached from the Jupyter server: "
        "the connection was refused.\n"
    )


def test_the_certificate_of_a_dashboard_is_verified(server, tmp_path):
    key, certificate = tmp_path / "key.pem", tmp_path / "cert.pem"
    options = ["-newkey", "rsa:2048", "-nodes", "-x509", "-days", "2", "-subj", "/CN=127.0.0.1"]
    subprocess.run(["openssl", "req", *options, "-keyout", key, "-out", certificate], check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    wrap = partial(context.wrap_socket, server_side=True, do_handshake_on_connect=False)
    with serving(Hostile, wrap) as program, joined_to(server, f"https://127.0.0.1:{program.port}/status") as kernel:
        answer = page(server, secret_of(server, kernel))
    assert answer.status == 502
    assert "its certificate is not valid" in answer.text.decode()
    assert program.seen == []


@pytest.mark.parametrize(
    ("address", "origin"),
    [
        ("http://10.0.0.1:8787/status", "http://10.0.0.1:8787"),
        ("https://[::1]:8787", "https://[::1]:8787"),
        *((wrong, None) for wrong in ("", "file:///etc/passwd", "http://u@h:1/", "http://h:99999/", "http://h/status")),
        ("http://10.0.0.1:8787@evil.example/", None),
        ("http://10.0.0.1:8787#@evil.example/", None),
    ],
)
def test_the_origin_of_a_dashboard_is_read_from_its_address(address, origin):
    assert dashboard_origin(address) == origin


def test_a_redirect_target_keeps_its_query():
    url = "http://h:1/a/b"
    assert redirect_target(url, "c?d=/../e") == "/a/c?d=/../e"
    assert redirect_target(url, "/c?d=\x01") is None
    assert redirect_target(url, "") == "/a/b"
