"""The administrator's settings: declared as traits, and listed by `--help-all`."""

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
            lines = (f"c.GpuDask.{limit} = {number}\n" for limit in ("max_gpus", "max_clusters"))
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
    warning = f"can override max_clusters, max_gpus of {file}: files in {home / 'config'} have precedence."
    assert warning in log


def test_limits_that_files_of_the_user_do_not_override_are_no_warning(folders):
    admin, home = folders
    limits, log = start_as_user(home, path=[admin])
    assert (limits, "can override" in log) == ("1 1", False)
    options = ("--GpuDask.max_gpus=2", "--GpuDask.max_clusters=2")
    limits, log = start_as_user(home, *options, path=[home / "config", admin])
    assert (limits, "can override" in log) == ("2 2", False)


def test_limits_of_users_who_set_them_themselves_are_no_warning(folders):
    _, home = folders
    limits, log = start_as_user(home, path=[])
    assert (limits, "can override" in log) == ("9 9", False)
