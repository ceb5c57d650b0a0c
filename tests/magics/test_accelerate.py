"""`%gpudask accelerate` with stand-ins for cuDF and cuML, which record that they were loaded, and on which GPU."""

import os

import pytest
from helpers import Kernel, fake_gpu_environment

pytestmark = pytest.mark.cluster

BOTH = {"cudf.pandas": "pandas", "cuml.accel": "sklearn"}
EXTENSION = """
import os, sys, types

def load_ipython_extension(shell):
    for name in {replaces}:
        sys.modules[name] = types.SimpleNamespace(accelerated=os.environ.get("CUDA_VISIBLE_DEVICES"))
"""

SHELL = """
import os, sys, types
from IPython.core.interactiveshell import InteractiveShell
from jupyter_gpudask.machine.gpus import list_gpus
from jupyter_gpudask.machine.leases import LeaseFolder
from jupyter_gpudask.session import launch
launch._is_initialized = lambda: INITIALIZED
shell = InteractiveShell.instance()
shell.extension_manager.load_extension("jupyter_gpudask")
gpus = [gpu.uuid for gpu in list_gpus()]
held = []

def hold(index, **lease):
    folder = LeaseFolder()
    with folder.lock():
        held.append(folder.take([gpus[index]], holder="other.ipynb", share=False, **{"kernel_id": "other", **lease}))

def accelerate():
    try:
        return str(shell.run_line_magic("gpudask", "accelerate"))
    except Exception as error:
        return f"{type(error).__name__}: {error}"

def device():
    return gpus.index(sys.modules["pandas"].accelerated.split(",")[0])
"""


@pytest.fixture
def run(tmp_path, run_python):
    """Run lines in a shell with two GPUs and stand-ins for the libraries `names`; returns what they printed."""

    def run(*lines, names=BOTH, initialized=False, replace=None, **settings):
        environment = environment_with(tmp_path, names, **settings)
        for file, content in (replace or {}).items():
            (tmp_path / file).write_text(content)
        return run_python("\n".join([SHELL.replace("INITIALIZED", str(initialized)), *lines]), environment).splitlines()

    return run


def environment_with(folder, names, **settings):
    for name in names:
        package, module = name.split(".")
        (folder / package).mkdir()
        (folder / package / "__init__.py").touch()
        (folder / package / f"{module}.py").write_text(EXTENSION.format(replaces=[BOTH[name]]))
    settings = {"FAKE_GPU_PACKAGES": "cupy,rmm", "JUPYTER_RUNTIME_DIR": str(folder / "runtime"), **settings}
    environment = fake_gpu_environment(**settings)
    return {**environment, "PYTHONPATH": os.pathsep.join([str(folder), environment["PYTHONPATH"]])}


def test_both_are_loaded_on_a_gpu_that_no_other_cluster_holds(run):
    again = ("print(device(), sys.modules['sklearn'].accelerated is not None)", "print(accelerate())")
    assert run("hold(0)", "print(accelerate())", *again) == [
        "pandas and scikit-learn run on GPU 1 in this kernel, until it is restarted.",
        "1 True",
        "pandas and scikit-learn run on the GPU already.",
    ]


LEASES = """
print(accelerate())
print(shell.run_line_magic('gpudask', 'gpus').holders)
from jupyter_gpudask.machine.plan import select_unleased_gpus
from jupyter_gpudask.machine.leases import leases_of_others
from jupyter_gpudask.protocol.spec import ClusterSpec
leases = LeaseFolder().read()
print([(lease.holder, [gpus.index(uuid) for uuid in lease.gpus]) for lease in leases])
def chosen(spec, kernel):
    others = leases_of_others(leases, kernel)
    return [gpu.index for gpu in select_unleased_gpus(ClusterSpec.parse(spec), list_gpus(), others)]

print(chosen({'gpus': 'free'}, 'another'), chosen({'gpus': 'all'}, ''))
try: chosen({'gpus': [0]}, 'another')
except Exception as error: print(error)
"""


