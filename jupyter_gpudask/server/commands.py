"""The commands of ``jupyter gpudask``: the GPU hours of each user, and the exporter of the machine's metrics."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict
from datetime import datetime
from pathlib import Path

from jupyter_core.application import JupyterApp
from prometheus_client import Metric, start_http_server
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector, CollectorRegistry
from traitlets import Bool, Int, Unicode, default

from ..machine.lease_registry import LEASE_DIRECTORY_VARIABLE, LeaseRegistry, gpu_hours, user_name
from ..machine.leases import WaitingLine
from .monitor import INTERVAL, GpuReader
from .prometheus import gpu_metrics
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
    """Show how many hours each user reserved GPUs, and in how many clusters; for root all users, else yourself."""

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


class MachineMetrics(Collector):
    """Reads the GPUs and the lease directory when the metrics are requested, at most once a second."""

    def __init__(self, leases: LeaseRegistry) -> None:
        self._leases = leases
        self._reader = GpuReader()
        self._lock = threading.Lock()  # each request has a thread
        self._read_at = -INTERVAL
        self._metrics: list[Metric] = []

    def collect(self) -> Iterator[Metric]:
        """All metrics."""
        with self._lock:
            if time.monotonic() - self._read_at >= INTERVAL:
                self._metrics = list(self._read())
                self._read_at = time.monotonic()
            yield from self._metrics

    def _read(self) -> Iterator[Metric]:
        holders = Counter((uuid, user_name(lease.uid)) for lease in self._leases.read() for uuid in set(lease.gpus))
        yield from gpu_metrics(self._reader.read({}).gpus, holders)
        waiting = GaugeMetricFamily("gpudask_waiting_starts", "Starts that wait for GPUs.", labels=["user"])
        for uid, number in Counter(each.lease.uid for each in WaitingLine(self._leases.path).read()).items():
            waiting.add_metric([user_name(uid)], number)
        yield waiting


class ExporterApp(LeaseApplication):
    """Serve metrics for Prometheus on the GPUs of the machine and who has reserved them, without a login."""

    name = "jupyter-gpudask-exporter"
    description = __doc__

    ip = Unicode("127.0.0.1", help="The address on which it listens.").tag(config=True)
    port = Int(9799, min=1, max=65535, help="The port on which it listens.").tag(config=True)

    aliases = LeaseApplication.aliases | {"ip": "ExporterApp.ip", "port": "ExporterApp.port"}

    def start(self) -> None:
        """Serve until SIGTERM or SIGINT."""
        leases = self.registry()
        registry = CollectorRegistry()
        signals = {signal.SIGTERM, signal.SIGINT}
        signal.pthread_sigmask(signal.SIG_BLOCK, signals)
        registry.register(MachineMetrics(leases))
        try:
            start_http_server(self.port, self.ip, registry)
        except OSError as error:
            self.exit(f"The exporter cannot listen on {self.ip}:{self.port}: {error.strerror}. Choose another --port.")
        signal.sigwait(signals)
