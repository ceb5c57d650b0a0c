"""Actions that a cluster does not support, each with the reason that kernel, REST interface and panel show."""

from __future__ import annotations

from typing import Any, Literal

from ...errors import NotOwnedError

Action = Literal["adapt", "dashboard", "keep", "release", "restart", "scale", "stop"]

_OF_OWNER: dict[Any, str] = {
    "adapt": "Its workers are started and stopped there.",
    "keep": "Its GPUs are not kept from here.",
    "release": "Results are released in the notebook.",
    "restart": "It cannot be restarted from here.",
    "scale": "Its workers are started and stopped there.",
    "stop": "It is not stopped from here.",
}

REMOTE_DASHBOARD = "Dask's dashboard is not shown here, because the scheduler of this cluster runs elsewhere."
"""Why the dashboard of another cluster with a scheduler elsewhere is not shown."""


def gateway_dashboard(address: str | None) -> str:
    """Why the dashboard of a cluster of dask-gateway is not shown.

    Parameters
    ----------
    address
        The address of the dashboard; `None` or empty if the cluster has none.
    """
    if not address:
        return "Dask's dashboard is not shown here: the Gateway gives no address of it."
    return f"Dask's dashboard is not shown here: open it at {address} instead."


def refusal(address: str, action: str) -> NotOwnedError:
    """The error of an action on a cluster that somebody else started.

    Parameters
    ----------
    address
        The address of its scheduler.
    action
        The action, but not ``dashboard``.
    """
    return NotOwnedError(address=address, why=_OF_OWNER[action])


def joined_limits(address: str) -> dict[Action, str]:
    """The sentence of each action that is not possible on a cluster that somebody else started."""
    return {action: refusal(address, action).reason for action in _OF_OWNER}
