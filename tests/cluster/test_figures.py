"""How the state of a cluster is put together."""

import asyncio
import threading
from types import SimpleNamespace

import pynvml

from jupyter_gpudask.cluster.engines import Plan
from jupyter_gpudask.cluster.figures import read_state
from jupyter_gpudask.models import GpuState


def test_the_schedulers_loop_turns_while_nvml_is_asked(monkeypatch):
    turned = threading.Event()

    def init():
        assert turned.wait(5)
        raise pynvml.NVMLError(pynvml.NVML_ERROR_LIBRARY_NOT_FOUND)

    monkeypatch.setattr(pynvml, "nvmlInit", init)
    plan = Plan("cuda", workers=1, gpus=(GpuState(index=0, uuid="GPU-0", name="H200"),))
    scheduler = SimpleNamespace(workers={}, unrunnable=(), queued=(), task_groups={}, clients={})

    async def run():
        asyncio.get_running_loop().call_later(0.01, turned.set)
        return await read_state(SimpleNamespace(scheduler=scheduler, workers={}, plan=set()), plan, "ready", {})

    assert asyncio.run(run()).engine == "cuda"
