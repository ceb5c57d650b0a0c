"""How the state of a cluster is put together."""

import asyncio
import threading
from types import SimpleNamespace

import pynvml
import pytest

from jupyter_gpudask.machine.plan import Plan
from jupyter_gpudask.protocol import GpuState
from jupyter_gpudask.scheduler.cells import handle_beginnings
from jupyter_gpudask.scheduler.workers import WorkerFailuresPlugin
from jupyter_gpudask.supervisor.supervised import read_state
from jupyter_gpudask.worker.preload import LOGS_VARIABLE, METRICS, MetricsPlugin


def scheduler_with(*workers):
    scheduler = SimpleNamespace(
        address="tcp://b:1", unrunnable=(), queued=(), task_groups={}, clients={}, extensions={}, stream_handlers={}
    )
    scheduler.workers = {worker.address: worker for worker in workers}
    handle_beginnings(scheduler, pass_on=False)
    return scheduler


def test_the_schedulers_loop_turns_while_nvml_is_asked(monkeypatch):
    turned = threading.Event()

    def init():
        assert turned.wait(30)
        raise pynvml.NVMLError(pynvml.NVML_ERROR_LIBRARY_NOT_FOUND)

    monkeypatch.setattr(pynvml, "nvmlInit", init)
    plan = Plan("cuda", workers=1, gpus=(GpuState(index=0, uuid="GPU-0", name="H200"),))
    scheduler = scheduler_with()

    async def run():
        asyncio.get_running_loop().call_later(0.01, turned.set)
        cluster = SimpleNamespace(scheduler=scheduler, workers={}, plan=set())
        return await read_state(cluster, plan, "ready", WorkerFailuresPlugin(scheduler), start_timeout=60)

    assert asyncio.run(run()).engine == "cuda"


def worker_named(name, metrics):
    return SimpleNamespace(
        name=name,
        address="tcp://a",
        host="a",
        metrics=metrics,
        executing=(),
        processing=(),
        nthreads=1,
        memory_limit=0,
        status=SimpleNamespace(name="running"),
    )


def state_with(worker, plan):
    scheduler = scheduler_with(worker)
    cluster = SimpleNamespace(scheduler=scheduler, workers={}, plan={worker.name})
    return asyncio.run(
        read_state(cluster, plan, "ready", WorkerFailuresPlugin(scheduler), start_timeout=60, gpu_metrics=False)
    )


def test_nvml_is_not_asked_for_a_parent_that_reads_it_itself(monkeypatch):
    monkeypatch.setattr(pynvml, "nvmlInit", lambda: pytest.fail("NVML was opened"))
    plan = Plan("cuda", workers=1, gpus=(GpuState(index=3, uuid="GPU-3", name="H200"),))
    state = state_with(worker_named("GPU-3", {}), plan)
    assert (state.workers[0].gpu_index, state.workers[0].device_memory_used) == (3, None)


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
