"""Which GPU is device 0 of a process: the first one of its cluster, unless CUDA is initialized already."""

import pytest
from helpers import fake_gpu_environment

SCRIPT = """
import ctypes, os, types
from jupyter_gpudask.session.launch import set_first_device
from jupyter_gpudask.machine.gpus import list_gpus
driver = types.SimpleNamespace(cuDeviceGetCount=lambda count: ANSWER)
ctypes.CDLL = lambda name: driver
gpus = [gpu.uuid for gpu in list_gpus()]
seen = [os.environ.get("CUDA_VISIBLE_DEVICES")]
for wanted in ((), gpus, gpus[1:]):
    set_first_device(wanted)
    seen.append(os.environ.get("CUDA_VISIBLE_DEVICES"))
print([names and [gpus.index(name) for name in names.split(",")] for names in seen])
"""


@pytest.mark.parametrize(("answer", "last"), [(0, None), (3, [1, 0])])
def test_the_order_of_the_gpus_is_kept_once_cuda_is_initialized(run_python, answer, last):
    seen = run_python(SCRIPT.replace("ANSWER", str(answer)), fake_gpu_environment(FAKE_GPUS="2"))
    assert eval(seen) == [None, None, None, last]  # noqa: S307
