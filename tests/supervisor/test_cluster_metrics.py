"""How the state of a cluster is put together."""

import asyncio
from types import SimpleNamespace

import pytest

from jupyter_gpudask.machine.plan import Plan
from jupyter_gpudask.scheduler.cells import handle_beginnings
from jupyter_gpudask.scheduler.workers import WorkerFailuresPlugin
from jupyter_gpudask.supervisor.supervised import read_state
from jupyter_gpudask.worker.plugins import EXIT_TOPIC
from jupyter_gpudask.worker.preload import LOGS_VARIABLE, METRICS, MetricsPlugin


def state_with(worker, plan):
    scheduler = SimpleNamespace(
        address="tcp://b:1",
        workers={worker.address: worker},
        plugins={},
        unrunnable=(),
        queued=(),
        task_groups={},
        clients={},
        extensions={},
        stream_handlers={},
    )
    scheduler.plugins[WorkerFailuresPlugin.name] = WorkerFailuresPlugin(scheduler)
    handle_beginnings(scheduler, pass_on=False)
    cluster = SimpleNamespace(scheduler=scheduler, workers={}, plan={worker.name})
    return asyncio.run(read_state(cluster, plan, "ready", start_timeout=60, gpu_metrics=False))


def worker_named(name, metrics):
    return SimpleNamespace(
        name=name,
        address="tcp://a",
        host="a",
        metrics=metrics,
        executing=(),
        processing=(),
        nthreads=1,
        pid=1,
        memory_limit=0,
        status=SimpleNamespace(name="running"),
    )


@pytest.mark.parametrize(("engine", "expected"), [("cuda", (2, 40, 30, 80)), ("cpu", (None,) * 4)])
def test_the_gpu_of_another_host_is_read_by_its_worker(monkeypatch, engine, expected):
    monkeypatch.delenv(LOGS_VARIABLE, raising=False)
    device = {"index": 2, "uuid": "GPU-elsewhere", "name": "H200"}
    monkeypatch.setattr("jupyter_gpudask.worker.environment.first_device", lambda: device)
    on_host = SimpleNamespace(metrics={}, data={}, state=SimpleNamespace(executed_count=7))
    MetricsPlugin().setup(on_host)
    heartbeat = {
        METRICS: on_host.metrics[METRICS](on_host),
        "gpu_utilization": 40,
        "gpu_memory_used": 30,
        "gpu-memory-total": 80,
    }
    worker = state_with(worker_named("job-1", heartbeat), Plan(engine, workers=1)).workers[0]
    assert worker.executed == 7
    found = worker.gpu_index, worker.utilization, worker.device_memory_used, worker.device_memory_total
    assert found == expected


def test_a_process_that_follows_a_killed_one_keeps_its_limit_also_where_the_nanny_knows_only_the_address_before():
    worker = worker_named("0", {})
    worker.pid, worker.memory_limit = 2, 2**30
    failures = WorkerFailuresPlugin(SimpleNamespace(address="tcp://b:1", workers={worker.address: worker}))
    before = {"worker": "tcp://before", "name": "0"}
    failures.log_event(EXIT_TOPIC, before | {"pid": 1, "exitcode": -9})  # after the next process has joined
    failures.log_event("worker-restart-memory", before | {"pid": 2, "rss": 2**30})
    failures.log_event(EXIT_TOPIC, before | {"pid": 2, "exitcode": -9})
    assert [each.reason for each in failures.exits] == [
        "was killed by signal 9",
        "used 1.0 GiB of host memory, and its limit is 1.0 GiB",
    ]
