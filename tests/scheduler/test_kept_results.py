"""Limits on what the processes of a cluster keep of finished computations."""

import gc
import time

import dask
import pytest
from helpers import RunningCluster, wait_until

from jupyter_gpudask.worker.plugins import MetricsRetentionPlugin

pytestmark = pytest.mark.cluster


@pytest.fixture(scope="module")
def client():
    with RunningCluster({"engine": "cpu", "workers": 1}) as cluster:
        yield cluster.client


def test_a_scheduler_deletes_the_spans_of_old_computations_and_keeps_those_of_results_that_a_client_holds(client):
    def soon():
        from jupyter_gpudask.scheduler import results

        results._MAX_SPANS, results._MIN_AGE = 5, 1.0

    def spans(dask_scheduler):
        extension = dask_scheduler.extensions["spans"]
        names = [group.name for span in extension.root_spans for group in span.groups]
        indexed = [sum(map(len, index.values())) for index in (extension.spans_search_by_name,)]
        return len(extension.spans), indexed, "held" in names

    client.run_on_scheduler(soon)
    held = client.submit(abs, -1, key="held-1")
    held.result()
    for number in range(40):
        client.submit(abs, -number, pure=False).result()
    time.sleep(3)  # for heartbeats, and until they are old
    client.submit(abs, -40, pure=False).result()
    count, indexed, is_held = client.run_on_scheduler(spans)
    assert count <= 15
    assert indexed == [count]
    assert is_held
    assert client.submit(abs, held).result() == 1


def test_a_worker_deletes_its_metrics_of_old_computations(client):
    def timer(dask_worker):
        return dask_worker.periodic_callbacks[MetricsRetentionPlugin.name].is_running()

    def forget(dask_worker):
        from jupyter_gpudask.worker import plugins

        plugins._MAX_METRICS = 10
        dask_worker.periodic_callbacks[plugins.MetricsRetentionPlugin.name].callback()
        kinds = dask_worker.digests_total, dask_worker.digests_max
        return [(sum(isinstance(name, tuple) for name in kind), "tick-duration" in kind) for kind in kinds]

    for number in range(20):
        client.submit(abs, -number, pure=False).result()
    assert list(client.run(timer).values()) == [True]
    assert client.run(forget) == {client_address(client): [(10, True), (10, True)]}


@pytest.mark.parametrize(
    "wait",
    [
        lambda client, futures: futures[0].result(),
        lambda client, futures: client.gather(futures),
        lambda client, futures: dask.delayed(divmod)(1, 0).compute(scheduler=client),
    ],
    ids=["result", "gather", "compute"],
)
def test_the_results_of_a_failed_computation_are_released_with_its_error(client, wait):
    with pytest.raises(ZeroDivisionError, match="by zero") as caught:
        wait(client, [client.submit(divmod, 1, 0, pure=False), client.submit(abs, -1, pure=False)])
    assert "sync" in [frame.name for frame in caught.traceback]
    del caught
    wait_until(lambda: gc.collect() is None or not client.futures)  # the thread of the client may hold them until then


def client_address(client):
    [address] = client.scheduler_info()["workers"]
    return address
