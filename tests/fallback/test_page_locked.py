"""Blocks of a fallback are copied through page-locked memory."""

import operator

import cupy
import numpy as np
import pytest
from dask._task_spec import Task, TaskRef
from dask.array.core import getter

from jupyter_gpudask.fallback import page_locked
from jupyter_gpudask.fallback.host_call import HostFallback
from jupyter_gpudask.fallback.tasks import with_fallback
from jupyter_gpudask.graph.program import as_one_task
from jupyter_gpudask.patches.arrays.cupy_backend import to_cupy


def doubled(block):
    values = np.asarray(block)  # which CuPy refuses
    return values * 2


def test_block_and_result_of_a_fallback_are_copied_through_page_locked_memory(pool):
    result = HostFallback(doubled)(cupy.arange(6.0).reshape(2, 3))
    assert isinstance(result, cupy.ndarray)
    assert result.tolist() == [[0, 2, 4], [6, 8, 10]]
    assert len(pool.made) == 2


@pytest.mark.usefixtures("pool")
def test_a_view_of_the_block_and_the_block_itself_give_their_own_values():
    block = cupy.arange(6.0).reshape(2, 3)
    for function, expected in (
        (lambda block: np.asarray(block) if block.ndim else block, [[0, 1, 2], [3, 4, 5]]),
        (lambda block: np.asarray(block)[:, ::2], [[0, 2], [3, 5]]),
        (lambda block: np.asarray(block).T, [[0, 3], [1, 4], [2, 5]]),
        (lambda block: np.asarray(block)[1], [3, 4, 5]),
    ):
        assert HostFallback(function)(block).tolist() == expected
    assert block.tolist() == [[0, 1, 2], [3, 4, 5]]


def test_without_page_locked_memory_the_copies_are_as_before(pool):
    pool.made = None
    assert HostFallback(doubled)(cupy.arange(3.0)).tolist() == [0, 2, 4]


def test_unused_memory_is_freed_before_there_is_much(pool, monkeypatch):
    block = np.arange(3.0)
    monkeypatch.setattr(page_locked, "_MOST_UNUSED", 32 * block.nbytes)
    for unused, freed in ((32, 0), (33, 1)):
        pool.unused = unused
        page_locked.lock_pages(block)
        assert pool.freed == freed


INSIDE = {"moved": Task("moved", to_cupy, TaskRef("given")), "result": Task("result", abs, TaskRef("moved"))}


@pytest.mark.parametrize(("move", "copies"), [(to_cupy, 1), (as_one_task("result", INSIDE).func, 1), (operator.neg, 0)])
def test_a_block_of_a_file_is_read_into_page_locked_memory_if_it_is_moved(pool, move, copies):
    read, moved = ("read", 0), ("moved", 0)
    steps = (Task(read, getter, np.arange(6.0), (slice(1, 4),)), Task(moved, move, TaskRef(read)))
    (task,) = with_fallback({moved: as_one_task(moved, {step.key: step for step in steps})}).values()
    result = task({})
    assert (type(result), abs(result).tolist()) == (cupy.ndarray if copies else np.ndarray, [1, 2, 3])
    assert len(pool.made) == copies


def test_numbers_in_the_order_of_bytes_of_other_machines_are_left_where_they_are(pool):
    values = np.arange(3, dtype=">f8")
    assert page_locked.lock_pages(values) is values
    assert page_locked.empty((3,), values.dtype) is None
    assert not pool.made
