"""Live outputs in saved notebooks."""

import ast

import pytest

pytestmark = pytest.mark.cluster

WIDGET = "application/vnd.jupyter.widget-view+json"


def output(**metadata):
    data = {"text/html": "<table></table>", "text/plain": "worker", WIDGET: {"model_id": "1"}}
    return {"output_type": "display_data", "data": data, "metadata": metadata}


def saved(server, *outputs):
    """The MIME types of each output after a notebook was saved and read."""
    cell = {"cell_type": "code", "source": "", "metadata": {}, "execution_count": 1, "outputs": list(outputs)}
    content = {"cells": [cell], "metadata": {}, "nbformat": 4, "nbformat_minor": 4}
    order = {"type": "notebook", "format": "json", "content": content}
    assert server.fetch("contents/saved.ipynb", "PUT", order, prefix="api/").status in (200, 201)
    found = server.fetch("contents/saved.ipynb", prefix="api/").body["content"]["cells"][0]["outputs"]
    return [set(each["data"]) for each in found]


def test_live_outputs_of_this_package_are_saved_without_their_widget_view_and_others_unchanged(server):
    ours, other = saved(server, output(jupyter_gpudask={"live": True}), output())
    assert ours == {"text/html", "text/plain"}
    assert other == {"text/html", "text/plain", WIDGET}


def test_an_output_without_html_keeps_its_widget_view(server):
    only = output(jupyter_gpudask={"live": True})
    del only["data"]["text/html"]
    assert saved(server, only) == [{"text/plain", WIDGET}]


def test_the_output_of_status_is_a_live_output(server):
    kernel = server.kernel()
    kernel.ok("%load_ext jupyter_gpudask\n%gpudask start --cpu 1")
    caught = kernel.ok(
        "from IPython.utils.capture import capture_output\n"
        "shown = %gpudask status\n"
        "with capture_output() as caught:\n    display(shown)\n"
        "(caught.outputs[0].metadata, sorted(caught.outputs[0].data))"
    )
    assert ast.literal_eval(caught.value) == ({"jupyter_gpudask": {"live": True}}, [WIDGET, "text/html", "text/plain"])
    server.fetch(f"kernels/{kernel.id}", "DELETE", prefix="api/")


def test_a_file_that_is_not_a_notebook_is_saved_unchanged(server):
    order = {"type": "file", "format": "text", "content": "cells"}
    assert server.fetch("contents/notes.txt", "PUT", order, prefix="api/").status == 201
    assert "Pre-save hook" not in server.log
