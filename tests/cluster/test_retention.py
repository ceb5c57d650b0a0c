"""What Dask keeps of finished work is bounded in the clusters made here."""

import asyncio
import sys
import time

import pytest

from jupyter_gpudask.cluster import retention
from jupyter_gpudask.cluster.connection import connect
from jupyter_gpudask.cluster.launcher import ClusterProcess
from jupyter_gpudask.models import ClusterSpec


@pytest.fixture(scope="module")
def client():
    with asyncio.Runner() as runner:
        process = runner.run(ClusterProcess.start(ClusterSpec(engine="cpu", workers=1), path=sys.path))
        client = connect(process.ready, set_as_default=False)
        yield client
        client.close(1)
        runner.run(process.close())


def test_a_scheduler_forgets_the_spans_of_old_computations_and_keeps_those_of_results_that_are_held(client):
    def soon():
        from jupyter_gpudask.cluster import retention

        retention._SPANS, retention._OLD = 5, 1.0

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


def test_a_worker_forgets_the_sums_of_old_computations(client):
    def timer(dask_worker):
        return dask_worker.periodic_callbacks[retention.RETENTION_PLUGIN].is_running()

    def forget(dask_worker):
        from jupyter_gpudask.cluster import retention

        retention._METRICS = 10
        before = len(dask_worker.digests_total)
        retention.forget_old_metrics(dask_worker.digests_total)
        sums = dask_worker.digests_total
        return before, sum(isinstance(name, tuple) for name in sums), "tick-duration" in sums

    for number in range(20):
        client.submit(abs, -number, pure=False).result()
    assert list(client.run(timer).values()) == [True]
    [(before, after, others)] = client.run(forget).values()
    assert before > 30
    assert after == 10
    assert others


def test_the_logs_that_processes_keep_in_memory_are_short(client):
    def lengths():
        import dask.config

        admin = dask.config.get("distributed.admin")
        return admin["log-length"], admin["low-level-log-length"], admin["system-monitor"]["log-length"]

    assert client.run_on_scheduler(lengths) == (1000, 100, 1200)
    assert set(client.run(lengths).values()) == {(1000, 100, 1200)}
    assert client.scheduler_comm.recent_message_log.maxlen == 100
    assert lengths() == (10_000, 1000, 7200)  # the user's own
