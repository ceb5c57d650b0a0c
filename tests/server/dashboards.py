"""Other HTTP servers of the machine, and checks of the pages of Dask's dashboard."""

import contextlib
import http.server
import re
import threading


class Program(http.server.BaseHTTPRequestHandler):
    """Some program of the machine, which notes what it is asked."""

    protocol_version = "HTTP/1.1"
    seen: list

    def do_GET(self):
        self.seen.append((self.path, dict(self.headers)))
        self.respond()

    def respond(self):
        self.answer(200, b"a secret of the neighbour")

    def answer(self, status, body=b"", **headers):
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


class Listening(http.server.ThreadingHTTPServer):
    """A server whose clients end connections as they like."""

    def handle_error(self, *_):
        pass


@contextlib.contextmanager
def serving(handler, wrap=lambda socket: socket):
    """A program that serves at a port of this machine; its attributes `port` and `seen` are its own."""
    program = type("Serving", (handler,), {"seen": []})
    with Listening(("127.0.0.1", 0), program) as listening:
        listening.socket = wrap(listening.socket)
        thread = threading.Thread(target=listening.serve_forever, daemon=True)
        thread.start()
        program.port = listening.server_port
        try:
            yield program
        finally:
            listening.shutdown()
            thread.join()


def check_that_no_path_reaches_another_port(fetch):
    """Try paths that could lead to a neighbour of the dashboard; `fetch` requests a path below that of a cluster."""
    with serving(Program) as neighbour:
        port = neighbour.port
        tricks = [
            f":{port}/",
            f"@127.0.0.1:{port}/",
            f"/@127.0.0.1:{port}/",
            f"//127.0.0.1:{port}/",
            f"/../{port}/",
            f"/%2e%2e/{port}/",
            f"/http://127.0.0.1:{port}/",
            f"/\\127.0.0.1:{port}/",
            f"%2f..%2f{port}/",
            f"/?@127.0.0.1:{port}",
            f"/status%0d%0aHost:%20127.0.0.1:{port}",
        ]
        for trick in tricks:
            answer = fetch(trick)
            assert b"neighbour" not in answer.text, trick
            assert answer.status < 500, trick
        assert neighbour.seen == []


def session_token(page):
    """Bokeh's, which a page has for its WebSocket."""
    return re.search(r'"token":"([^"]+)"', page.text.decode())[1]


def check_resources(page, fetch):
    """Check that a page of Dask and what it loads can be fetched."""
    assert page.status == 200
    assert b"Dask" in page.text
    loaded = re.findall(rb'(?:src|href)="(static/[^"]+)"', page.text)
    assert loaded
    for path in loaded:
        assert fetch(f"/{path.decode()}").status == 200
