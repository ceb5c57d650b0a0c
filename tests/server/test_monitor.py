"""Reading GPUs that fail, disappear, or support only some metrics."""

import json
import os
import re
import time

import pytest
from helpers import fake_gpu_environment

from jupyter_gpudask.machine.lease_registry import LEASE_DIRECTORY_VARIABLE
from jupyter_gpudask.machine.leases import Lease, LeaseFolder, WaitingLine
from jupyter_gpudask.protocol.state import GpuProcess, GpuState
from jupyter_gpudask.server.monitor import GpuReader

READ = """
import json, logging, sys
import pynvml
from jupyter_gpudask.server.monitor import GpuReader
logging.basicConfig(stream=sys.stderr, format="%(message)s")
reader = GpuReader()
seen = []
for step in range(4):
{body}
    seen.append(json.loads(reader.read({{}}).model_dump_json()))
handled = []
logging.getLogger().handlers[0].flush()
print(json.dumps(seen))
"""


KERNEL = """
import os, subprocess, sys, types
import pynvml
from jupyter_gpudask.server.monitor import GpuReader
from jupyter_gpudask.server.kernels import KernelProcess
kernel = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, start_new_session=True)
on_gpu = [types.SimpleNamespace(pid=pid, usedGpuMemory=2**29) for pid in (kernel.pid, os.getpid())]
pynvml.nvmlDeviceGetComputeRunningProcesses = lambda handle: on_gpu
users = GpuReader().read({os.getsid(0): "b"}, {kernel.pid: KernelProcess("a", "analysis.ipynb")}).gpus[0].users
kernel.communicate(b"")
print([(user.kernel_id, user.notebook) for user in users])
"""


def test_a_process_on_a_gpu_is_attributed_to_its_notebook_or_its_cluster(run_python):
    seen = run_python(KERNEL, fake_gpu_environment())
    assert eval(seen) == [("a", "analysis.ipynb"), ("b", None)]  # noqa: S307


@pytest.mark.parametrize(("leased", "kernel_id"), [("GPU-here", "a"), ("GPU-of-another-host", None)])
def test_a_lease_attributes_a_process_to_a_kernel_only_on_the_host_of_its_gpus(monkeypatch, leased, kernel_id):
    gpu = GpuState(index=0, uuid="GPU-here", name="H200", processes=(GpuProcess(pid=os.getpid()),))
    lease = Lease((leased,), "a.ipynb", "a", os.getsid(0), share=False)
    monkeypatch.setattr("jupyter_gpudask.server.monitor.list_gpus", lambda: [gpu])
    monkeypatch.setattr(LeaseFolder, "read", lambda _: [lease])
    assert GpuReader().read({}).gpus[0].users[0].kernel_id == kernel_id


@pytest.mark.parametrize(
    ("used", "listed", "holder", "hidden"),
    [
        (2**29, (), None, False),  # memory of the driver itself
        (40 * 2**30, (), None, True),
        (40 * 2**30, (39.5 * 2**30,), None, False),
        (40 * 2**30, (10 * 2**30,), None, True),
        (40 * 2**30, (None,), None, False),
        (40 * 2**30, (), "a.ipynb", False),
        (None, (), None, False),
    ],
)
def test_memory_in_use_that_no_listed_process_explains_is_reported_as_hidden_use(
    monkeypatch, used, listed, holder, hidden
):
    processes = tuple(GpuProcess(pid=os.getpid(), memory=None if size is None else int(size)) for size in listed)
    gpu = GpuState(index=0, uuid="GPU-0", name="H200", memory_used=used, processes=processes)
    leases = [Lease(("GPU-0",), holder, "a", os.getpid(), share=False)] if holder else []
    monkeypatch.setattr("jupyter_gpudask.server.monitor.list_gpus", lambda: [gpu])
    monkeypatch.setattr(LeaseFolder, "read", lambda _: leases)
    assert GpuReader().read({}).gpus[0].hidden_use is hidden


