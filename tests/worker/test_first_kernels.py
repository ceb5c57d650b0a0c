"""Kernels that are compiled before a cell needs them."""

import fcntl
import threading

import pytest
from helpers import wait_until

from jupyter_gpudask.worker import first_kernels
from jupyter_gpudask.worker.first_kernels import FirstKernelsPlugin


@pytest.fixture
def plugin(tmp_path, monkeypatch):
    monkeypatch.setattr(first_kernels, "_PAUSE", 0.01)
    monkeypatch.setattr(first_kernels, "_cache", lambda: tmp_path)
    plugin = FirstKernelsPlugin()
    yield plugin
    plugin.teardown(None)


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
        plugin.setup(None)
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
    plugin.setup(None)
    assert begun.wait(5)
    plugin.teardown(None)
    goes_on.set()
    wait_until(lambda: plugin.name not in names())
    assert not more
