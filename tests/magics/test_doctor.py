"""`%gpudask doctor` and `%gpudask free`, on real kernels, with and without pretend GPUs."""

import os
import re

import pytest
from helpers import Kernel, fake_gpu_environment

pytestmark = pytest.mark.cluster


def findings(kernel):
    reply = kernel.ok("[(f.subject, f.verdict, f.text, f.fix) for f in examined.findings]")
    return {subject: (verdict, text, fix) for subject, verdict, text, fix in eval(reply.value)}  # noqa: S307


def test_a_machine_without_a_driver_gets_a_problem_with_what_to_do(without_cluster):
    reply = without_cluster.ok("examined = %gpudask doctor\nexamined")
    assert "1 problem found." in reply.value
    assert "This machine has no NVIDIA driver." in reply.html[-1]
    assert 'aria-label="problem">✗</span>' in reply.html[-1]
    assert "<code>Type: %gpudask start</code>" in reply.html[-1]
    assert reply.value.splitlines()[-1].startswith("State at 20")
    found = findings(without_cluster)
    assert found["driver"][0] == "problem"
    assert found["cluster"] == ("note", "This kernel has none.", "Type: %gpudask start")
    assert found["Dask"][0] == "ok"
    verdict, text, _ = found["patches"]
    assert verdict == "ok"
    assert "changes of other libraries, by the first GPU cell: configuration per cell, " in text
    assert without_cluster.ok("%gpudask free").value == "0 B of device memory freed."


FULL = """
import sitecustomize
sitecustomize.Memory.used, sitecustomize.Memory.free = 138 * 2**30, 2 * 2**30
path = os.environ.pop("PYTHONPATH")  # a new process would find no CuPy
examined = %gpudask doctor
os.environ["PYTHONPATH"] = path
sitecustomize.Memory.used, sitecustomize.Memory.free = 2**30, 139 * 2**30
"""


def test_each_check_has_a_line_and_libraries_with_which_a_worker_has_computed_are_not_imported_again(cupy_kernel):
    cupy_kernel.ok("%%gpudask --dataframe pandas\nda.ones(3).sum().compute()")
    cupy_kernel.ok(FULL)
    found = findings(cupy_kernel)
    assert found["driver"] == ("ok", "580.00, for CUDA 13 and older", "")
    assert found["GPUs"] == ("ok", "2: NVIDIA H200", "")
    verdict, text, fix = found["GPU 0"]
    assert (verdict, fix) == ("problem", "Type: %gpudask free")
    # The tests' GPUs name a pid that a process of this machine can have.
    assert re.match(r"2\.0 GiB of 140 GiB free; reserved by this kernel; used by (.+ \()?pid 812", text)
    assert found["CuPy"] == ("ok", "14.2.0", "")
    assert found["cuDF"][0] == "problem"  # an empty name here
    assert "%pip install" in found["cuDF"][2]
    assert found["versions"] == ("ok", "The kernel and 2 workers have the same versions.", "")
    verdict, text, _ = found["patches"]
    assert verdict == "ok"
    assert "changes of other libraries: configuration per cell, " in text
    assert "not needed" not in text


def test_a_worker_that_was_scaled_away_is_not_missed_and_other_versions_in_workers_are_named(cupy_kernel):
    cupy_kernel.ok("%gpudask scale 1")
    cupy_kernel.ok("examined = %gpudask doctor")
    assert findings(cupy_kernel)["versions"][0] == "ok"
    assert "workers" not in findings(cupy_kernel)
    cupy_kernel.ok("%gpudask scale 2")
    cupy_kernel.ok("cupy.__version__ = '13.0.0'\nexamined = %gpudask doctor\ncupy.__version__ = '14.2.0'")
    assert findings(cupy_kernel)["versions"] == (
        "problem",
        "cupy is 13.0.0 in the kernel and 14.2.0 in a worker.",
        "Restart the kernel.",
    )


BROKEN = {
    "cudf": "raise ImportError('libcudf.so does not fit\\n  this driver')",
    "dask_cudf": "__version__ = '26.10'",
    "cupy": "import os, signal\nos.kill(os.getpid(), signal.SIGSEGV)",
    "rmm": "print('hello')\nimport time\ntime.sleep(30)",
    "dask_cuda": "import os\nos.write(2, b'out of luck\\n')\nos._exit(3)",
}
TRY = """
import os
from jupyter_gpudask.gpu_libraries import try_libraries
os.environ["PYTHONPATH"] = os.environ["BROKEN"]
print(sorted(try_libraries(["cudf", "dask_cudf", "cupy", "rmm", "dask_cuda"], limit=4).items()))
"""


