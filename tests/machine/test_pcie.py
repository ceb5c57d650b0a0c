"""The traffic over PCIe of GPUs whose driver has no long counter of it."""

import json

import pytest
from helpers import fake_gpu_environment, slowdown

BEGIN = """
import json, time
import pynvml, sitecustomize
from jupyter_gpudask.machine import nvml
nvml._IDLE = {idle}
from jupyter_gpudask.machine.gpus import list_gpus
from jupyter_gpudask.machine.nvml import PcieMeter
gpus = list_gpus()
uuids = [gpu.uuid for gpu in gpus]
meter = PcieMeter()
"""
MIB = 2**20


@pytest.fixture
def measure(run_python):
    """Run a script with two pretend GPUs that have no counter of PCIe; what it prints."""

    def measure(script, idle=10.0, **settings):
        return json.loads(run_python(BEGIN.format(idle=idle) + script, fake_gpu_environment(**settings)))

    return measure


def test_gpm_gives_the_average_since_the_previous_call(measure):
    script = """
first = meter.read(uuids)
time.sleep(0.05)
second = meter.read(uuids)
print(json.dumps([gpus[0].pcie_bytes, gpus[0].nvlink_bytes is None, first, list(second.values())]))
"""
    assert measure(script, FAKE_PCIE="gpm", FAKE_TRAFFIC=str(8 * MIB)) == [None, False, {}, [8 * MIB, 8 * MIB]]


def test_one_sample_of_each_gpu_is_kept_and_none_after_closing(measure):
    script = """
kept = []
for _ in range(3):
    meter.read(uuids)
    kept.append(len(sitecustomize.gpm_samples))
    time.sleep(0.01)
meter.close()
print(json.dumps([*kept, len(sitecustomize.gpm_samples)]))
"""
    assert measure(script, FAKE_PCIE="gpm") == [2, 2, 2, 0]


def test_a_gpu_that_does_not_respond_loses_its_sample_and_not_those_of_others(measure):
    script = """
get, lost = pynvml.nvmlGpmSampleGet, []
def fail(handle, sample):
    if handle in lost:
        raise pynvml.NVMLError(pynvml.NVML_ERROR_GPU_IS_LOST)
    return get(handle, sample)
pynvml.nvmlGpmSampleGet = fail
seen = []
for gone in ([], [1], [], []):
    lost[:] = gone
    seen.append(sorted(meter.read(uuids)))
    time.sleep(0.01)
meter.close()
print(json.dumps([[len(each) for each in seen], len(sitecustomize.gpm_samples)]))
"""
    assert measure(script, FAKE_PCIE="gpm") == [[0, 1, 1, 2], 0]


def test_samples_of_before_nvml_was_closed_are_not_compared(measure):
    script = """
meter.read(uuids)
time.sleep(1)
seen = [len(meter.read(uuids)), len(sitecustomize.gpm_samples)]
time.sleep(0.01)
print(json.dumps([*seen, len(meter.read(uuids))]))
"""
    assert measure(script, idle=0.2, FAKE_PCIE="gpm") == [0, 2, 2]


def test_other_gpus_are_measured_for_a_moment_all_at_the_same_time(measure):
    script = """
start = time.monotonic()
rates = meter.read(uuids)
print(json.dumps([sorted(set(rates.values())), len(rates), time.monotonic() - start]))
"""
    rates, count, seconds = measure(script, FAKE_PCIE="throughput", FAKE_TRAFFIC="8000000", FAKE_GPUS="8")
    assert (rates, count) == ([8000000], 8)
    assert seconds < 8 * 0.04 * slowdown()


@pytest.mark.parametrize("kind", ["gpm", "throughput"])
def test_a_gpu_that_does_not_report_it_and_a_mig_instance_are_left_out(measure, kind):
    script = """
meter.read(uuids)
time.sleep(0.01)
print(json.dumps([meter.read(uuids), meter.read(["MIG-1"])]))
"""
    assert measure(script, FAKE_PCIE=kind, FAKE_TRAFFIC="-1") == [{}, {}]


def test_without_a_driver_nothing_is_measured(run_python):
    script = "from jupyter_gpudask.machine.nvml import PcieMeter; print(PcieMeter().read(['GPU-1']))"
    assert run_python(script, fake_gpu_environment(FAKE_NVML_ERROR="LIBRARY_NOT_FOUND")).strip() == "{}"
