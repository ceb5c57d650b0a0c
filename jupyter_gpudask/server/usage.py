"""``jupyter gpudask usage``: the GPU hours of each user of the machine."""

from __future__ import annotations

import json
import os
from collections import Counter
from dataclasses import asdict
from datetime import datetime
from pathlib import Path

from jupyter_core.application import JupyterApp
from traitlets import Bool, Unicode, default

from ..machine.lease_registry import LEASE_DIRECTORY_VARIABLE, LeaseRegistry, gpu_hours, user_name
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


class UsageApp(LeaseApplication):
    """Show how many hours each user held GPUs, and in how many clusters; for root all users, else yourself."""

    name = "jupyter-gpudask-usage"
    description = __doc__

    since = Unicode("", help="Count from this date or time, such as 2026-11-01 or 2026-11-01T12:00.").tag(config=True)
    json = Bool(default_value=False, help="Print each record as a line of JSON instead.").tag(config=True)

    aliases = LeaseApplication.aliases | {"since": "UsageApp.since"}
    flags = {"json": ({"UsageApp": {"json": True}}, "Print each record as a line of JSON instead.")}  # noqa: RUF012

    def start(self) -> None:
        """Print the table, or the records."""
        try:
            since = datetime.fromisoformat(self.since).timestamp() if self.since else 0.0
        except ValueError:
            self.exit(f"{self.since} is no date. Write it as 2026-11-01 or 2026-11-01T12:00.")
        records = sorted(
            (each for each in self.registry().usage() if each.until > since), key=lambda each: (each.since, each.uid)
        )
        if self.json:
            for record in records:
                values = asdict(record) | {"until": record.until if record.reason else None}
                print(json.dumps({"user": user_name(record.uid)} | values))  # noqa: T201 - the result of the command
            return
        clusters = Counter(record.uid for record in records)
        rows = [("User", "GPU hours", "Clusters")]
        for uid, hours in sorted(gpu_hours(records, since).items(), key=lambda item: -item[1]):
            rows.append((user_name(uid), f"{hours:.2f}", f"{clusters[uid]}"))
        width = max(len(user) for user, *_ in rows)
        for user, held, number in rows:
            print(f"{user:{width}}  {held:>9}  {number:>8}")  # noqa: T201