def test_each_library_that_fails_is_named_with_its_own_failure_and_the_others_are_tried(tmp_path, run_python):
    for name, code in BROKEN.items():
        (tmp_path / f"{name}.py").write_text(code)
    printed = run_python(TRY, {**os.environ, "BROKEN": str(tmp_path)})
    assert eval(printed) == [  # noqa: S307
        ("cudf", (False, "  this driver")),
        ("cupy", (False, "was killed by SIGSEGV")),
        ("dask_cuda", (False, "out of luck")),
        ("dask_cudf", (True, "26.10")),
        ("rmm", (False, "no answer for 4 s")),
    ]


def test_a_cell_and_doctor_refuse_array_expressions_until_the_setting_is_off_as_they_say():
    kernel = Kernel(fake_gpu_environment(cupy=True, FAKE_GPUS="1", DASK_ARRAY__QUERY_PLANNING="True"))
    try:
        kernel.ok("%load_ext jupyter_gpudask\nstarted = %gpudask start")
        reply = kernel.run("%%gpudask --dataframe pandas\n1")
        kernel.ok("examined = %gpudask doctor")
        verdict, text, fix = findings(kernel)["Dask"]
        assert (verdict, f"{text} {fix}") == ("problem", reply.error_value)
        kernel.manager.restart_kernel(now=True)
        kernel.client.wait_for_ready(timeout=60)
        kernel.ok(fix.partition("cell: ")[2])  # the workers have the setting
        kernel.ok("%load_ext jupyter_gpudask\nstarted = %gpudask start")
        code = "import dask.array as da\ntotal = da.ones(4, chunks=2).sum().compute()\ntotal"
        assert kernel.ok(f"%%gpudask --dataframe pandas\n{code}").value == "np.float64(4.0)"
    finally:
        kernel.shutdown()


def test_unused_memory_is_freed_and_reported_by_gpu(cupy_kernel):
    reply = cupy_kernel.ok("freed = %gpudask free\nfreed")
    assert reply.value.splitlines()[0] == "3.0 MiB of device memory freed."
    assert cupy_kernel.ok("freed.freed").value == str({"GPU 0": 2**20, "GPU 1": 2**20, "kernel": 2**20})
    assert "4.0 GiB is in use by results on the workers" in reply.value
    assert cupy_kernel.ok("freed = %gpudask free\nfreed").value.startswith("0 B of device memory freed.")


@pytest.fixture(scope="module")
def kernel_of_the_last_gpu():
    kernel = Kernel(fake_gpu_environment(cupy=True, FAKE_GPUS="3"))
    kernel.ok("%load_ext jupyter_gpudask\nimport os, signal\nstarted = %gpudask start --gpus 2,")
    yield kernel
    kernel.shutdown()


VISIBLE = "print([name[:12] for name in os.environ.get('CUDA_VISIBLE_DEVICES', '').split(',')])"


def test_the_gpu_of_the_cluster_is_device_0_of_the_kernel_and_the_others_stay_visible(kernel_of_the_last_gpu):
    seen = eval(kernel_of_the_last_gpu.ok(VISIBLE).printed)  # noqa: S307
    assert seen == ["GPU-00000002", "GPU-00000000", "GPU-00000001"]


def test_a_kernel_on_a_gpu_that_its_cluster_does_not_hold_is_found(kernel_of_the_last_gpu):
    kernel = kernel_of_the_last_gpu
    kernel.ok("import pynvml, types\nask = pynvml.nvmlDeviceGetComputeRunningProcesses")
    kernel.ok("mine = types.SimpleNamespace(pid=os.getpid(), usedGpuMemory=2**29)")
    kernel.ok("pynvml.nvmlDeviceGetComputeRunningProcesses = lambda handle: [mine] if handle == 1 else []")
    kernel.ok("examined = %gpudask doctor\npynvml.nvmlDeviceGetComputeRunningProcesses = ask")
    assert findings(kernel)["kernel"][:2] == ("problem", "uses GPU 1, which its cluster has not reserved.")


def test_a_worker_that_is_stopped_does_not_stop_the_doctor(kernel_of_the_last_gpu):
    kernel = kernel_of_the_last_gpu
    pid = kernel.ok("print(next(iter(started.client.run(os.getpid).values())))").printed.strip()
    kernel.ok(f"os.kill({pid}, signal.SIGSTOP)\nexamined = %gpudask doctor", timeout=50)
    assert findings(kernel)["workers"] == ("problem", "1 of 1 do not respond.", "Type: %gpudask logs")
    kernel.ok(f"os.kill({pid}, signal.SIGCONT)")
