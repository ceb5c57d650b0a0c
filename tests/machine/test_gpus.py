import json
import time

import pytest
from helpers import fake_gpu_environment

from jupyter_gpudask.errors import GpuUnavailableError
from jupyter_gpudask.machine.gpus import select_gpus
from jupyter_gpudask.protocol.state import GpuState

GPUS = [
    GpuState(index=number, uuid=f"GPU-{number}a", name="H200", memory_total=100, memory_used=used)
    for number, used in enumerate([50, 10, 90, 0])
]

ASK = """
import json
import sitecustomize
from jupyter_gpudask import errors
from jupyter_gpudask.machine import gpus

def ask(function, *arguments):
    try:
        return [gpu.model_dump() for gpu in function(*arguments)]
    except errors.GpuUnavailableError as error:
        return str(error)

"""
ALL = "print(json.dumps(ask(gpus.list_gpus)))"


@pytest.fixture
def ask(run_python):
    """The JSON that a script prints, on a machine with pretend GPUs."""
    return lambda script, **settings: json.loads(run_python(ASK + script, fake_gpu_environment(**settings)))


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
        (5, "5 GPUs are wanted, and this kernel sees 4"),
        ([4], "There is no GPU 4. Choose from: 0"),
        (["GPU-9"], "There is no GPU GPU-9"),
        ([0, "GPU-0a"], "--gpus lists GPU 0 twice"),
    ],
)
def test_gpus_that_are_not_there_are_named(wanted, sentence):
    with pytest.raises(GpuUnavailableError, match=sentence):
        select_gpus(wanted, GPUS)


def test_no_visible_gpu_has_its_reason_and_a_way_out(ask):
    values = ["", "-1"]
    answers = ask(f"print(json.dumps([ask(gpus.require_gpus, {{'CUDA_VISIBLE_DEVICES': each}}) for each in {values}]))")
    for value, answer in zip(values, answers, strict=True):
        assert f'CUDA_VISIBLE_DEVICES="{value}" hides all GPUs of this machine' in answer
    assert "the NVIDIA driver lists none" in ask("print(json.dumps(ask(gpus.require_gpus, {})))", FAKE_GPUS="0")


def test_nvml_tells_every_metric(ask):
    first, second = ask(ALL)
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


def test_what_went_over_the_links_is_told_by_those_that_count_it(ask):
    first, _ = ask(ALL, FAKE_TRAFFIC=str(2**20))
    assert first["nvlink_bytes"] == pytest.approx(time.time() * 2**20, rel=1e-6)
    assert first["pcie_bytes"] == pytest.approx(time.time() * 2**20, rel=1e-6)
    short, _ = ask(ALL, FAKE_TRAFFIC=str(2**20), FAKE_TRAFFIC_TYPE="1")
    silent, _ = ask(ALL, FAKE_TRAFFIC="-1")
    for gpu in (short, silent):
        assert (gpu["nvlink_bytes"], gpu["pcie_bytes"]) == (None, None)


def visible(ask, environments, **settings):
    """The indices of the GPUs that a program with each of these environments sees, or why that is not known."""
    answers = ask(f"print(json.dumps([ask(gpus.visible_gpus, each) for each in {environments}]))", **settings)
    return [answer if isinstance(answer, str) else [gpu["index"] for gpu in answer] for answer in answers]


def test_cuda_visible_devices_is_read_as_cuda_reads_it(ask):
    expected = {
        "1": [1],
        "1,0": [1, 0],
        "": [],
        "-1": [],
        "-1,0": [],
        "1,-1,0": [1],
        "all": [],
        "NoDevFiles": [],
        "0,9,1": [0],
        "0,0": [0],
        "GPU-00000001": [1],
        "GPU-0": [],
    }
    found = visible(ask, [{"CUDA_VISIBLE_DEVICES": devices} for devices in expected])
    assert dict(zip(expected, found, strict=True)) == expected


def test_gpus_of_several_kinds_are_numbered_by_the_bus_where_the_user_says_so_and_else_not_guessed(ask):
    environments = [
        {"CUDA_VISIBLE_DEVICES": "1", "CUDA_DEVICE_ORDER": "PCI_BUS_ID"},
        {"CUDA_VISIBLE_DEVICES": "GPU-00000001"},
        {"CUDA_DEVICE_ORDER": "FASTEST_FIRST"},
        {"CUDA_VISIBLE_DEVICES": ""},
        {"CUDA_VISIBLE_DEVICES": "1"},
        {"CUDA_VISIBLE_DEVICES": "1", "CUDA_DEVICE_ORDER": "FASTEST_FIRST"},
    ]
    *known, default, fastest = visible(ask, environments, FAKE_GPU_NAMES="NVIDIA T400,NVIDIA H200")
    assert known == [[1], [1], [0, 1], []]
    for answer in (default, fastest):
        assert "CUDA_VISIBLE_DEVICES=1 is ambiguous: this machine has different GPUs" in answer
        assert "PCI_BUS_ID" in answer


def test_each_way_of_having_no_driver_is_a_sentence(ask):
    expected = {
        "LIBRARY_NOT_FOUND": "no NVIDIA driver",
        "DRIVER_NOT_LOADED": "not loaded",
        "NO_PERMISSION": "may not use",
        "UNKNOWN": "nvidia-smi",
    }
    answers = ask(f"""
answers = []
for sitecustomize.ERROR in {list(expected)}:
    answers.append(ask(gpus.list_gpus))
print(json.dumps(answers))
""")
    for answer, sentence in zip(answers, expected.values(), strict=True):
        assert sentence in answer
