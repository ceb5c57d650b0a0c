"""How the state of a cluster is put together."""

import asyncio
import threading
from types import SimpleNamespace

import pynvml
import pytest

from jupyter_gpudask.machine.plan import Plan
from jupyter_gpudask.protocol import GpuState
from jupyter_gpudask.scheduler.worker_failures import WorkerFailuresPlugin
from jupyter_gpudask.supervisor.metrics import read_state


def test_the_schedulers_loop_turns_while_nvml_is_asked(monkeypatch):
    turned = threading.Event()

    def init():
        assert turned.wait(5)
        raise pynvml.NVMLError(pynvml.NVML_ERROR_LIBRARY_NOT_FOUND)

    monkeypatch.setattr(pynvml, "nvmlInit", init)
    plan = Plan("cuda", workers=1, gpus=(GpuState(index=0, uuid="GPU-0", name="H200"),))
    scheduler = SimpleNamespace(address="tcp://b:1", workers={}, unrunnable=(), queued=(), task_groups={}, clients={})

    async def run():
        asyncio.get_running_loop().call_later(0.01, turned.set)
        cluster = SimpleNamespace(scheduler=scheduler, workers={}, plan=set())
        return await read_state(cluster, plan, "ready", WorkerFailuresPlugin(scheduler))

    assert asyncio.run(run()).engine == "cuda"


def test_nvml_is_not_asked_for_a_parent_that_reads_it_itself(monkeypatch):
    monkeypatch.setattr(pynvml, "nvmlInit", lambda: pytest.fail("NVML was opened"))
    plan = Plan("cuda", workers=1, gpus=(GpuState(index=3, uuid="GPU-3", name="H200"),))
    worker = SimpleNamespace(
        name="GPU-3",
        address="tcp://a",
        host="a",
        metrics={},
        executing=(),
        processing=(),
        nthreads=1,
        status=SimpleNamespace(name="running"),
    )
    scheduler = SimpleNamespace(
        address="tcp://b:1", workers={worker.address: worker}, unrunnable=(), queued=(), task_groups={}, clients={}
    )
    cluster = SimpleNamespace(scheduler=scheduler, workers={}, plan={"GPU-3"})
    state = asyncio.run(read_state(cluster, plan, "ready", WorkerFailuresPlugin(scheduler), gpu_metrics=False))
    assert (state.workers[0].gpu_index, state.workers[0].device_memory_used) == (3, None)
