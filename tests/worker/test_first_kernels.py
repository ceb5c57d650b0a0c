"""Kernels that are compiled before a cell needs them."""

import fcntl
import sys
import threading
from types import ModuleType, SimpleNamespace

import pytest
from helpers import wait_until

from jupyter_gpudask.worker import first_kernels
from jupyter_gpudask.worker.first_kernels import FirstKernelsPlugin
from jupyter_gpudask.worker.imports import CudfPlugin, import_cudf


@pytest.fixture
def plugin(tmp_path, monkeypatch):
    monkeypatch.setattr(first_kernels, "_PAUSE", 0.01)
    monkeypatch.setattr(first_kernels, "_cache", lambda: tmp_path)
    plugin = FirstKernelsPlugin()
    yield plugin
    plugin.teardown(None)


def worker():
    """One whose event loop calls at once."""
    cudf = CudfPlugin()
    made = SimpleNamespace(
        plugins={cudf.name: cudf}, loop=SimpleNamespace(add_callback=lambda call, *args: call(*args))
    )
    cudf.setup(made)
    return made


def names():
    return {thread.name for thread in threading.enumerate()}


def test_one_worker_of_a_machine_after_the_other_computes_what_it_can(plugin, tmp_path, monkeypatch):
    computed = []

    def computations():
        for number in range(4):
            yield lambda number=number: computed.append(12 // (2 - number))

    monkeypatch.setattr(first_kernels, "first_computations", computations)
    with (tmp_path / "jupyter_gpudask.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        plugin.setup(worker())
        wait_until(lambda: plugin.name in names())
        assert not computed
    wait_until(lambda: computed == [6, 12, -12])  # the third has failed
    wait_until(lambda: plugin.name not in names())


def test_a_worker_that_closes_begins_no_other_computation(plugin, monkeypatch):
    begun, goes_on = threading.Event(), threading.Event()
    more = []
    monkeypatch.setattr(
        first_kernels, "first_computations", lambda: [lambda: begun.set() or goes_on.wait(), lambda: more.append(1)]
    )
    plugin.setup(worker())
    assert begun.wait(5)
    plugin.teardown(None)
    goes_on.set()
    wait_until(lambda: plugin.name not in names())
    assert not more


def test_a_worker_that_polars_uses_waits_until_a_task_needs_cudf(plugin, monkeypatch):
    computed = []
    monkeypatch.setattr(first_kernels, "first_computations", lambda: [lambda: computed.append(1)])
    monkeypatch.setitem(sys.modules, "cudf_polars", ModuleType("cudf_polars"))
    used = worker()
    plugin.setup(used)
    plugin._is_closed.wait(0.1)
    assert (plugin.name in names(), computed) == (True, [])
    import_cudf(used)
    wait_until(lambda: computed == [1])
