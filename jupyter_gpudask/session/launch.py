"""Create a `RunningCluster`: start a cluster or attach to one, import libraries meanwhile, connect a client."""

from __future__ import annotations

import os
import sys
import warnings
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from .background_imports import BackgroundImports
from .changed_settings import changed_settings
from .running_cluster import RunningCluster

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from ..launcher.connection import Cluster, LostCallback, ProgressCallback
    from ..protocol import ClusterSpec, Progress, Ready
    from .event_loop import EventLoopThread


_PLACE = ("engine", "gpus", "workers")
"""Options that switch between the GPUs and the CPU stand-in."""


def launch(
    loop: EventLoopThread,
    spec: ClusterSpec,
    on_progress: ProgressCallback,
    while_waiting: Callable[[], None],
    on_lost: LostCallback | None,
) -> RunningCluster:
    """Start a cluster with the options `spec`, or attach to the one that the Jupyter server holds for this kernel.

    Parameters
    ----------
    loop
        Runs the connection to the supervisor.
    spec
        The options.
    on_progress
        Called in another thread for each worker that is up.
    while_waiting
        Called in this thread ten times a second.
    on_lost
        Called in another thread if the cluster is lost; `None` for a temporary cluster, whose client does not become
        Dask's default.
    """
    from .server_connection import start_cluster

    started: list[Cluster] = []
    settings, left_out = changed_settings()
    for name in left_out:
        warnings.warn(
            f"Dask's setting {name} of this kernel does not reach the cluster: JSON does not represent its value.",
            stacklevel=2,
        )
    imports = BackgroundImports(spec)

    def report_progress(progress: Progress) -> None:
        imports.on_progress(progress)
        on_progress(progress)

    async def start() -> None:
        cluster = await start_cluster(
            spec, path=import_path(), settings=settings, on_progress=report_progress, on_lost=on_lost
        )
        started.append(cluster)

    try:
        loop.run(start(), while_waiting)
        return _connected(loop, started[0], imports, while_waiting, set_as_default=on_lost is not None)
    except BaseException:
        imports.cancel()
        for process in started:
            loop.run(process.close())
        raise


@contextmanager
def temporary_cluster(loop: EventLoopThread, spec: ClusterSpec) -> Iterator[RunningCluster]:
    """A second cluster beside the kernel's own; its client is not Dask's default."""
    cluster = launch(loop, spec, lambda _: None, lambda: None, None)
    try:
        yield cluster
    finally:
        cluster.client.close(timeout=2)
        loop.run(cluster.process.close())


def attach(loop: EventLoopThread, on_lost: LostCallback) -> RunningCluster | None:
    """Attach to the cluster that the Jupyter server holds for this kernel; `None` if there is none."""
    from .server_connection import attach_cluster, has_server

    if not has_server():
        return None
    process = loop.run(attach_cluster(on_lost))
    if process is None:
        return None
    try:
        return _connected(loop, process, BackgroundImports(process.spec), lambda: None)
    except BaseException:
        loop.run(process.detach())
        raise


def _connected(
    loop: EventLoopThread,
    process: Cluster,
    imports: BackgroundImports,
    while_waiting: Callable[[], None],
    *,
    set_as_default: bool = True,
) -> RunningCluster:
    imports.on_progress(process.ready)
    imports.wait(while_waiting)
    from ..client.connect import connect

    return RunningCluster(loop, process, connect(process.ready, set_as_default=set_as_default))


def import_path() -> list[str]:
    """The absolute folders of ``sys.path``, which workers import from, too."""
    return [os.path.abspath(folder) for folder in sys.path]  # noqa: PTH100 - an entry may be empty


def options_after(options: Mapping[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """The options of a cluster, some of which the user has given again as `changes`."""
    if "profile" in changes:
        return dict(changes)
    changes_place = "gpus" in changes or "engine" in changes
    kept = {name: value for name, value in options.items() if not (changes_place and name in _PLACE)}
    return kept | changes


def spec_on_this_machine(options: dict[str, Any], running: Ready | None) -> ClusterSpec:
    """The options as a `ClusterSpec`, checked as far as possible while the cluster that will be replaced still runs.

    Parameters
    ----------
    options
        Attributes of a `ClusterSpec`.
    running
        The running cluster, if there is one.

    Raises
    ------
    SpecError, GpuUnavailableError, GpuPackagesMissingError, GpuHeldError
        A cluster with these options could not start.
    """
    from ..machine.plan import check_replacement, make_plan
    from ..protocol import ClusterSpec

    spec = ClusterSpec.parse(options)
    if not spec.profile:  # only the server knows the cluster profiles
        make_plan(spec)
    if running is not None:
        check_replacement(spec, running.pid)
    return spec
