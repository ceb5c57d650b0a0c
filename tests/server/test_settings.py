"""The administrator's settings: declared as traits, and listed by `--help-all`."""

import subprocess
import sys

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
