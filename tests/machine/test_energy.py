"""The energy counter of a GPU, and the energy of a cell."""

import json

import pytest
from helpers import fake_gpu_environment

from jupyter_gpudask.worker.cell_metrics import WorkerCellMetrics, energy_between, total_energy

GPU = "GPU-00000000-1111-2222-3333-444444444444"


def read(run_python, change="", uuid=GPU, **settings):
    script = f"""
import json, pynvml
from jupyter_gpudask.machine.nvml import read_energy
{change}
print(json.dumps([read_energy({uuid!r}) for _ in range(2)]))
"""
    return json.loads(run_python(script, fake_gpu_environment(**settings)))


def test_the_counter_is_in_joules(run_python):
    assert read(run_python, FAKE_ENERGY="2.5") == [2.5, 5]


def test_a_gpu_without_a_counter_and_a_machine_without_a_driver_have_none(run_python):
    assert read(run_python) == [None, None]
    assert read(run_python, FAKE_ENERGY="2.5", FAKE_NVML_ERROR="LIBRARY_NOT_FOUND") == [None, None]


def test_a_part_of_a_gpu_has_none(run_python):
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
