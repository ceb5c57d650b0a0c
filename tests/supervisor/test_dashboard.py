"""Who can open Dask's dashboard: the server by a secret, a browser by a token, and else nobody."""

import asyncio
import os
import re
import urllib.error
import urllib.request
from http.cookiejar import CookieJar

import pytest
import websocket
from bokeh.util.token import get_token_payload
from clusters import CPU, running_cluster
from helpers import addresses_of_session

from jupyter_gpudask.client.connect import connect
from jupyter_gpudask.errors import ClusterStartError

pytestmark = pytest.mark.cluster

PATHS = ("/status", "/", "/json/counts.json", "/metrics", "/status/ws", "/nothing", "/sitemap.json", "/health")


def in_thread_with_cluster(use, options=CPU, **start):
    """What `use` gives for a cluster, in a thread."""

    async def run():
        async with running_cluster(options, **start) as cluster:
            return await asyncio.to_thread(use, cluster)

    return asyncio.run(run())


def ports_of(cluster):
    """The ports that the processes of a cluster listen at."""
    return {address.port for address in addresses_of_session(cluster.pid)}


def get(port, path, **headers):
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read()


def answers(ports):
    """What HTTP servers at those ports answer to somebody who knows nothing."""
    found = set()
    for port in ports:
        for path in ("/metrics", "/info/main/workers.html", "/health", "/json/counts.json"):
            try:
                found.add(get(port, path)[0])
            except OSError:  # speaks TLS alone
                found.add(None)
    return found


def test_a_guarded_dashboard_answers_only_who_knows_its_secret():
    def use(cluster):
        port = cluster.ready.dashboard_port
        refused = {get(port, path)[0] for path in PATHS}
        wrong = get(port, "/status", **{"X-Gpudask-Secret": "guess"})[0]
        by_token = get(port, "/status?token=sesame")[0]
        right = get(port, "/status", **{"X-Gpudask-Secret": "sesame"})
        return refused, wrong, by_token, right, answers(ports_of(cluster) - {port})

    refused, wrong, by_token, (status, page), others = in_thread_with_cluster(use, dashboard_secret="sesame")  # noqa: S106
    assert refused == {403}
    assert (wrong, by_token) == (403, 403)
    assert status == 200
    assert b"Dask" in page
    assert others <= {404, None}


def links_shown(cluster):
    """The dashboard's link of a client, and the links that the client shows."""
    with connect(cluster.ready, set_as_default=False) as client:
        return client.dashboard_link, re.findall('href="([^"]*)"', client._repr_html_())


def test_without_a_server_the_dashboard_is_off_and_the_client_links_to_none():
    def use(cluster):
        return cluster.ready, answers(ports_of(cluster)), links_shown(cluster)

    ready, others, links = in_thread_with_cluster(use)
    assert (ready.dashboard_port, ready.dashboard_token) == (None, "")
    assert 403 in others
    assert others <= {403, 404, None}
    assert links == (None, [])


def test_a_browser_that_was_given_the_token_sees_the_dashboard_and_nobody_else_does():
    def use(cluster):
        port, token = cluster.ready.dashboard_port, cluster.ready.dashboard_token
        address = f"http://127.0.0.1:{port}"
        refused = {get(port, path)[0] for path in (*PATHS, "/status?token=guess", "/status?token=")}
        jar = CookieJar()
        browser = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(jar))
        with browser.open(f"{address}/status?token={token}&theme=dark") as answer:
            seen, page = answer.url, answer.read().decode()
        (static,) = re.findall(r'src="(static/[^"]+bokeh.min.js[^"]*)"', page)
        with browser.open(f"{address}/{static}") as script:
            assert script.status == 200
        link, shown = links_shown(cluster)
        assert shown == [link]
        with urllib.request.build_opener(urllib.request.HTTPCookieProcessor()).open(link) as answer:
            assert answer.status == 200
        (cookie,) = jar
        (bokeh_token,) = re.findall(r'"token":"([^"]+)"', page)
        assert token not in page + str(get_token_payload(bokeh_token))
        with pytest.raises(websocket.WebSocketBadStatusException, match="403"):
            plots_of(port, bokeh_token)
        plots = plots_of(port, bokeh_token, cookie=f"{cookie.name}={cookie.value}")
        try:
            assert "ACK" in plots.recv()
        finally:
            plots.close()
        return refused, seen == f"{address}/status?theme=dark", cookie, token in repr(cluster.ready)

    refused, is_without_token, cookie, is_shown = in_thread_with_cluster(use, CPU | {"dashboard": True})
    assert refused == {403}
    assert is_without_token
    assert cookie.has_nonstandard_attr("HttpOnly")
    assert cookie.get_nonstandard_attr("SameSite") == "Lax"
    assert not is_shown


def plots_of(port, token, **options):
    """The WebSocket of a page of plots."""
    url = f"ws://127.0.0.1:{port}/status/ws"
    return websocket.create_connection(url, subprotocols=["bokeh", token], timeout=30, **options)


UNGUARDED = """
import distributed.node

served_by, start = distributed.node.RoutingApplication, distributed.node.ServerNode.start_http_server

def start_http_server(self, *arguments, **options):
    distributed.node.RoutingApplication = served_by
    return start(self, *arguments, **options)

distributed.node.ServerNode.start_http_server = start_http_server
"""


@pytest.mark.parametrize("start", [{"dashboard_secret": "sesame"}, {}])
def test_a_cluster_whose_dashboard_another_class_serves_is_refused(start, tmp_path):
    """As with a version of Dask that finds the class of its application elsewhere."""
    (tmp_path / "sitecustomize.py").write_text(UNGUARDED)
    with pytest.raises(ClusterStartError, match="dashboard cannot be protected: it answers 200"):
        in_thread_with_cluster(lambda _: None, environment={**os.environ, "PYTHONPATH": str(tmp_path)}, **start)
