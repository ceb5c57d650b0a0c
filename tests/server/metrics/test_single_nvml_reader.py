"""One process reads NVML for a server and all its clusters."""

import time

import pytest
from helpers import fake_gpu_environment

pytestmark = pytest.mark.cluster


@pytest.fixture
def log(tmp_path):
    path = tmp_path / "nvml.log"
    path.touch()
    return path


def test_worker_states_contain_gpu_metrics_although_only_the_server_reads_nvml(own_server, log):
    server = own_server(environment=fake_gpu_environment(FAKE_NVML_LOG=str(log)))
    kernels = [server.kernel(f"{name}.ipynb") for name in "ab"]
    started = [server.start(kernel, engine="cuda", gpus=1, share=False, workers=None) for kernel in kernels]
    assert {cluster["status"] for cluster in started} == {"ready"}
    stream = server.socket("stream")
    stream.recv()
    log.write_text("")

    end = time.monotonic() + 4
    while time.monotonic() < end:
        stream.recv()
        for number, kernel in enumerate(kernels):
            (worker,) = server.cluster(kernel)["state"]["workers"]
            seen = [worker[name] for name in ("gpu_index", "utilization", "device_memory_used", "device_memory_total")]
            assert seen == [number, 37, 2**30, 140 * 2**30]
    stream.close()

    lines = [line.split() for line in log.read_text().splitlines()]
    ours = [(int(pid), name) for pid, caller, name in lines if caller.startswith("jupyter_gpudask")]
    looks = [pid for pid, name in ours if name == "nvmlDeviceGetMemoryInfo"]
    assert set(looks) == {server.pid}
    assert len(looks) <= 2 * 6  # each GPU once a second, whoever asks
    assert {name for pid, name in ours if pid == server.pid} == {"nvmlDeviceGetMemoryInfo"}  # it stayed open

    kernels[0].ok("%load_ext jupyter_gpudask\nstatus = %gpudask status")
    assert kernels[0].ok("status.state.workers[0].device_memory_used").value == str(2**30)
