"""The settings of Dask that a kernel has changed, in its cluster."""

import ast

import pytest

IN_A_SCRIPT = """
import warnings
warnings.filterwarnings("ignore", message="The CPU cluster was requested")
import dask
from jupyter_gpudask import gpu

dask.config.set(
    {
        "distributed.worker.memory.spill": 0.55,
        "distributed.scheduler.worker-saturation": float("inf"),
        "mine.number": 7,
        **dict.fromkeys(["mine.password", "mine.api_key", "mine.TOKEN", "mine.secrets", "mine.ssl-ca"], "secret"),
        **dict.fromkeys(["mine.authors", "mine.tokenizer", "mine.scale", "mine.keys"], "x"),
        "distributed.comm.tls.ca-file": "secret",
        "distributed.nanny.environ.AWS_SECRET_ACCESS_KEY": "secret",
        "mine.object": object(),
        "array.backend": "cupy",
        "scheduler": "threads",
    }
)

def settings():
    import dask
    names = ["distributed.worker.memory.spill", "distributed.scheduler.worker-saturation", "mine", "array.backend"]
    names += ["scheduler", "distributed.comm.tls.ca-file", "distributed.nanny.environ.AWS_SECRET_ACCESS_KEY"]
    return [repr(dask.config.get(name, None)) for name in names]

with warnings.catch_warnings(record=True) as caught, gpu(engine="cpu", workers=1) as client:
    print([client.run_on_scheduler(settings), *client.run(settings).values(), [str(each.message) for each in caught]])
"""


@pytest.mark.cluster
def test_what_the_kernel_has_set_reaches_scheduler_and_workers_without_credentials_and_what_a_cell_sets(run_python):
    scheduler, worker, warned = ast.literal_eval(run_python(IN_A_SCRIPT))
    assert scheduler == worker
    mine = {"number": 7, "authors": "x", "tokenizer": "x", "scale": "x", "keys": "x"}
    assert worker == ["0.55", "inf", repr(mine), "'numpy'", "None", "None", "None"]
    assert "Dask's setting mine.object of this kernel does not reach the cluster" in warned[0]


WHILE_DASK_IS_IMPORTED = """
import sys, threading, time
from importlib.machinery import PathFinder
from jupyter_gpudask.session.launch import changed_settings

class Slowly:
    def find_spec(name, path=None, target=None):
        spec = PathFinder.find_spec(name, path, target) if name == "dask.config" else None
        if spec:
            execute = spec.loader.exec_module
            spec.loader.exec_module = lambda module: (time.sleep(0.5), execute(module))
        return spec

print(changed_settings(), "dask" in sys.modules)
sys.meta_path.insert(0, Slowly)
threading.Thread(target=__import__, args=("dask",)).start()
while "dask.config" not in sys.modules:
    time.sleep(0.001)
print(changed_settings())
"""


def test_a_start_waits_for_another_thread_that_imports_dask(run_python):
    assert run_python(WHILE_DASK_IS_IMPORTED).splitlines() == ["({}, []) False", "({}, [])"]
