"""NVML: opening and closing it, energy and PCIe traffic."""

import json

import pytest
from helpers import fake_gpu_environment, slowdown

from jupyter_gpudask.worker.memory import WorkerCellMetrics, energy_between, total_energy

BEGIN = """
import json, os, threading, time
from jupyter_gpudask import errors
from jupyter_gpudask.machine import gpus, nvml
import pynvml
nvml._IDLE = 0.3
def calls(name):
    lines = open(os.environ["FAKE_NVML_LOG"]).read().split("\\n")
    return sum(line.split()[::2] == [str(os.getpid()), name] for line in lines)
"""


@pytest.fixture
def look(run_python, tmp_path):
    """Run a script with two pretend GPUs whose NVML keeps a log; what it prints."""
    (tmp_path / "log").touch()

    def look(script, **settings):
        return json.loads(run_python(BEGIN + script, fake_gpu_environment(FAKE_NVML_LOG=f"{tmp_path}/log", **settings)))

    return look


def test_many_looks_in_all_threads_open_it_once_and_it_is_closed_a_while_after_the_last(look):
    script = """
for _ in range(2):
    gpus.list_gpus(), gpus.driver_version(), gpus.cuda_driver_version()
threads = [threading.Thread(target=gpus.list_gpus) for _ in range(8)]
for thread in threads:
    thread.start()
time.sleep(0.7)
seen = [calls("nvmlInit"), calls("nvmlShutdown")]
for thread in threads:
    thread.join()
seen += [calls("nvmlInit")]
end = time.monotonic() + 30
while threading.active_count() > 1 and time.monotonic() < end:
    time.sleep(0.05)
seen += [calls("nvmlInit"), calls("nvmlShutdown"), threading.active_count()]
gpus.list_gpus()
seen += [calls("nvmlInit"), calls("nvmlShutdown")]
print(json.dumps(seen))
"""
    assert look(script, FAKE_NVML_DELAY="0.2") == [1, 0, 1, 1, 1, 1, 2, 1]


def test_a_process_that_was_forked_opens_its_own(look):
    script = """
gpus.list_gpus()
child = os.fork()
if not child:
    gpus.list_gpus()
    os._exit(10 * calls("nvmlInit") + calls("nvmlShutdown"))
code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
print(json.dumps([code, calls("nvmlInit"), calls("nvmlShutdown")]))
"""
    assert look(script) == [10, 1, 0]


def test_after_an_error_it_is_opened_anew_and_no_thread_is_left_over(look):
    script = """
def fail(): raise pynvml.NVMLError(pynvml.NVML_ERROR_UNKNOWN)
count = pynvml.nvmlDeviceGetCount
seen = []
for _ in range(3):
    pynvml.nvmlDeviceGetCount = fail
    try:
        gpus.list_gpus()
    except errors.GpuUnavailableError:
        pynvml.nvmlDeviceGetCount = count
    seen.append([len(gpus.list_gpus()), calls("nvmlInit"), calls("nvmlShutdown"), threading.active_count()])
print(json.dumps(seen))
"""
    first, *_, last = look(script)
    assert first == [2, 2, 1, 2]
    assert last[0] == 2
    assert last[1] - last[2] == 1
    assert last[3] == 2


def test_a_gpu_that_no_longer_answers_is_looked_for_by_nvml_that_was_opened_since(look):
    script = """
by_index = pynvml.nvmlDeviceGetHandleByIndex
def lost(index):
    if index:
        raise pynvml.NVMLError(pynvml.NVML_ERROR_GPU_IS_LOST)
    return by_index(index)
gpus.list_gpus()
pynvml.nvmlDeviceGetHandleByIndex = lost
before = len(gpus.list_gpus()), calls("nvmlInit"), calls("nvmlShutdown")
pynvml.nvmlDeviceGetHandleByIndex = by_index
print(json.dumps([before, len(gpus.list_gpus()), calls("nvmlInit")]))
"""
    assert look(script) == [[1, 1, 1], 2, 2]


GPU = "GPU-00000000-1111-2222-3333-444444444444"


def read(run_python, change="", uuid=GPU, **settings):
    script = f"""
import json, pynvml
from jupyter_gpudask.machine.nvml import read_energy
{change}
print(json.dumps([read_energy({uuid!r}) for _ in range(2)]))
"""
    return json.loads(run_python(script, fake_gpu_environment(**settings)))


def test_the_counter_is_in_joules_and_a_gpu_without_one_a_part_of_a_gpu_and_no_driver_have_none(run_python):
    assert read(run_python, FAKE_ENERGY="2.5") == [2.5, 5]
    assert read(run_python) == [None, None]
    assert read(run_python, FAKE_ENERGY="2.5", FAKE_NVML_ERROR="LIBRARY_NOT_FOUND") == [None, None]
    assert read(run_python, uuid=GPU.replace("GPU", "MIG"), FAKE_ENERGY="2.5") == [None, None]
    in_mig_mode = "pynvml.nvmlDeviceGetMigMode = lambda handle: (pynvml.NVML_DEVICE_MIG_ENABLE, 0)"
    assert read(run_python, in_mig_mode, FAKE_ENERGY="2.5") == [None, None]


@pytest.mark.parametrize(
    ("before", "after", "energy"),
    [(1.0, 4.0, 3), (2.0, 2.0, 0), (1.0, 0.5, None), (None, 4.0, None), (1.0, None, None)],
)
def test_the_energy_between_two_readings(before, after, energy):
    assert energy_between(before, after) == energy


@pytest.mark.parametrize(
    ("energies", "workers", "total"),
    [([3.0, 0.0], 2, 3), ([3.0, None], 2, None), ([3.0], 2, None), ([3.0, 1.0], 1, None), ([], 2, None)],
)
def test_the_energy_of_a_cell_is_known_only_if_that_of_each_gpu_is(energies, workers, total):
    assert (
        total_energy([WorkerCellMetrics(str(number), None, each, workers) for number, each in enumerate(energies)])
        == total
    )


@pytest.fixture
def measure(run_python):
    """Run a script with pretend GPUs that have no counter of PCIe; what it prints."""

    def measure(script, **settings):
        begin = "import json, time\nfrom jupyter_gpudask.machine.nvml import measure_pcie\n"
        begin += "from jupyter_gpudask.machine.gpus import list_gpus\nuuids = [gpu.uuid for gpu in list_gpus()]\n"
        return json.loads(run_python(begin + script, fake_gpu_environment(FAKE_PCIE="throughput", **settings)))

    return measure


def test_pcie_is_measured_for_a_moment_on_all_gpus_at_the_same_time(measure):
    script = """
start = time.monotonic()
rates = measure_pcie(uuids)
print(json.dumps([sorted(set(rates.values())), len(rates), time.monotonic() - start]))
"""
    rates, count, seconds = measure(script, FAKE_TRAFFIC="8000000", FAKE_GPUS="8")
    assert (rates, count) == ([8000000], 8)
    assert seconds < 8 * 0.04 * slowdown()


def test_a_gpu_that_does_not_report_pcie_and_a_mig_instance_are_left_out(measure):
    assert measure("print(json.dumps([measure_pcie(uuids), measure_pcie(['MIG-1'])]))", FAKE_TRAFFIC="-1") == [{}, {}]


def test_without_a_driver_nothing_is_measured(run_python):
    script = "from jupyter_gpudask.machine.nvml import measure_pcie; print(measure_pcie(['GPU-1']))"
    assert run_python(script, fake_gpu_environment(FAKE_NVML_ERROR="LIBRARY_NOT_FOUND")).strip() == "{}"
