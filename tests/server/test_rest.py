"""The REST interface and its OpenAPI document."""

import json
import re
from pathlib import Path

import nbformat
import pytest
from helpers import ON_GPUS, ONE_WORKER, promised, wait_until

from jupyter_gpudask.errors import GpuReservedError, SpecError
from jupyter_gpudask.protocol.rest import ErrorDetails
from jupyter_gpudask.protocol.spec import ClusterSpec
from jupyter_gpudask.server.rest import openapi_document

pytestmark = pytest.mark.cluster


def test_a_cluster_is_created_read_scaled_restarted_and_closed(server, gone):
    kernel = server.kernel("analysis.ipynb")
    path = f"clusters/{kernel.id}"
    failed = server.start(kernel, start_timeout=0.01)
    assert (failed["status"], failed["reason"]) == ("failed", "0 of 1 workers were up after 0.01 s.")
    assert server.fetch(f"{path}/scale", "POST", {"workers": 1}).status == 409

    order = {"kernel_id": kernel.id, "spec": ONE_WORKER}
    answer = server.fetch("clusters", "POST", order)
    assert (answer.status, answer.body["status"]) == (202, "starting")
    assert answer.headers["Location"] == f"/a%40b/gpudask/api/{path}"
    ready = server.settled(kernel)
    assert (ready["status"], ready["engine"], ready["workers_ready"]) == ("ready", ONE_WORKER["engine"], 1)
    assert (ready["name"], ready["notebooks"]) == ("analysis.ipynb", ["analysis.ipynb"])
    assert ready["state"]["workers"][0]["memory"] > 0
    assert ready["dashboard"] == f"gpudask/dashboard/{kernel.id}/"
    assert [cluster["kernel_id"] for cluster in server.fetch("clusters").body["clusters"]] == [kernel.id]
    logs = server.fetch(f"{path}/logs").body["logs"]
    assert logs.keys() == {"supervisor", ready["state"]["workers"][0]["name"]}

    assert server.fetch("clusters", "POST", order).status == 202  # it has these options
    conflict = server.fetch("clusters", "POST", order | {"spec": ready["spec"] | {"threads": 1}})
    assert (conflict.status, conflict.body["kind"]) == (409, "ClusterExistsError")
    assert "--threads default instead of 1." in conflict.body["message"]
    assert server.cluster(kernel)["pid"] == ready["pid"]

    if not ON_GPUS:  # test_on_gpus.py scales a cluster on GPUs
        assert server.fetch(f"{path}/scale", "POST", {"workers": 2}).status == 202
        wait_until(lambda: len(server.cluster(kernel)["state"]["workers"]) == 2)
        answer = server.fetch(f"{path}/adapt", "POST", {"minimum": 1, "maximum": 2})
        assert (answer.status, answer.body["state"]["adaptive_range"]) == (202, [1, 2])
    released = server.fetch(f"{path}/release", "POST")
    assert (released.status, released.body["state"]["result_bytes"]) == (200, 0)

    assert server.fetch(f"{path}/restart", "POST", {"spec": {"threads": 3}}).status == 202
    again = server.settled(kernel)
    assert (again["status"], again["spec"]["threads"], again["workers_ready"]) == ("ready", 3, 1)
    assert again["pid"] != ready["pid"]
    assert server.supervisors() == [again["pid"]]

    assert server.fetch(path, "DELETE").status == 204
    assert server.fetch(path).status == 404
    with promised(1):
        gone(ready["pid"], again["pid"])
    assert not any(word in server.log for word in ("PRIVATE KEY", "Traceback"))


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "words"),
    [
        ("POST", "clusters", {"kernel_id": "none"}, 404, "no kernel none"),
        ("POST", "clusters", {}, 422, "Field required"),
        ("POST", "clusters", {"kernel_id": 3}, 422, "valid string"),
        ("POST", "clusters", {"kernel_id": "none", "spec": {"workers": -3, "engine": "cpu"}}, 422, "-3"),
        ("POST", "clusters", {"kernel_id": "none", "spec": {"pool": "lots"}}, 422, "lots"),
        ("POST", "clusters", {"kernel_id": "none", "spec": {"threads": "2"}}, 422, "2"),
        ("POST", "clusters", {"kernel_id": "none", "preset": "small"}, 404, "small"),
        ("POST", "clusters", [], 400, "not a JSON object"),
        ("GET", "clusters/none", None, 404, "no cluster"),
        ("DELETE", "clusters/none", None, 404, "no cluster"),
        ("POST", "clusters/none/scale", {"workers": 1}, 404, "no cluster"),
        ("POST", "clusters/none/scale", {"workers": 0}, 422, "greater than"),
        ("POST", "clusters/none/adapt", {"minimum": 1, "maximum": 2}, 404, "no cluster"),
        ("POST", "clusters/none/adapt", {"minimum": 3, "maximum": 2}, 422, "The minimum 3 is more than the maximum 2."),
        ("POST", "clusters/none/restart", {}, 404, "no cluster"),
        ("POST", "clusters/none/release", None, 404, "no cluster"),
        ("GET", "clusters/none/logs", None, 404, "no cluster"),
        ("PUT", "clusters", {}, 405, ""),
    ],
)
def test_invalid_requests_are_refused_with_a_reason(server, method, path, body, status, words):
    answer = server.fetch(path, method, body)
    assert answer.status == status
    assert words in answer.body["message"]


