"""Hosts that do not respond are distinguished from workers that end."""

from types import SimpleNamespace

import pytest
from distributed.metrics import time

from jupyter_gpudask.scheduler.workers import LostHostsPlugin

LOST = "handle-worker-cleanup-1.5"


def worker(host, name, silent=0):
    return SimpleNamespace(address=f"tcp://{host}:{hash(name)}", host=host, name=name, last_seen=time() - silent)


def watch(*workers):
    scheduler = SimpleNamespace(address="tcp://10.0.0.1:8786", workers={each.address: each for each in workers})
    plugin = LostHostsPlugin()
    plugin.watch_hosts(scheduler)
    return plugin, scheduler


def remove(plugin, scheduler, worker, stimulus_id=LOST):
    del scheduler.workers[worker.address]
    plugin.remove_worker(scheduler, worker.address, stimulus_id=stimulus_id)


def test_a_host_is_lost_when_the_connections_to_all_its_silent_workers_have_ended():
    first, second = worker("10.0.0.2", "a", silent=30), worker("10.0.0.2", "b", silent=30)
    plugin, scheduler = watch(first, second, worker("10.0.0.3", "c"))
    remove(plugin, scheduler, first)
    assert plugin.lost_hosts() == ()
    remove(plugin, scheduler, second)
    [lost] = plugin.lost_hosts()
    assert lost.description == "host 10.0.0.2 does not respond; its 2 workers are lost"


@pytest.mark.parametrize(
    ("host", "silent", "stimulus_id"),
    [
        pytest.param("10.0.0.2", 0, LOST, id="ended"),
        pytest.param("10.0.0.1", 30, LOST, id="next to the scheduler"),
        pytest.param("10.0.0.2", 30, "retire-workers-1.5", id="retired"),
        pytest.param("10.0.0.2", 300, "check-worker-ttl-1.5", id="hung"),
    ],
)
def test_a_worker_that_ends_is_no_lost_host(host, silent, stimulus_id):
    gone = worker(host, "a", silent)
    plugin, scheduler = watch(gone)
    remove(plugin, scheduler, gone, stimulus_id)
    assert plugin.lost_hosts() == ()


def test_a_host_whose_worker_is_back_is_not_lost():
    gone = worker("10.0.0.2", "a", silent=30)
    plugin, scheduler = watch(gone)
    remove(plugin, scheduler, gone)
    assert [lost.workers for lost in plugin.lost_hosts()] == [("a",)]
    scheduler.workers[gone.address] = gone
    plugin.add_worker(scheduler, gone.address)
    assert plugin.lost_hosts() == ()


def test_a_worker_that_joins_later_is_known_too():
    plugin, scheduler = watch()
    late = worker("10.0.0.2", "late", silent=30)
    scheduler.workers[late.address] = late
    plugin.add_worker(scheduler, late.address)
    remove(plugin, scheduler, late)
    assert [lost.host for lost in plugin.lost_hosts()] == ["10.0.0.2"]


def test_a_scheduler_says_for_how_long_it_has_had_no_worker_once_that_is_longer_than_the_limit():
    only = worker("10.0.0.2", "a")
    plugin, scheduler = watch(only)
    assert plugin.seconds_without_workers(0) is None
    remove(plugin, scheduler, only)
    assert plugin.seconds_without_workers(60) is None
    assert 0 <= plugin.seconds_without_workers(0) < 30
    scheduler.workers[only.address] = only
    plugin.add_worker(scheduler, only.address)
    assert plugin.seconds_without_workers(0) is None