def test_the_line_of_starts_is_reported_without_what_others_invent(monkeypatch, tmp_path):
    gpus = [GpuState(index=index, uuid=f"GPU-{index}", name="H200") for index in range(2)]
    monkeypatch.setattr("jupyter_gpudask.server.monitor.list_gpus", lambda: gpus)
    monkeypatch.setenv(LEASE_DIRECTORY_VARIABLE, str(tmp_path))
    line = WaitingLine(tmp_path)
    places = [
        line.enter(["GPU-0", "GPU-1"], count=2),
        line.enter(["GPU-of-another-host"], count=1),
        line.enter(["GPU-1", "GPU-invented"], count=10**9),
        line.enter(["GPU-0"], count=-3),
    ]
    try:
        waiting = GpuReader().read({}).waiting
        assert [(start.gpus, start.count) for start in waiting] == [
            (("GPU-0", "GPU-1"), 2),
            (("GPU-1",), 1),
            (("GPU-0",), 1),
        ]
        assert all(start.own and re.fullmatch(r"user \S+ since \d\d:\d\d.*", start.user) for start in waiting)
        assert [start.since for start in waiting] == sorted(start.since for start in waiting)
        assert abs(waiting[0].since - time.time()) < 60
        places += [line.enter(["GPU-1"]) for _ in range(60)]
        assert len(GpuReader().read({}).waiting) == 50
    finally:
        for place in places:
            place.leave()
    assert GpuReader().read({}).waiting == ()


@pytest.fixture
def read(run_python, tmp_path):
    """Read the GPUs four times, running `body` with the number `step` before; return results and logged lines."""

    def run(body="pass", **settings):
        log = tmp_path / "log"
        script = f"import sys; sys.stderr = open({str(log)!r}, 'w')\n" + READ.format(body=f"    {body}")
        return json.loads(run_python(script, fake_gpu_environment(**settings))), log.read_text().splitlines()

    return run


@pytest.mark.parametrize(
    ("error", "words"), [("LIBRARY_NOT_FOUND", "has no NVIDIA driver"), ("UNKNOWN", "reports an error")]
)
def test_a_driver_that_does_not_respond_is_reported_and_logged_once(read, error, words):
    seen, logged = read(FAKE_NVML_ERROR=error)
    assert all(words in look["reason"] and look["gpus"] == [] for look in seen)
    assert len(logged) == 1


def test_a_metric_that_a_gpu_does_not_support_is_missing_and_the_others_are_read(read):
    no = "no = lambda *_: (_ for _ in ()).throw(pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED))"
    seen, logged = read(f"{no}; pynvml.nvmlDeviceGetUtilizationRates = pynvml.nvmlDeviceGetPowerUsage = no")
    gpu = seen[-1]["gpus"][0]
    assert (gpu["utilization"], gpu["power"], gpu["temperature"], gpu["memory_used"]) == (None, None, 46, 2**30)
    assert (seen[-1]["reason"], logged) == ("", [])


def test_a_gpu_that_falls_off_the_bus_is_named_and_the_others_are_read(read):
    lost = "pynvml.NVMLError(pynvml.NVML_ERROR_GPU_IS_LOST)"
    by_index = f"def by_index(i):\n        if i == 0 and step in (1, 2): raise {lost}\n        return i"
    seen, logged = read(f"{by_index}\n    pynvml.nvmlDeviceGetHandleByIndex = by_index")
    assert [len(look["gpus"]) for look in seen] == [2, 1, 1, 2]
    assert seen[1]["reason"] == "These GPUs no longer respond: 0 (NVIDIA H200)."
    assert seen[3]["reason"] == ""
    assert logged == ["These GPUs no longer respond: 0 (NVIDIA H200).", "All GPUs respond again."]


def test_a_gpu_whose_mig_mode_changes_is_not_reported_as_missing(read):
    """MIG mode off, two instances, one instance, off."""
    mig = (
        "uuid = pynvml.nvmlDeviceGetUUID if step == 0 else uuid; count = [0, 2, 1, 0][step]; "
        "pynvml.nvmlDeviceGetMigMode = lambda h: (int(h == 0), 0); "
        "pynvml.nvmlDeviceGetMaxMigDeviceCount = lambda h: count; "
        "pynvml.nvmlDeviceGetMigDeviceHandleByIndex = lambda h, n: 10 + n; "
        "pynvml.nvmlDeviceGetUUID = lambda h: uuid(h) if h < 10 else f'MIG-{h}'"
    )
    seen, logged = read(mig)
    assert [len(look["gpus"]) for look in seen] == [2, 3, 2, 2]
    assert [gpu["uuid"][:6] for gpu in seen[1]["gpus"]] == ["MIG-10", "MIG-11", "GPU-00"]
    assert logged == []