def test_a_body_that_is_not_json_or_too_large_is_a_bad_request(server):
    nested = b'{"spec": ' + b"[" * 200_000 + b"]" * 200_000 + b"}"
    half = b'{"kernel_id": "k", "spec": {"\\ud800": 1}}'
    large = json.dumps({"kernel_id": "none", "spec": {f"a{n}": 1 for n in range(300_000)}}).encode()
    for data in (b"{", b"\xff", b'{"kernel_id": NaN}', nested, half, large):
        assert server.fetch("clusters", "POST", data=data).status == 400
    answer = server.fetch("clusters", "POST", {"kernel_id": "none", "spec": {f"a{n}": 1 for n in range(5_000)}})
    assert (answer.status, len(answer.body["others"]) < 50) == (422, True)


ROOT = Path(__file__).parents[2]
COMMITTED = ROOT / "labextension" / "openapi.json"


def test_the_committed_openapi_document_is_up_to_date():
    """If this fails: make fix."""
    committed, made = json.loads(COMMITTED.read_text()), openapi_document("/")
    assert "credentials" not in str(made["components"])
    committed["info"]["version"] = made["info"]["version"] = ""
    assert committed == json.loads(json.dumps(made))
    references = re.findall('"#/components/schemas/([^"]+)"', json.dumps(made))
    assert set(references) <= made["components"]["schemas"].keys()


def test_an_error_has_the_labels_of_the_options_that_it_names():
    details = ErrorDetails.of(GpuReservedError("gpus-reserved", gpus="GPU 0 is reserved by a.ipynb"))
    assert details.labels == {"--gpus": "GPUs", "--share": "Share GPUs"}
    with pytest.raises(SpecError) as raised:
        ClusterSpec.parse({"pool": "lots"})
    assert ErrorDetails.of(raised.value).labels == {"--pool": "Memory pool"}


def test_an_export_has_syntax_colors_in_gpu_cells_and_in_those_that_the_user_has_configured(own_server, tmp_path):
    (tmp_path / "config").mkdir()
    line = "c.HighlightMagicsPreprocessor.languages = {'%%mine': 'python3'}\n"
    (tmp_path / "config" / "jupyter_server_config.py").write_text(line)
    server = own_server()
    cells = [nbformat.v4.new_code_cell(f"{magic}\nlambda: 1") for magic in ("%%gpudask", "%%mine", "%%other")]
    nbformat.write(nbformat.v4.new_notebook(cells=cells), server.root / "cells.ipynb")
    assert server.fetch("html/cells.ipynb", prefix="nbconvert/").text.count(b'<span class="k">lambda</span>') == 2
