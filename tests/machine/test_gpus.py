import json
import time

import pytest
from helpers import fake_gpu_environment

from jupyter_gpudask.errors import GpuUnavailableError
from jupyter_gpudask.machine.gpus import select_gpus
from jupyter_gpudask.protocol import GpuState

GPUS = [
    GpuState(index=number, uuid=f"GPU-{number}a", name="H200", memory_total=100, memory_used=used)
    for number, used in enumerate([50, 10, 90, 0])
]

ASK = """
import json
from jupyter_gpudask import errors
from jupyter_gpudask.machine import gpus
try:
    print(json.dumps([gpu.model_dump() for gpu in gpus.visible_gpus()]))
except errors.GpuUnavailableError as error:
    print(json.dumps(str(error)))
"""


@pytest.mark.parametrize(
    ("wanted", "indices"),
    [
        ("all", [0, 1, 2, 3]),
        (2, [1, 3]),
        (4, [0, 1, 2, 3]),
        ([2, 0], [2, 0]),
        (["GPU-3"], [3]),
        ([1, "GPU-0a"], [1, 0]),
    ],
)
def test_gpus_are_chosen_by_count_of_the_freest_by_index_and_by_uuid(wanted, indices):
    assert [gpu.index for gpu in select_gpus(wanted, GPUS)] == indices


@pytest.mark.parametrize(
    ("wanted", "sentence"),
    [
        (5, "--gpus 5 asks for 5 GPUs, and this kernel sees 4"),
        ([4], "There is no GPU 4. Choose from: 0"),
        (["GPU-9"], "There is no GPU GPU-9"),
        ([0, "GPU-0a"], "--gpus lists GPU 0 twice"),
    ],
)
def test_gpus_that_are_not_there_are_named(wanted, sentence):
    with pytest.raises(GpuUnavailableError, match=sentence):
        select_gpus(wanted, GPUS)


@pytest.mark.parametrize(
    ("environment", "sentence"),
    [
        ({"FAKE_GPUS": "0"}, "the NVIDIA driver lists none"),
        ({"CUDA_VISIBLE_DEVICES": ""}, 'CUDA_VISIBLE_DEVICES="" hides all GPUs of this machine'),
        ({"CUDA_VISIBLE_DEVICES": "-1"}, 'CUDA_VISIBLE_DEVICES="-1" hides all GPUs of this machine'),
    ],
)
def test_no_visible_gpu_has_its_reason_and_a_way_out(run_python, environment, sentence):
    ask = ASK.replace("gpus.visible_gpus()", "gpus.require_gpus()")
    assert sentence in json.loads(run_python(ask, fake_gpu_environment(**environment)))


def test_nvml_tells_every_metric(run_python):
    first, second = json.loads(run_python(ASK, fake_gpu_environment()))
    assert (first["index"], first["name"], first["temperature"], first["power"]) == (0, "NVIDIA H200", 46, 191.0)
    assert first["memory_total"] == 140 * 2**30
    assert first["processes"] == [{"pid": 812, "memory": 2**29}]
    assert second["processes"] == []


READ_USE = """
import json, pynvml
from jupyter_gpudask.machine import gpus
held, asked = [*gpus.list_gpus()[1:2], gpus.GpuState(index=9, uuid="GPU-lost", name="H200", memory_used=1)], []

def asks(name, answer):
    return lambda *arguments: asked.append([name.removeprefix("nvmlDeviceGet"), *arguments]) or answer(*arguments)

def by_uuid(uuid):
    if uuid == "GPU-lost":
        raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_FOUND)
    return 1

pynvml.nvmlDeviceGetHandleByUUID = by_uuid
for name in dir(pynvml):
    if name.startswith("nvmlDeviceGet"):
        setattr(pynvml, name, asks(name, getattr(pynvml, name)))
print(json.dumps([asked, [gpu.model_dump(exclude_defaults=True) for gpu in gpus.read_use(held)]]))
"""


