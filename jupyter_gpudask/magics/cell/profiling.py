"""``%%gpudask --profile``: show what each operation of a cell cost, and advice."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from IPython.display import display

from ..views.base import Note, show_note
from ..views.cell_profile import CellProfileView
from .interrupt import was_interrupted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from IPython.core.interactiveshell import InteractiveShell

    from ...profiling.measurements import CellProfile
    from ...session.running_cluster import RunningCluster

_UNFINISHED = "The cell was interrupted: the tasks that it cancelled are not in this profile."


@contextmanager
def profiled(shell: InteractiveShell, cluster: RunningCluster, moved: tuple[str, ...]) -> Iterator[None]:
    """Profile the code in this context, also if it ends with an error or an interrupt; show the profile after it.

    A cluster that does not respond does not fail the cell; a note says why there is no profile.

    Parameters
    ----------
    shell
        The shell that runs the cell.
    cluster
        The kernel's cluster.
    moved
        The names after ``--move``.
    """
    from ...profiling.advice import advice
    from ...profiling.recording import Recording

    recording = Recording(cluster.client, on_gpus=cluster.ready.engine == "cuda")
    try:
        recording.start()
    except Exception as error:  # noqa: BLE001 - whatever a scheduler raises that cannot import this package
        show_note(shell, f"This cell is not profiled: {type(error).__name__}: {error}.")
        yield
        return
    try:
        yield
    finally:
        try:
            profile = recording.stop()
        except Exception as error:  # noqa: BLE001 - the cell has ended, perhaps with its cluster
            show_note(shell, f"There is no profile of this cell: {type(error).__name__}: {error}.")
        else:
            if profile is None:
                show_note(shell, "There is no profile of this cell: another cell was profiled at the same time.")
            elif not profile.operations:
                display(Note("There is nothing to profile: no task of the cell has finished on the cluster."))
            else:
                shown = replace(_with_names_of_gpus(profile, cluster), moved=moved)
                display(CellProfileView(shown, [_UNFINISHED] if was_interrupted(shell) else advice(shown)))


def _with_names_of_gpus(profile: CellProfile, cluster: RunningCluster) -> CellProfile:
    """Call workers by the indices of their GPUs, or on the CPU by their names in Dask, and sort them."""
    names = {gpu.uuid: f"GPU {gpu.index}" for gpu in cluster.ready.gpus}
    workers = [replace(worker, name=names.get(worker.name, f"worker {worker.name}")) for worker in profile.workers]
    workers.sort(key=lambda worker: (len(worker.name), worker.name))  # GPU 2 before GPU 10
    return replace(profile, workers=tuple(workers))
