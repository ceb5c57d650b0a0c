"""The administrator's settings, and what a server does by default."""

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from jupyter_gpudask.server.extension import GpuDaskExtension

# Starts a server as a user for each argument, which has the folders of configuration files, and options.
START_AS_USER = """
import os, sys
from jupyter_server.serverapp import ServerApp
import jupyter_gpudask.server.extension
if os.geteuid() == 0:
    os.setgroups([])
    os.setresgid(65534, 65534, 65534)
    os.setresuid(65534, 65534, 65534)
for case in sys.argv[1:]:
    path, *options = case.split()
    os.environ["JUPYTER_CONFIG_PATH"] = path.strip(":")
    if not os.fork():
        sys.stderr = os.fdopen(os.dup(1), "w")
        app = ServerApp(jpserver_extensions={"jupyter_gpudask": True})
        app.initialize(argv=["--no-browser", *options])
        settings = app.web_app.settings["gpudask_manager"].policy.settings
        sys.stderr.flush()
        print("\\nCASE", settings.max_gpus, settings.max_clusters, settings.restart_policy, flush=True)
        os._exit(0)
    os.wait()
"""


def test_the_server_reads_config_files_and_warns_of_limits_that_files_of_the_user_override():
    with tempfile.TemporaryDirectory(dir="/tmp") as name:
        folder = Path(name)
        folder.chmod(0o755)
        for each, number in {"admin": 1, "home/config": 9}.items():
            (folder / each).mkdir(parents=True)
            lines = (f"c.GpuDask.{limit} = {number}\n" for limit in ("max_gpus", "max_clusters", "max_lifetime"))
            (folder / each / "jupyter_server_config.py").write_text("".join(lines))
        admin, home = folder / "admin", folder / "home"
        if os.geteuid() == 0:
            for path in (home, *home.rglob("*")):
                os.chown(path, 65534, 65534)
        else:
            (admin / "jupyter_server_config.py").chmod(0o444)
            admin.chmod(0o555)
        options = " ".join(f"--GpuDask.{limit}=2" for limit in ("max_gpus", "max_clusters", "max_lifetime"))
        # The user overrides them; does not; does so, as the command line does; and has set them alone.
        cases = [f"{home / 'config'}:{admin}", f"{admin}", f"{home / 'config'}:{admin} {options}", ":"]
        environment = {"PATH": "/usr/bin", "HOME": str(home), "JUPYTER_CONFIG_DIR": str(home / "config")}
        command = [sys.executable, "-c", START_AS_USER, *cases]
        done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment, cwd=home)
        admin.chmod(0o755)
    logs = re.split(r"CASE (.*)", done.stdout)
    assert logs[1::2] == ["9 9 keep", "1 1 keep", "2 2 keep", "9 9 keep"]
    warnings = [re.findall("can override .*", log) for log in logs[:-1:2]]
    assert warnings[1:] == [[], [], []]
    (warning,) = warnings[0]
    file = admin / "jupyter_server_config.py"
    assert warning.startswith(
        f"can override max_clusters, max_gpus, max_lifetime of {file}: files in {home / 'config'} have precedence."
    )


pytestmark = pytest.mark.cluster

WIDGET = "application/vnd.jupyter.widget-view+json"


def output(**metadata):
    data = {"text/html": "<table></table>", "text/plain": "worker", WIDGET: {"model_id": "1"}}
    return {"output_type": "display_data", "data": data, "metadata": metadata}


def saved(server, *outputs):
    """The MIME types of each output after a notebook was saved and read."""
    source = {"cell_type": "code", "source": "%%gpudask\nimport dask", "metadata": {}}
    cell = {**source, "execution_count": 1, "outputs": list(outputs)}
    content = {"cells": [cell], "metadata": {}, "nbformat": 4, "nbformat_minor": 4}
    order = {"type": "notebook", "format": "json", "content": content}
    assert server.fetch("contents/saved.ipynb", "PUT", order, prefix="api/").status in (200, 201)
    found = server.fetch("contents/saved.ipynb", prefix="api/").body["content"]["cells"][0]["outputs"]
    return [set(each["data"]) for each in found]


def test_live_outputs_of_this_package_are_saved_without_their_widget_view_and_others_unchanged(server):
    only = output(jupyter_gpudask={"live": True})
    del only["data"]["text/html"]
    empty = {"output_type": "display_data", "data": {}, "metadata": {}}
    ours, other, without_html = saved(server, empty, output(jupyter_gpudask={"live": True}), output(), only)
    assert ours == {"text/html", "text/plain"}
    assert other == {"text/html", "text/plain", WIDGET}
    assert without_html == {"text/plain", WIDGET}
    order = {"type": "file", "format": "text", "content": "cells"}
    assert server.fetch("contents/notes.txt", "PUT", order, prefix="api/").status == 201
    assert "Pre-save hook" not in server.log


def test_an_export_as_html_colors_the_code_of_a_gpu_cell(server):
    saved(server)
    exported = server.fetch("nbconvert/html/saved.ipynb", prefix="").text.decode()
    assert '<span class="kn">import</span>' in exported


def test_the_help_has_the_subcommands_as_they_are_typed_and_the_settings_of_the_package_first():
    app = GpuDaskExtension()
    text = "\n".join(app.emit_help())
    assert "jupyter gpudask SUBCOMMAND" in text
    assert "jupyter_gpudask cmd" not in text
    assert next(app.emit_help(classes=True)).startswith("GpuDask")
