"""`%gpudask accelerate` with stand-ins for cuDF and cuML, which record that they were loaded, and on which GPU."""

import os

import pytest
from helpers import Kernel, fake_gpu_environment

pytestmark = pytest.mark.cluster

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
from jupyter_gpudask.session import device_order
device_order._is_initialized = lambda: INITIALIZED
shell = InteractiveShell.instance()
shell.extension_manager.load_extension("jupyter_gpudask")
gpus = [gpu.uuid for gpu in list_gpus()]
held = []

def hold(index, **lease):
    folder = LeaseFolder()
    with folder.locked():
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
def accelerators(tmp_path):
    """The environment of a process with two GPUs and stand-ins for the two libraries, or for some of them."""

    def make(*names, **settings):
        for name, replaces in {"cudf.pandas": ["pandas"], "cuml.accel": ["sklearn"]}.items():
            package, module = name.split(".")
            if name in names:
                (tmp_path / package).mkdir()
                (tmp_path / package / "__init__.py").touch()
                (tmp_path / package / f"{module}.py").write_text(EXTENSION.format(replaces=replaces))
        settings = {"FAKE_GPU_PACKAGES": "cupy,rmm", "JUPYTER_RUNTIME_DIR": str(tmp_path / "runtime"), **settings}
        environment = fake_gpu_environment(**settings)
        return {**environment, "PYTHONPATH": os.pathsep.join([str(tmp_path), environment["PYTHONPATH"]])}

    return make


def script(*lines, initialized=False):
    return "\n".join([SHELL.replace("INITIALIZED", str(initialized)), *lines])


def test_both_are_loaded_on_a_gpu_that_no_other_cluster_holds(run_python, accelerators):
    code = script("hold(0)", "print(accelerate())", "print(device(), sys.modules['sklearn'].accelerated is not None)")
    printed = run_python(code + "\nprint(accelerate())", accelerators("cudf.pandas", "cuml.accel")).splitlines()
    assert printed == [
        "pandas and scikit-learn run on GPU 1 in this kernel, until it is restarted.",
        "1 True",
        "pandas and scikit-learn run on the GPU already.",
    ]


HELD_BY_ACCELERATED = (
    "GPU 0 is held by analysis.ipynb (accelerated). Restart the kernel there, or choose other GPUs with --gpus."
)


def test_the_gpu_is_held_by_the_notebook_and_its_own_cluster_may_use_it(run_python, accelerators):
    lines = (
        "print(accelerate())",
        "print(shell.run_line_magic('gpudask', 'gpus').holders)",
        "from jupyter_gpudask.machine.plan import select_unleased_gpus",
        "from jupyter_gpudask.machine.leases import leases_of_others",
        "from jupyter_gpudask.protocol import ClusterSpec",
        "leases = LeaseFolder().read()",
        "print([(lease.holder, [gpus.index(uuid) for uuid in lease.gpus]) for lease in leases])",
        "def chosen(spec, kernel):",
        "    others = leases_of_others(leases, kernel)",
        "    return [gpu.index for gpu in select_unleased_gpus(ClusterSpec.parse(spec), list_gpus(), others)]",
        "",
        "print(chosen({'gpus': 'free'}, 'another'), chosen({'gpus': 'all'}, ''))",
        "try: chosen({'gpus': [0]}, 'another')",
        "except Exception as error: print(error)",
    )
    environment = accelerators("cudf.pandas", JPY_SESSION_NAME="/folder/analysis.ipynb", FAKE_GPU_PACKAGES="cupy,rmm")
    printed = run_python(script(*lines), environment).splitlines()
    assert printed[1:] == [
        "{'GPU-00000000-1111-2222-3333-444444444444': ['this kernel']}",
        "[('analysis.ipynb (accelerated)', [0])]",
        "[1] [0, 1]",
        HELD_BY_ACCELERATED,
    ]


def test_a_gpu_is_not_held_if_nothing_was_loaded(run_python, accelerators, tmp_path):
    environment = accelerators("cudf.pandas")
    (tmp_path / "cudf" / "pandas.py").write_text("def load_ipython_extension(shell): raise OSError('no libcudf')")
    printed = run_python(script("print(accelerate())", "print(LeaseFolder().read())"), environment).splitlines()
    sentence = "cudf.pandas cannot be loaded: no libcudf. Check its installation in a new kernel: import cudf.pandas"
    assert printed[-2:] == [f"UsageError: {sentence}", "[]"]


