"""A cluster that somebody else started, and its state as one of its clients sees it."""

from __future__ import annotations

from .cluster.state import ClusterState, WorkerState
from .messages.events import Ready


class Joined(Ready):
    """A connection to a scheduler that somebody else started.

    Attributes
    ----------
    dashboard
        The address of Dask's dashboard; empty if it is off.
    """

    dashboard: str = ""


class JoinedWorkerState(WorkerState):
    """One worker; `executing` and `waiting` count the tasks of this client only.

    Attributes
    ----------
    others
        The number of tasks of other clients that it runs, or that are assigned to it.
    """

    others: int = 0


class JoinedState(ClusterState):
    """The state of the cluster; counts of tasks and `held` are those of this client.

    Attributes
    ----------
    workers
        Its workers, by host.
    """

    workers: tuple[JoinedWorkerState, ...] = ()
