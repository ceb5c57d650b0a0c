"""``jupyter gpudask exporter``: metrics for Prometheus on the GPUs of the machine and on who holds them."""

from __future__ import annotations

import signal
import threading
import time
from collections import Counter
from typing import TYPE_CHECKING

from prometheus_client import start_http_server
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector, CollectorRegistry
from traitlets import Int, Unicode

from ...machine.lease_registry import user_name
from ...machine.waiting_line import WaitingLine
from ..usage import LeaseApplication
from .gpu_reader import GpuReader
from .monitor import INTERVAL
from .prometheus import gpu_metrics

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prometheus_client import Metric

    from ...machine.lease_registry import LeaseRegistry


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
    """Serve metrics for Prometheus on the GPUs of the machine and on the users who hold them, without a login."""

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
