"""The administrator's settings, and what a server does by default."""

import ast
import contextlib
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from jupyter_gpudask.server.settings import ServerSettings

TRAITS = ServerSettings.class_own_traits(config=True)


def test_every_setting_is_explained_by_help_all():
    command = [sys.executable, "-c", "from jupyter_gpudask.server.extension import main; main()", "--help-all"]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    options = printed.split("--")
    for name in TRAITS:
        (text,) = (text for text in options if text.startswith(f"GpuDask.{name}="))
        assert "Default:" in text
        assert len(text.splitlines()) > 2, text


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


def test_limits_that_files_of_the_user_do_not_override_are_no_warning(folders):
    admin, home = folders
    limits, log = start_as_user(home, path=[admin])
    assert (limits, "can override" in log) == ("1 1", False)
    options = ("--GpuDask.max_gpus=2", "--GpuDask.max_clusters=2", "--GpuDask.max_lifetime=2")
    limits, log = start_as_user(home, *options, path=[home / "config", admin])
    assert (limits, "can override" in log) == ("2 2", False)


def test_limits_of_users_who_set_them_themselves_are_no_warning(folders):
    _, home = folders
    limits, log = start_as_user(home, path=[])
    assert (limits, "can override" in log) == ("9 9", False)


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


def test_no_process_connects_to_another_machine_and_the_server_never_imports_dask(own_server, tmp_path):
    (tmp_path / "sitecustomize.py").write_text(AUDIT)
    file = tmp_path / "audit"
    server = own_server(environment={**os.environ, "PYTHONPATH": str(tmp_path), "AUDIT": str(file)})
    kernel = server.kernel("analysis.ipynb")
    with contextlib.closing(server.socket("stream")) as stream:
        assert stream.recv()
    kernel.ok("%load_ext jupyter_gpudask\nstarted = %gpudask start --cpu 2 --protocol tcp")
    kernel.ok("%%gpudask\nimport dask.array as da\nda.ones((40, 40), chunks=10).sum().compute()")
    for command in ("status", "logs", "doctor", "gpus"):
        kernel.ok(f"shown = %gpudask {command}")
    assert b"Dask" in server.fetch(f"{kernel.id}/status", prefix="gpudask/dashboard/").text
    kernel.ok("%gpudask stop")
    server.stop()
    noted = {tuple(line.split(" ", 1)) for line in file.read_text().splitlines()}
    assert {what for _, what in noted if not what.startswith("imports")} <= HERE
    assert len([what for _, what in noted if what == "connects 127.0.0.1"]) > 3, "each process writes it down"
    assert {what for pid, what in noted if pid != str(server.pid)} >= {"imports dask", "imports distributed"}
    assert [what for pid, what in noted if pid == str(server.pid) and what.startswith("imports")] == []
