"""The line of progress of a running cell."""

import pytest

from jupyter_gpudask.magics.cell_footer import CellProgress
from jupyter_gpudask.protocol import ClusterState


def progress(tasks, unfinished, seconds):
    state = ClusterState(engine="cpu", status="ready", time=0, cell_tasks_unfinished=unfinished)
    return str(CellProgress(state, tasks, seconds))


@pytest.mark.parametrize(
    ("unfinished", "seconds", "line"),
    [
        (75, 10, "25 of 100 tasks done · 10 s · about 30 s left"),
        (50, 180, "50 of 100 tasks done · 180 s · about 3 min left"),
        (80, 3600, "20 of 100 tasks done · 3600 s · about 4.0 h left"),
        (1, 10, "99 of 100 tasks done · 10 s · about 1 s left"),
        (91, 10, "9 of 100 tasks done · 10 s"),
        (0, 10, "100 of 100 tasks done · 10 s"),
    ],
)
def test_the_time_that_is_left_is_estimated_once_a_tenth_of_the_tasks_are_done(unfinished, seconds, line):
    assert progress(100, unfinished, seconds) == line


def test_the_time_that_is_left_is_not_estimated_from_a_few_tasks():
    assert progress(20, 11, 60) == "9 of 20 tasks done · 60 s"
    assert progress(1000, 950, 60) == "50 of 1,000 tasks done · 60 s"
