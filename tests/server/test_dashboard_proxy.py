"""The proxy of Dask's dashboards, and that it reaches nothing else."""

import contextlib
import datetime as dt
import re

import pytest
import websocket
from bokeh.util.token import get_token_payload
from dashboards import Program, check_resources, check_that_no_path_reaches_another_port, serving, session_token
from helpers import START_ONE

pytestmark = pytest.mark.cluster


@pytest.fixture(scope="module")
def kernel(server):
    kernel = server.kernel("plots.ipynb")
    assert server.start(kernel)["status"] == "ready"
    return kernel


def page(server, kernel, path="/status", **options):
    return server.fetch(f"{kernel.id}{path}", prefix="gpudask/dashboard/", **options)


def test_pages_and_their_resources_are_forwarded(server, kernel):
    check_resources(page(server, kernel), lambda path: page(server, kernel, path))
    assert page(server, kernel, "/individual-plots.json").body
    assert page(server, kernel, "").status == 200


def test_pages_are_dark_if_the_browser_asks_for_it(server, kernel):
    light, dark = (page(server, kernel, f"/individual-progress{query}").text for query in ("", "?theme=dark"))
    assert b"invert(" not in light
    assert dark.count(b"filter: invert(0.88)") == 1
    loaded = re.search(rb'src="(static/[^"]+[.]js[^"]*)"', dark)[1].decode()
    scripts = [page(server, kernel, f"/{loaded}{query}").text for query in ("", "&theme=dark")]
    assert scripts[0] == scripts[1]


def listen(server, kernel, *subprotocols, query=""):
    """Open the WebSocket of a page, and close it when it has answered."""
    path = f"{kernel.id}/status/ws{query}"
    options = {"prefix": "gpudask/dashboard/", "subprotocols": subprotocols, "origin": server.url}
    with contextlib.closing(server.socket(path, **options)) as plots:
        assert plots.subprotocol in subprotocols
        assert "ACK" in plots.recv()


def test_the_websocket_of_plots_is_forwarded_and_does_not_count_as_activity(server, kernel):
    before = dt.datetime.now(dt.UTC)
    listen(server, kernel, "bokeh", session_token(page(server, kernel)))
    last = server.fetch("status", prefix="api/").body["last_activity"]
    assert dt.datetime.fromisoformat(last) < before


def test_the_secret_of_the_dashboard_is_not_in_its_pages(server, kernel):
    """Bokeh puts the headers that it sees into the token of the page."""
    status = page(server, kernel)
    headers = get_token_payload(session_token(status))["headers"]
    assert "Host" in headers
    assert "gpudask-secret" not in str(headers).lower()
    assert b"gpudask-secret" not in status.text.lower()


RECORD = f"""
%load_ext jupyter_gpudask
started = {START_ONE}
client = started.client
def record(dask_scheduler):
    application = dask_scheduler.http_application
    find_handler, dask_scheduler.seen = application.find_handler, []
    def find_and_record(request, **options):
        handler = find_handler(request, **options)
        dask_scheduler.seen.append((request.uri, dict(request.headers)))
        return handler
    application.find_handler = find_and_record
client.run_on_scheduler(record)
"""


def test_credentials_for_jupyter_are_not_forwarded_to_the_dashboard_and_everything_else_is(server, kernel):
    kernel.ok(RECORD)
    private = {
        "Referer": f"{server.url}lab?token={server.token}",
        "Cookie": f"a={server.token}",
        "Authorization": f"token {server.token}",
        "X-XSRFToken": server.token,
        "X-CSRFToken": server.token,
        "Sec-WebSocket-Protocol": f"v1.token.websocket.jupyter.org.{server.token}",
    }
    query = "?b=2&a=%2B+1&a=1&c&d=&tokens=x%3By"
    tokens = f"?token={server.token}&b=2&a=%2B+1&a=1&c&%74oken={server.token}&d=&tokens=x%3By&token={server.token}"
    status = page(server, kernel, f"/status{tokens}", headers=private)
    jupyters = "v1.token.websocket.jupyter.org"
    listen(server, kernel, jupyters, f"{jupyters}.{server.token}", "bokeh", session_token(status), query=tokens)
    seen = kernel.ok("client.run_on_scheduler(lambda dask_scheduler: dask_scheduler.seen)").value
    assert f"/status{query}'" in seen
    assert f"/status/ws{query}'" in seen
    assert server.token not in seen
    assert "gpudask-secret" not in seen.lower()


def test_pages_have_the_content_security_policy_of_jupyter(server, kernel):
    policy = server.fetch("login", prefix="").headers["Content-Security-Policy"]
    assert "frame-ancestors 'self'" in policy
    for path in ("/status", "/individual-plots.json", "/nothing"):
        assert page(server, kernel, path).headers.get_all("Content-Security-Policy") == [policy]


def test_only_get_and_head_without_a_body_are_forwarded(server, kernel):
    for method in ("POST", "PUT", "DELETE", "PATCH", "OPTIONS"):
        assert page(server, kernel, method=method).status in (403, 405)
    logged = len(server.log)
    for method in ("GET", "HEAD"):
        assert page(server, kernel, method=method, data=b"body").status == 400
    assert "Traceback" not in server.log[logged:]


def test_the_proxy_of_jupyter_server_proxy_does_not_open_the_dashboard(server, kernel):
    port = eval(kernel.ok(f"{RECORD}client.scheduler_info()['services']['dashboard']").value)  # noqa: S307
    answer = server.fetch(f"{port}/status", prefix="proxy/")
    assert (answer.status, b"%gpudask start --dashboard" in answer.text) == (403, True)


def test_requests_without_a_token_are_refused(server, kernel):
    answer = page(server, kernel, headers={})
    assert b"Dask" not in answer.text  # the login page, perhaps
    with pytest.raises(websocket.WebSocketBadStatusException, match="403"):
        server.socket(f"{kernel.id}/status/ws", prefix="gpudask/dashboard/", token=False)


def test_no_path_reaches_another_port(server, kernel):
    check_that_no_path_reaches_another_port(
        lambda trick: server.fetch(f"{kernel.id}{trick}", prefix="gpudask/dashboard/")
    )
    with serving(Program) as neighbour:
        for path in (f"{neighbour.port}/", f"127.0.0.1:{neighbour.port}/", "none/status"):
            assert b"neighbour" not in server.fetch(path, prefix="gpudask/dashboard/").text
        assert neighbour.seen == []


def test_the_page_of_a_kernel_without_a_cluster_says_so(server):
    answer = page(server, server.kernel())
    assert answer.status == 404
    assert b"This kernel has no cluster that is ready" in answer.text
    assert b"Type %gpudask start in the notebook" in answer.text
