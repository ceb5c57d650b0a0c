"""The output of ``%gpudask start``, and a cluster in a few words."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from .base import View

if TYPE_CHECKING:
    from distributed import Client

    from ...protocol import ClusterState, Joined, Ready
    from ...session.running_cluster import RunningCluster


class ClusterView(View):
    """A cluster that was started, or was already running.

    Parameters
    ----------
    cluster
        The cluster.
    state
        Its current state, if it was already running.

    Attributes
    ----------
    client
        The Dask client, which is also Dask's default client.
    """

    def __init__(self, cluster: RunningCluster, state: ClusterState | None = None) -> None:
        self.client: Client = cluster.client
        self._ready, self._state = cluster.ready, state
        self._spec = cluster.spec

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def to_html(self) -> str:
        """The lines, the first in bold, and a link to the dashboard of the Jupyter server."""
        first, *rest = self._lines()
        lines = [f"<b>{escape(first)}</b>", *map(escape, rest)]
        if path := self._dashboard_path:
            lines.append(f'<a href="{escape(path)}" target="_blank">Dask\'s dashboard</a>')
        return f"<div>{'<br>'.join(lines)}</div>"

    @property
    def _dashboard_path(self) -> str:
        return "" if _as_joined(self._ready) is not None else self._ready.dashboard_path

    def _lines(self) -> list[str]:
        lines = [describe_cluster(self._ready, self._state)]
        joined = _as_joined(self._ready)
        if joined is not None:
            return [f"Connected to {lines[0]}", *_lines_of_joined(joined)]
        if self._state is not None:
            lines[0] += ": already running"
        if self._ready.stand_in:
            lines.append(f"{self._ready.stand_in} Cells run with NumPy and pandas.")
        if self._spec.protocol == "ucx":
            lines.append("UCX does not support TLS: other users of this machine can connect to the cluster's ports.")
        elif self._ready.credentials is None and not self._ready.address.startswith("unix://"):
            lines.append("This cluster does not use TLS: everyone who can reach its ports can connect to it.")
        if self._ready.dashboard_port:
            lines.append(f"Dask's dashboard: {self._ready.dashboard_link}")
        return lines


def _lines_of_joined(joined: Joined) -> list[str]:
    lines = []
    if joined.stand_in:
        lines.append(f"{joined.stand_in} Cells run with NumPy and pandas.")
    if joined.address.startswith("tcp://"):
        lines.append("This cluster does not use TLS: everyone who can reach its ports can connect to it.")
    if joined.dashboard:
        lines.append(f"Dask's dashboard: {joined.dashboard}")
    return lines


def _as_joined(ready: Ready) -> Joined | None:
    from ...protocol import Joined  # here, because it imports pydantic

    return ready if isinstance(ready, Joined) else None


def describe_cluster(ready: Ready, state: ClusterState | None = None) -> str:
    """Describe a cluster in a few words, such as ``2 × NVIDIA H200`` or ``CPU stand-in, 4 workers``.

    One that somebody else started has its address, such as ``2 GPU workers at tcp://10.0.0.1:8786``.

    Parameters
    ----------
    ready
        What the supervisor reported when the cluster was up.
    state
        The current state; after ``scale`` it adds how many GPUs have a worker: ``1 of 2 × NVIDIA H200``.
    """
    workers, gpus = ready.workers, ready.gpus
    if state is not None and state.workers_wanted:
        workers = state.workers_wanted
    if _as_joined(ready) is not None:
        kind = "GPU worker" if ready.engine == "cuda" else "worker"
        return f"{workers} {kind}{'s' if workers != 1 else ''} at {ready.address}"
    if ready.engine == "cpu":
        return f"CPU stand-in, {workers} worker{'s' if workers != 1 else ''}"
    if not gpus:
        return f"{workers} GPU worker{'s' if workers != 1 else ''}"
    names = sorted({gpu.name for gpu in gpus})
    scaled = f"{workers} of " if workers < len(gpus) else ""
    return f"{scaled}{len(gpus)} × {' and '.join(names)}"
