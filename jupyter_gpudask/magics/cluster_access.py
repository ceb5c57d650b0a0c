"""Get the kernel's cluster for the magics: the running one, or a new one whose start is shown."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from IPython.display import display

from .views.base import Note
from .views.cluster import describe_cluster
from .views.start_progress import StartProgressLine

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

    from ..session.running_cluster import RunningCluster
    from ..session.session import Session


class ClusterAccess:
    """Finds or starts the kernel's cluster.

    Parameters
    ----------
    shell
        The shell that shows the progress of a start.
    session
        The kernel's cluster.
    """

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
        progress = StartProgressLine(self._shell)
        try:
            cluster, new = self._session.start(options, progress.on_progress, progress.refresh)
        except BaseException:
            progress.fail()
            raise
        if new or progress.is_shown:
            progress.finish(f"{'Started' if new else 'Found'}: {describe_cluster(cluster.ready)}")
        return cluster, new