def test_the_use_of_some_gpus_is_read_by_asking_those_alone_and_nothing_else_of_them(run_python):
    asked, (held, lost) = json.loads(run_python(READ_USE, fake_gpu_environment(FAKE_GPUS="8")))
    uuid = held["uuid"]
    by_uuid = "HandleByUUID"
    assert asked == [[by_uuid, uuid], ["MemoryInfo", 1], ["UtilizationRates", 1], [by_uuid, "GPU-lost"]]
    assert held == {
        "index": 1,
        "uuid": uuid,
        "name": "NVIDIA H200",
        "memory_total": 140 * 2**30,
        "memory_used": 2**30,
        "utilization": 37,
    }
    assert lost == {"index": 9, "uuid": "GPU-lost", "name": "H200"}


def test_what_went_over_the_links_is_told_by_those_that_count_it(run_python):
    first, _ = json.loads(run_python(ASK, fake_gpu_environment(FAKE_TRAFFIC=str(2**20))))
    assert first["nvlink_bytes"] == pytest.approx(time.time() * 2**20, rel=1e-6)
    assert first["pcie_bytes"] == pytest.approx(time.time() * 2**20, rel=1e-6)
    short, _ = json.loads(run_python(ASK, fake_gpu_environment(FAKE_TRAFFIC=str(2**20), FAKE_TRAFFIC_TYPE="1")))
    silent, _ = json.loads(run_python(ASK, fake_gpu_environment(FAKE_TRAFFIC="-1")))
    for gpu in (short, silent):
        assert (gpu["nvlink_bytes"], gpu["pcie_bytes"]) == (None, None)


@pytest.mark.parametrize(
    ("devices", "indices"),
    [
        ("1", [1]),
        ("1,0", [1, 0]),
        ("", []),
        ("-1", []),
        ("-1,0", []),
        ("1,-1,0", [1]),
        ("all", []),
        ("NoDevFiles", []),
        ("0,9,1", [0]),
        ("0,0", [0]),
        ("GPU-00000001", [1]),
        ("GPU-0", []),
    ],
)
def test_cuda_visible_devices_is_read_as_cuda_reads_it(run_python, devices, indices):
    gpus = json.loads(run_python(ASK, fake_gpu_environment(CUDA_VISIBLE_DEVICES=devices)))
    assert [gpu["index"] for gpu in gpus] == indices


TWO_KINDS = {"FAKE_GPU_NAMES": "NVIDIA T400,NVIDIA H200"}


@pytest.mark.parametrize(
    ("settings", "indices"),
    [
        ({"CUDA_VISIBLE_DEVICES": "1", "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}, [1]),
        ({"CUDA_VISIBLE_DEVICES": "GPU-00000001"}, [1]),
        ({"CUDA_DEVICE_ORDER": "FASTEST_FIRST"}, [0, 1]),
        ({"CUDA_VISIBLE_DEVICES": ""}, []),
    ],
)
def test_gpus_of_several_kinds_are_numbered_by_the_bus_where_the_user_says_so(run_python, settings, indices):
    gpus = json.loads(run_python(ASK, fake_gpu_environment(**TWO_KINDS, **settings)))
    assert [gpu["index"] for gpu in gpus] == indices


@pytest.mark.parametrize("order", [{}, {"CUDA_DEVICE_ORDER": "FASTEST_FIRST"}])
def test_what_a_number_means_is_not_guessed(run_python, order):
    answer = json.loads(run_python(ASK, fake_gpu_environment(CUDA_VISIBLE_DEVICES="1", **TWO_KINDS, **order)))
    assert "CUDA_VISIBLE_DEVICES=1 is ambiguous: this machine has different GPUs" in answer
    assert "PCI_BUS_ID" in answer


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        ("LIBRARY_NOT_FOUND", "no NVIDIA driver"),
        ("DRIVER_NOT_LOADED", "not loaded"),
        ("NO_PERMISSION", "may not use"),
        ("UNKNOWN", "nvidia-smi"),
    ],
)
def test_each_way_of_having_no_driver_is_a_sentence(run_python, error, sentence):
    assert sentence in json.loads(run_python(ASK, fake_gpu_environment(FAKE_NVML_ERROR=error)))
