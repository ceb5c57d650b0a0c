"""Get the kernel's cluster for the magics, show its start, and describe it."""

from __future__ import annotations

import time
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any

from IPython.core.interactiveshell import InteractiveShell
from IPython.display import display

from ..session.launch import RunningCluster
from ..session.session import Session
from .output import INDENT, Note, OutputLine, ProgressLine, View

if TYPE_CHECKING:
    from distributed import Client

    from ..protocol.messages import Progress, Ready
    from ..protocol.state import ClusterState


class ClusterAccess:
    """Finds or starts the kernel's cluster, and shows the progress of a start."""

    def __init__(self, shell: InteractiveShell, session: Session) -> None:
        self._shell = shell
        self._session = session

    def for_cell(self) -> RunningCluster:
        """The running cluster; otherwise a new one, with the options of one that was lost."""
        if self._session.is_unused:  # `start` attaches to a cluster that the Jupyter server holds
            return self.launch({})[0]
        running = self._session.reconnect()
        if running is not None:
            return running
        loss = self._session.pop_loss()
        if loss is None:
            return self.launch({})[0]
        error, options = loss
        display(Note(f"{error.reason} A new cluster is started."))
        return self.launch(options)[0]

    def launch(self, options: dict[str, Any]) -> tuple[RunningCluster, bool]:
        """A cluster with these options, and whether it is new; see `Session.start`."""
        __tracebackhide__ = True
        progress = StartProgressLine(self._shell)
        try:
            cluster, new = self._session.start(options, progress.on_progress, progress.refresh)
        except KeyboardInterrupt:
            progress.fail()
            raise KeyboardInterrupt from None  # without the frames of the wait
        except BaseException:
            progress.fail()
            raise
        if new or progress.shown is not None:
            progress.finish("Started" if new else "Found", cluster.ready)
            cluster.cpu_announced = bool(cluster.ready.cpu_reason)
        return cluster, new


@dataclass(repr=False)
class StartProgress(ProgressLine):
    """`ready` of `total` workers are up after `seconds` seconds; `notes` are sentences on what the start waits for."""

    ready: int
    total: int
    seconds: int
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        what = (
            "Preparing the cluster"
            if not self.total
            else "Importing Dask, and connecting to the cluster"
            if self.ready == self.total
            else f"Starting: {self.ready} of {self.total} workers are up"
        )
        return " · ".join([f"{what} ... {self.seconds} s", *self.notes])


@dataclass(repr=False)
class StartedNote(Note):
    """A `Note` on a cluster that has started, with a link to its dashboard at the Jupyter server, if it has one."""

    dashboard: str

    def to_html(self) -> str:
        """The line as a `div`."""
        link = f' · <a href="{escape(self.dashboard)}" target="_blank">dashboard</a>' if self.dashboard else ""
        return f'<div style="{self.STYLE}">{escape(self.text)}{link}</div>'


class StartProgressLine:
    """Shows progress while a cluster starts, and the result when it has started."""

    def __init__(self, shell: InteractiveShell) -> None:
        self._line = OutputLine(shell)
        self._began = time.monotonic()
        self._latest: tuple[int, int, tuple[str, ...]] = (0, 0, ())
        self.shown: StartProgress | None = None

    def on_progress(self, progress: Progress) -> None:
        """Store the progress; may be called in any thread."""
        self._latest = (progress.ready, progress.total, progress.notes)

    def refresh(self) -> None:
        """Show the stored progress if it has changed; only in the thread of the cell, which gets the output."""
        ready, total, notes = self._latest
        progress = StartProgress(ready, total, int(time.monotonic() - self._began), notes)
        if progress != self.shown:
            self.shown = progress
            self._line.show(progress)

    def finish(self, how: str, ready: Ready) -> None:
        """Replace the progress with the cluster, and how it came: ``Started`` or ``Found``."""
        seconds = time.monotonic() - self._began
        text = f"{how}: {ready.describe()} ({seconds:.1f} s)"
        if ready.cpu_reason:
            text += f" · {ready.cpu_reason} Cells run with NumPy and pandas."
        self._line.finish(StartedNote(text, ready.dashboard_path))

    def fail(self) -> None:
        """Show that the cluster did not start; the error has the reason."""
        if self.shown is not None:
            self._line.finish(Note("The cluster did not start."))


class ClusterView(View):
    """A cluster that was started, or was already running; `client` is its Dask client, Dask's default client."""

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
        if path := self._ready.dashboard_path:
            lines.append(f'<a href="{escape(path)}" target="_blank">Dask\'s dashboard</a>')
        return f'<div style="{INDENT}">{"<br>".join(lines)}</div>'

    def _lines(self) -> list[str]:
        ready = self._ready
        described = ready.describe(self._state)
        if not ready.is_owned:
            described = f"Connected to {described}"
        elif self._state is not None:
            described += ": already running"
        lines = [described]
        if self._spec.protocol == "ucx":
            lines.append("UCX does not support TLS: other users of this machine can connect to the cluster's ports.")
        elif ready.address.startswith("tcp://"):
            lines.append("This cluster does not use TLS: everyone who can reach its ports can connect to it.")
        if ready.dashboard_link != ready.dashboard_path:
            lines.append(f"Dask's dashboard: {ready.dashboard_link}")
        return lines
