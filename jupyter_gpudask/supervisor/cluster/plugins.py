"""Register the plugins of a cluster, with its scheduler, its workers and its nannies."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from distributed.protocol.pickle import dumps

from ...scheduler.cells import handle_beginnings
from ...scheduler.graph_router import GraphRouter
from ...scheduler.results import SpanRetentionPlugin
from ...scheduler.settings import SchedulerPathPlugin, SendIntervalPlugin
from ...scheduler.workers import WorkerFailuresPlugin
from ...worker.cell_metrics import CELL_METRICS_PLUGIN, CellMetricsPlugin
from ...worker.cuda_context import CONTEXT_LOST, CONTEXT_PLUGIN, ContextPlugin
from ...worker.graphs import MATERIALIZE, MaterializePlugin
from ...worker.interruption import INTERRUPTION_PLUGIN, InterruptionPlugin
from ...worker.plugins import (
    EXIT_REPORT_PLUGIN,
    PATCH_PLUGIN,
    RETENTION_PLUGIN,
    ExitReportPlugin,
    MetricsRetentionPlugin,
    PatchPlugin,
)
from ...worker.preload import PATH_PLUGIN, PathPlugin

if TYPE_CHECKING:
    from collections.abc import Sequence

    from distributed import WorkerPlugin


async def register_plugins(
    scheduler: Any, path: Sequence[str], *, engine: Literal["cuda", "cpu"]
) -> WorkerFailuresPlugin:
    """Register the plugins; workers that start later get theirs, too.

    Parameters
    ----------
    scheduler
        The scheduler, which runs in this process.
    path
        Folders from which the scheduler and the workers can import modules.
    engine
        On ``cuda`` graphs are not opened in the scheduler, and the device memory and the energy of cells are measured.

    Returns
    -------
    WorkerFailuresPlugin
        Collects the failures of the workers.
    """
    failures = WorkerFailuresPlugin(scheduler)
    scheduler.add_plugin(failures)
    scheduler.handlers[CONTEXT_LOST] = failures.lose_context
    scheduler.add_plugin(SpanRetentionPlugin(scheduler))
    scheduler.add_plugin(SendIntervalPlugin(scheduler))
    await scheduler.register_scheduler_plugin(SchedulerPathPlugin(path), idempotent=True)
    plugins: dict[str, WorkerPlugin] = {
        PATH_PLUGIN: PathPlugin(path),
        PATCH_PLUGIN: PatchPlugin(),
        INTERRUPTION_PLUGIN: InterruptionPlugin(),
        RETENTION_PLUGIN: MetricsRetentionPlugin(),
    }
    if engine == "cuda":
        plugins |= {
            MATERIALIZE: MaterializePlugin(),
            CELL_METRICS_PLUGIN: CellMetricsPlugin(),
            CONTEXT_PLUGIN: ContextPlugin(),
        }
        GraphRouter(scheduler).install()
    handle_beginnings(scheduler, pass_on=engine == "cuda")
    for name, plugin in plugins.items():
        await scheduler.register_worker_plugin(comm=None, plugin=dumps(plugin), name=name, idempotent=True)
    await scheduler.register_nanny_plugin(
        comm=None, plugin=dumps(ExitReportPlugin()), name=EXIT_REPORT_PLUGIN, idempotent=True
    )
    return failures
