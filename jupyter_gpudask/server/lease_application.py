"""Base class of the administrator's commands, which read the lease directory of all users."""

from __future__ import annotations

import os
from pathlib import Path

from jupyter_core.application import JupyterApp
from traitlets import default

from ..machine.leases.registry import LEASE_DIRECTORY_VARIABLE, LeaseRegistry
from .settings import ServerSettings


class LeaseApplication(JupyterApp):
    """A command with the settings of Jupyter Server's configuration files."""

    classes = [ServerSettings]  # noqa: RUF012 - as JupyterApp declares it
    aliases = JupyterApp.aliases | {"lease-directory": "GpuDask.lease_directory"}

    @default("config_file_name")
    def _config_file_name(self) -> str:
        return "jupyter_server_config"

    def registry(self) -> LeaseRegistry:
        """The lease directory; without one that can be read, the program ends with a message."""
        path = ServerSettings(parent=self).lease_directory or os.environ.get(LEASE_DIRECTORY_VARIABLE, "")
        if not path:
            self.exit("There is no lease directory. Set c.GpuDask.lease_directory, or give --lease-directory.")
        if not os.access(path, os.R_OK | os.X_OK):
            self.exit(f"The lease directory {path} cannot be read. Create it as root: install -d -m 1777 {path}")
        return LeaseRegistry(Path(path))