def test_the_gpu_is_held_by_the_notebook_and_its_own_cluster_may_use_it(run):
    printed = run(LEASES, names=["cudf.pandas"], JPY_SESSION_NAME="/folder/analysis.ipynb")
    *others, refusal = printed[1:]
    assert others == [
        "{'GPU-00000000-1111-2222-3333-444444444444': ['this kernel']}",
        "[('analysis.ipynb (accelerated)', [0])]",
        "[1] [0, 1]",
    ]
    assert refusal.startswith("GPU 0 is reserved by analysis.ipynb (accelerated). Restart the kernel there, or choose")


def test_one_that_cannot_be_loaded_leaves_the_other_on_the_gpu(run):
    broken = {"cuml/accel.py": "raise ImportError('libcuml.so: cannot open shared object file')"}
    *_, sentences, is_loaded = run("print(accelerate())", "print('sklearn' in sys.modules)", replace=broken)
    start = "pandas runs on GPU 0 in this kernel, until it is restarted. scikit-learn stays on the CPU"
    assert sentences.startswith(start)
    assert sentences.endswith(", because cuml.accel cannot be loaded: libcuml.so: cannot open shared object file")
    assert is_loaded == "False"


def test_a_gpu_is_not_held_if_nothing_was_loaded(run):
    broken = {"cudf/pandas.py": "def load_ipython_extension(shell): raise OSError('no libcudf')"}
    printed = run("print(accelerate())", "print(LeaseFolder().read())", names=["cudf.pandas"], replace=broken)
    sentence = "cudf.pandas cannot be loaded: no libcudf. Check its installation in a new kernel: import cudf.pandas"
    assert printed[-2:] == [f"UsageError: {sentence}", "[]"]


def test_a_gpu_of_the_kernels_own_cluster_is_used(run):
    lines = ("from jupyter_gpudask.magics import accelerate as command", "command.kernel_id = lambda: 'ours'")
    lines += ("hold(1, kernel_id='ours')", "print(accelerate())", "print(device())")
    sentence, device = run(*lines, names=["cudf.pandas"])
    assert sentence.startswith("pandas runs on GPU 1 in this kernel, until it is restarted. scikit-learn stays on the ")
    assert sentence.endswith("; to change that, type: %pip install cuml-cu13 and restart the kernel.")
    assert device == "1"


NO_DRIVER = (
    "sys.modules['sitecustomize'].ERROR = 'LIBRARY_NOT_FOUND'; "
    "sys.modules['jupyter_gpudask.machine.nvml']._nvml_of.cache_clear()"  # else it stays open
)
ON_THE_CPU = "pandas and scikit-learn stay on the CPU. "


@pytest.mark.parametrize(
    ("line", "options", "sentence"),
    [
        (
            "import pandas",
            {},
            "UsageError: cudf.pandas and cuml.accel must be loaded before pandas, which this kernel ",
        ),
        (
            "hold(0); hold(1)",
            {},
            "UsageError: GPUs 0, 1 are reserved by other.ipynb. Type %gpudask stop there, or ask ",
        ),
        (
            "hold(0)",
            {"initialized": True},
            "UsageError: This kernel already uses GPU 0, which is reserved by other.ipynb.",
        ),
        (
            "",
            {"names": ()},
            "UsageError: This kernel cannot import cudf and cuml, which run pandas and scikit-learn on",
        ),
        ("", {"FAKE_GPUS": "0"}, f"{ON_THE_CPU}This kernel sees no GPU."),
        (NO_DRIVER, {}, f"{ON_THE_CPU}This machine has no NVIDIA driver."),
    ],
    ids=["imported", "held", "in use", "not installed", "no GPU", "no driver"],
)
def test_a_refusal_is_one_sentence_and_loads_nothing(run, line, options, sentence):
    said, is_loaded = run(line, "print(accelerate())", "print('cudf.pandas' in sys.modules)", **options)
    assert said.startswith(sentence)
    assert is_loaded == "False"


def test_a_notebook_finds_out_from_a_comm_that_stays_open(tmp_path):
    kernel = Kernel(environment_with(tmp_path, ["cudf.pandas"]))
    try:
        kernel.ok("%load_ext jupyter_gpudask\n%gpudask accelerate")
        kernel.ok("%gpudask accelerate")
        kernel.client.comm_info(target_name="jupyter_gpudask:accelerate")
        reply = kernel.client.get_shell_msg(timeout=60)
        assert reply["msg_type"] == "comm_info_reply"
        assert len(reply["content"]["comms"]) == 1
    finally:
        kernel.shutdown()
