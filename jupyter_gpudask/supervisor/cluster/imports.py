"""Import the modules that a cluster needs early, while the supervisor would otherwise wait."""

from __future__ import annotations

from importlib import import_module

import dask.config

from ..engines import warm_up
from .dashboard import routes_without_proxy


def import_what_clusters_need(*, dashboard: bool) -> None:
    """Import the modules of a scheduler and its workers' nannies, which takes half a second.

    Parameters
    ----------
    dashboard
        Also those of Dask's dashboard, which takes as long again.
    """
    warm_up()
    for name in routes_without_proxy():
        import_module(name)
    if dashboard:
        import_module("distributed.dashboard.scheduler")
    from distributed.utils import get_mp_context

    with dask.config.set({"distributed.worker.multiprocessing-method": "forkserver"}):
        get_mp_context()  # imports pandas and others the first time
