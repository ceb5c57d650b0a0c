"""NVML is opened once in a process, and closed when nobody looks any more."""

import json

import pytest
from helpers import fake_gpu_environment

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


def test_many_looks_open_it_once_and_it_is_closed_a_while_after_the_last(look):
    script = """
for _ in range(5):
    gpus.list_gpus(), gpus.driver_version(), gpus.cuda_driver_version()
    time.sleep(0.1)
seen = [calls("nvmlInit"), calls("nvmlShutdown")]
time.sleep(1)
seen += [calls("nvmlInit"), calls("nvmlShutdown"), threading.active_count()]
gpus.list_gpus()
seen += [calls("nvmlInit"), calls("nvmlShutdown")]
print(json.dumps(seen))
"""
    assert look(script) == [1, 0, 1, 1, 1, 2, 1]


def test_threads_share_it_and_it_is_not_closed_while_one_of_them_looks(look):
    script = """
threads = [threading.Thread(target=gpus.list_gpus) for _ in range(8)]
for thread in threads:
    thread.start()
time.sleep(0.7)
during = calls("nvmlInit"), calls("nvmlShutdown")
for thread in threads:
    thread.join()
print(json.dumps([during, calls("nvmlInit")]))
"""
    assert look(script, FAKE_NVML_DELAY="0.2") == [[1, 0], 1]


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
