"""The administrator's settings, and what a server does by default."""

import ast
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest


def test_settings_are_read_from_the_section_gpudask_of_a_config_file(tmp_path):
    (tmp_path / "jupyter_server_config.py").write_text("c.GpuDask.max_workers = 3\n")
    code = (
        "from jupyter_server.serverapp import ServerApp\n"
        "app = ServerApp(jpserver_extensions={'jupyter_gpudask': True})\n"
        "app.initialize(argv=['--no-browser', '--allow-root', '--GpuDask.idle_timeout=60'])\n"
        "settings = app.web_app.settings['gpudask_manager'].policy.settings\n"
        "print(settings.max_workers, settings.idle_timeout, settings.restart_policy)\n"
    )
    command = [sys.executable, "-c", code]
    environment = {"PATH": "/usr/bin", "HOME": str(tmp_path), "JUPYTER_CONFIG_DIR": str(tmp_path)}
    printed = subprocess.run(command, capture_output=True, text=True, check=True, env=environment).stdout
    assert printed == "3 60.0 keep\n"


START_AS_USER = """
import os, sys
from jupyter_server.serverapp import ServerApp
import jupyter_gpudask.server.extension
if os.geteuid() == 0:
    os.setgroups([])
    os.setresgid(65534, 65534, 65534)
    os.setresuid(65534, 65534, 65534)
app = ServerApp(jpserver_extensions={"jupyter_gpudask": True})
app.initialize(argv=["--no-browser", *sys.argv[1:]])
settings = app.web_app.settings["gpudask_manager"].policy.settings
print(settings.max_gpus, settings.max_clusters)
"""


@pytest.fixture
def folders():
    """A folder of the administrator with limits, and the home directory of a user, who has overridden them."""
    with tempfile.TemporaryDirectory(dir="/tmp") as name:
        folder = Path(name)
        folder.chmod(0o755)
        for each, number in {"admin": 1, "home/config": 9}.items():
            (folder / each).mkdir(parents=True)
            lines = (f"c.GpuDask.{limit} = {number}\n" for limit in ("max_gpus", "max_clusters", "max_lifetime"))
            (folder / each / "jupyter_server_config.py").write_text("".join(lines))
        if os.geteuid() == 0:
            for path in (folder / "home", *(folder / "home").rglob("*")):
                os.chown(path, 65534, 65534)
        else:
            (folder / "admin" / "jupyter_server_config.py").chmod(0o444)
            (folder / "admin").chmod(0o555)
        yield folder / "admin", folder / "home"
        (folder / "admin").chmod(0o755)


def start_as_user(home, *options, path):
    """The largest numbers of GPUs and of clusters, and what the server logs."""
    environment = {
        "PATH": "/usr/bin", "HOME": str(home), "JUPYTER_CONFIG_DIR": str(home / "config"),
        "JUPYTER_CONFIG_PATH": os.pathsep.join(map(str, path)),
    }  # fmt: skip
    command = [sys.executable, "-c", START_AS_USER, *options]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment, cwd=home)
    return done.stdout.strip(), done.stderr


def test_the_server_warns_of_limits_that_files_of_the_user_override(folders):
    admin, home = folders
    limits, log = start_as_user(home, path=[home / "config", admin])
    assert limits == "9 9"
    file = admin / "jupyter_server_config.py"
    warning = (
        f"can override max_clusters, max_gpus, max_lifetime of {file}: files in {home / 'config'} have precedence."
    )
    assert warning in log


@pytest.mark.parametrize(
    ("names", "options", "expected"),
    [
        (["admin"], [], "1 1"),  # the user does not override them
        (["user", "admin"], ["max_gpus=2", "max_clusters=2", "max_lifetime=2"], "2 2"),  # nor the command line
        ([], [], "9 9"),  # the user has set them
    ],
)
def test_other_limits_are_no_warning(folders, names, options, expected):
    admin, home = folders
    path = [{"admin": admin, "user": home / "config"}[name] for name in names]
    limits, log = start_as_user(home, *(f"--GpuDask.{option}" for option in options), path=path)
    assert (limits, "can override" in log) == (expected, False)


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
    only = output(jupyter_gpudask={"live": True})
    del only["data"]["text/html"]
    ours, other, without_html = saved(server, output(jupyter_gpudask={"live": True}), output(), only)
    assert ours == {"text/html", "text/plain"}
    assert other == {"text/html", "text/plain", WIDGET}
    assert without_html == {"text/plain", WIDGET}
    order = {"type": "file", "format": "text", "content": "cells"}
    assert server.fetch("contents/notes.txt", "PUT", order, prefix="api/").status == 201
    assert "Pre-save hook" not in server.log


def test_the_output_of_status_is_a_live_output(kernel):
    kernel.ok("%load_ext jupyter_gpudask\n%gpudask start --cpu 1")
    caught = kernel.ok(
        "from IPython.utils.capture import capture_output\n"
        "shown = %gpudask status\n"
        "with capture_output() as caught:\n    display(shown)\n"
        "(caught.outputs[0].metadata, sorted(caught.outputs[0].data))"
    )
    assert ast.literal_eval(caught.value) == ({"jupyter_gpudask": {"live": True}}, [WIDGET, "text/html", "text/plain"])
