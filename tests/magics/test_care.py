"""`%gpudask doctor` and `%gpudask free`, on real kernels, with and without pretend GPUs."""

import pytest
from helpers import Kernel, fake_gpu_environment


@pytest.fixture(scope="module")
def gpu_kernel():
    kernel = Kernel(fake_gpu_environment(cupy=True, FAKE_GPUS="2", FAKE_GPU_USED=str(138 * 2**30)))
    kernel.ok("%load_ext jupyter_gpudask")
    yield kernel
    kernel.shutdown()


def findings(kernel):
    reply = kernel.ok("[(f.subject, f.verdict, f.text, f.fix) for f in examined.findings]")
    return {subject: (verdict, text, fix) for subject, verdict, text, fix in eval(reply.value)}  # noqa: S307


def test_a_machine_without_a_driver_is_told_so_and_what_to_do(kernel):
    kernel.ok("%load_ext jupyter_gpudask")
    reply = kernel.ok("examined = %gpudask doctor\nexamined")
    assert "1 problem found." in reply.value
    assert "This machine has no NVIDIA driver." in reply.html[-1]
    found = findings(kernel)
    assert found["driver"][0] == "problem"
    assert found["cluster"] == ("note", "This kernel has none.", "Type: %gpudask start")
    assert found["Dask"][0] == "ok"


def test_each_thing_that_must_be_right_has_a_line(gpu_kernel):
    gpu_kernel.ok("import dask.array as da\nstarted = %gpudask start")
    gpu_kernel.ok("%%gpudask --dataframe pandas\nda.ones(3).sum().compute()")
    gpu_kernel.ok("examined = %gpudask doctor")
    found = findings(gpu_kernel)
    assert found["driver"] == ("ok", "580.00, for CUDA 13 and older", "")
    assert found["GPUs"] == ("ok", "2: NVIDIA H200", "")
    verdict, text, fix = found["GPU 0"]
    assert (verdict, fix) == ("problem", "Type: %gpudask free")
    assert text.startswith("2.0 GiB of 140 GiB free; held by pid 812")
    assert found["CuPy"] == ("ok", "14.2.0", "")
    assert found["cuDF"][0] == "problem"  # an empty name here
    assert "%pip install" in found["cuDF"][2]
    assert found["versions"] == ("ok", "The kernel and 2 workers have the same.", "")


def test_versions_that_differ_between_kernel_and_workers_are_named(gpu_kernel):
    gpu_kernel.ok("import cupy\ncupy.__version__ = '13.0.0'\nexamined = %gpudask doctor\ncupy.__version__ = '14.2.0'")
    assert findings(gpu_kernel)["versions"] == (
        "problem",
        "cupy is 13.0.0 in the kernel and 14.2.0 in a worker.",
        "Restart the kernel.",
    )


def test_a_setting_that_breaks_the_switch_is_found(gpu_kernel):
    gpu_kernel.ok("import dask\nbefore = dask.config.get('array.query-planning', False)")
    gpu_kernel.ok("dask.config.set({'array.query-planning': True})\nexamined = %gpudask doctor")
    gpu_kernel.ok("dask.config.set({'array.query-planning': before})")
    assert findings(gpu_kernel)["Dask"][0] == "problem"


def test_what_is_held_without_need_is_freed_and_told_by_gpu(gpu_kernel):
    reply = gpu_kernel.ok("freed = %gpudask free\nfreed")
    assert reply.value.splitlines()[0] == "3.0 MiB of device memory freed."
    assert gpu_kernel.ok("freed.freed").value == str({"GPU 0": 2**20, "GPU 1": 2**20, "kernel": 2**20})
    assert "4.0 GiB is in use on the workers by results that variables hold" in reply.value
    assert gpu_kernel.ok("freed = %gpudask free\nfreed").value.startswith("0 B of device memory freed.")


def test_on_the_stand_in_there_is_nothing_to_free(kernel):
    kernel.ok("%load_ext jupyter_gpudask\nstarted = %gpudask start --cpu 1")
    assert kernel.ok("%gpudask free").value == "0 B of device memory freed."


@pytest.fixture
def kernel_of_its_own():
    kernel = Kernel(fake_gpu_environment(cupy=True, FAKE_GPUS="3"))
    kernel.ok("%load_ext jupyter_gpudask\nimport os, signal\nstarted = %gpudask start --gpus 2,")
    yield kernel
    kernel.shutdown()


def test_a_worker_that_is_stopped_does_not_stop_the_doctor(kernel_of_its_own):
    kernel = kernel_of_its_own
    pid = kernel.ok("print(next(iter(started.client.run(os.getpid).values())))").printed.strip()
    kernel.ok(f"os.kill({pid}, signal.SIGSTOP)\nexamined = %gpudask doctor", timeout=50)
    assert findings(kernel)["workers"] == ("problem", "1 of 1 do not answer.", "Type: %gpudask logs")
    kernel.ok(f"os.kill({pid}, signal.SIGCONT)")