def test_one_that_cannot_be_loaded_leaves_the_other_on_the_gpu(run_python, accelerators, tmp_path):
    environment = accelerators("cudf.pandas", "cuml.accel")
    (tmp_path / "cuml" / "accel.py").write_text("raise ImportError('libcuml.so: cannot open shared object file')")
    printed = run_python(script("print(accelerate())", "print('sklearn' in sys.modules)"), environment)
    *_, sentences, is_loaded = printed.splitlines()
    assert sentences.startswith(
        "pandas runs on GPU 0 in this kernel, until it is restarted. scikit-learn stays on the CPU"
    )
    assert sentences.endswith(", because cuml.accel cannot be loaded: libcuml.so: cannot open shared object file")
    assert is_loaded == "False"


WITHOUT_CUML = "scikit-learn stays on the CPU; to change that, type: %pip install cuml-cu13 and restart the kernel."


def test_a_gpu_of_the_kernels_own_cluster_is_used(run_python, accelerators):
    lines = (
        "from jupyter_gpudask.magics import accelerate as command",
        "command.kernel_id = lambda: 'ours'",
        "hold(1, kernel_id='ours')",
        "print(accelerate())",
        "print(device())",
    )
    printed = run_python(script(*lines), accelerators("cudf.pandas")).splitlines()
    assert printed == [
        f"pandas runs on GPU 1 in this kernel, until it is restarted. {WITHOUT_CUML}",
        "1",
    ]


IMPORTED = (
    "UsageError: cudf.pandas and cuml.accel must be loaded before pandas, which this kernel has imported. "
    "Restart the kernel, and type %gpudask accelerate in its first cell, before %gpudask start."
)
HELD = "UsageError: GPUs 0 and 1 are held by other.ipynb. Type %gpudask stop there, or ask its user."
INSTALL = 'Type: %pip install "jupyter_gpudask[cu13]'
BOTH = ("cudf.pandas", "cuml.accel")


@pytest.mark.parametrize(
    ("names", "lines", "sentence"),
    [
        (
            BOTH,
            ["import pandas"],
            IMPORTED,
        ),
        (BOTH, ["hold(0)", "hold(1)"], HELD),
        ((), [], "UsageError: This kernel cannot import cudf and cuml, which run pandas and scikit-learn on a GPU. "),
    ],
)
def test_a_refusal_is_one_sentence_and_loads_nothing(run_python, accelerators, names, lines, sentence):
    environment = accelerators(*names)
    printed = run_python(script(*lines, "print(accelerate())", "print('cudf.pandas' in sys.modules)"), environment)
    assert printed.startswith(sentence)
    assert printed.endswith("\nFalse\n")
    assert names or INSTALL in printed


def test_a_process_that_already_uses_the_gpu_of_another_cluster_is_refused(run_python, accelerators):
    printed = run_python(script("hold(0)", "print(accelerate())", initialized=True), accelerators(*BOTH))
    assert printed.startswith("UsageError: This kernel already uses GPU 0, which is held by other.ipynb. Restart")


NO_DRIVER = (
    "sys.modules['sitecustomize'].ERROR = 'LIBRARY_NOT_FOUND'; "
    "sys.modules['jupyter_gpudask.machine.nvml']._nvml_of.cache_clear()"  # else it stays open
)


@pytest.mark.parametrize(
    ("count", "lines", "reason"),
    [("0", [], "This kernel sees no GPU."), ("2", [NO_DRIVER], "This machine has no NVIDIA driver.")],
)
def test_without_a_gpu_it_says_so_and_the_notebook_goes_on(run_python, accelerators, count, lines, reason):
    lines = [*lines, "print(accelerate())", "print('cudf.pandas' in sys.modules)"]
    printed = run_python(script(*lines), accelerators(*BOTH, FAKE_GPUS=count))
    assert printed == f"pandas and scikit-learn stay on the CPU. {reason}\nFalse\n"


def test_a_notebook_finds_out_from_a_comm_that_stays_open(accelerators):
    kernel = Kernel(accelerators("cudf.pandas"))
    try:
        kernel.ok("%load_ext jupyter_gpudask\n%gpudask accelerate")
        kernel.ok("%gpudask accelerate")
        kernel.client.comm_info(target_name="jupyter_gpudask:accelerate")
        reply = kernel.client.get_shell_msg(timeout=60)
        assert reply["msg_type"] == "comm_info_reply"
        assert len(reply["content"]["comms"]) == 1
    finally:
        kernel.shutdown()
