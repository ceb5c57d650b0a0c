"""The settings of Dask that a kernel has changed, in its cluster."""

import ast

import pytest

IN_A_SCRIPT = """
import warnings
warnings.filterwarnings("ignore", message="The CPU stand-in was requested")
import dask
from jupyter_gpudask import gpu

dask.config.set(
    {
        "distributed.worker.memory.spill": 0.55,
        "distributed.scheduler.worker-saturation": float("inf"),
        "mine.number": 7,
        "mine.password": "secret",
        "mine.object": object(),
        "array.backend": "cupy",
        "scheduler": "threads",
    }
)

def settings():
    import dask
    names = ["distributed.worker.memory.spill", "distributed.scheduler.worker-saturation", "mine", "array.backend"]
    return [repr(dask.config.get(name, None)) for name in [*names, "scheduler"]]

with warnings.catch_warnings(record=True) as caught, gpu(engine="cpu", workers=1) as client:
    print([client.run_on_scheduler(settings), *client.run(settings).values(), [str(each.message) for each in caught]])
"""


@pytest.mark.cluster
def test_what_the_kernel_has_set_reaches_scheduler_and_workers_without_credentials_and_what_a_cell_sets(run_python):
    scheduler, worker, warned = ast.literal_eval(run_python(IN_A_SCRIPT))
    assert scheduler == worker
    assert worker == ["0.55", "inf", "{'number': 7}", "'numpy'", "None"]
    assert "Dask's setting mine.object of this kernel does not reach the cluster" in warned[0]


BEFORE_DASK = """
from jupyter_gpudask.session.launch import changed_settings

print(changed_settings())
import distributed
print(changed_settings())
with distributed.LocalCluster(n_workers=0, processes=False, dashboard_address=None) as cluster, cluster.get_client():
    print(changed_settings())
"""


def test_a_kernel_that_has_changed_nothing_sends_nothing(run_python):
    assert run_python(BEFORE_DASK).splitlines() == ["({}, [])"] * 3


LEFT_OUT = """
import dask
from jupyter_gpudask.session.launch import changed_settings

names = [
    "distributed.comm.tls.ca-file", "gateway.auth.type", "mine.api_key", "mine.TOKEN", "mine.secrets",
    "distributed.nanny.environ.AWS_SECRET_ACCESS_KEY", "mine.ssl-ca",
]
kept = ["mine.authors", "mine.tokenizer", "mine.scale", "mine.keys"]
dask.config.set(dict.fromkeys([*names, *kept], "x") | {"mine.table": {1: 2}, "mine.pair": (1, 2)})
print(changed_settings())
"""


def test_credentials_are_told_by_the_words_of_their_names(run_python):
    assert ast.literal_eval(run_python(LEFT_OUT)) == (
        {"mine": {"authors": "x", "tokenizer": "x", "scale": "x", "keys": "x"}},
        ["mine.table.1", "mine.pair"],
    )
