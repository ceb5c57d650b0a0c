"""Polars in `%%gpudask` cells, on real clusters, with a stand-in for cudf-polars where the cluster has pretend GPUs."""

import asyncio
import os
import re
import signal
import subprocess
import sys
import threading
import types
from pathlib import Path

import pytest
from helpers import Kernel, addresses_of_session, fake_gpu_environment, pids_of_session, promised, wait_until

from jupyter_gpudask.worker.polars_rank import PolarsRankPlugin, QueryInterruptedError

pytestmark = pytest.mark.cluster

STAND_IN = str(Path(__file__).parents[1] / "fake_polars")
QUERY = "lf = pl.LazyFrame({'a': [1, 2, 3], 'b': [1, 1, 2]})\nq = lf.group_by('b').agg(pl.col('a').sum()).sort('b')\n"
WHERE = "pl.LazyFrame({'pid': [0]})"  # the stand-in answers with the process that has computed it
LACKING = "lf.select(pl.col('a').map_elements(lambda x: x + 1, return_dtype=pl.Int64))"


def environment_for(folder):
    """Two pretend GPUs that no cluster has reserved, and the stand-in for cudf-polars."""
    folders = {name: str(folder) for name in ("TMPDIR", "JUPYTER_RUNTIME_DIR")}
    environment = fake_gpu_environment(cupy=True, FAKE_GPUS="2", FAKE_KILLED=f"{folder}/killed", **folders)
    path = os.pathsep.join([STAND_IN, environment["PYTHONPATH"]])
    return environment | {"PYTHONPATH": path, "PYTHONWARNINGS": "ignore:::polars"}


@pytest.fixture(scope="module")
def kernel(tmp_path_factory):
    """A kernel with a cluster on two pretend GPUs."""
    kernel = Kernel(environment_for(tmp_path_factory.mktemp("shared")))
    kernel.ok("%load_ext jupyter_gpudask\nstarted = %gpudask start\nclient = started.client\nimport os, sys")
    yield kernel
    kernel.shutdown()


def footer(reply):
    return reply.displayed[-1] if reply.displayed else ""


def test_polars_is_not_imported_by_a_cell_that_does_not_import_it(kernel):
    cell = "%%gpudask\nimport sys\n[name for name in sys.modules if name.partition('.')[0] == 'polars']"
    assert kernel.ok(cell).value == "[]"


def test_a_query_runs_on_the_workers_in_the_cell_that_imports_polars_and_not_after_it(kernel):
    pids = kernel.ok("sorted(client.run(os.getpid).values())").value
    reply = kernel.ok(f"%%gpudask\nimport polars as pl\n{QUERY}{WHERE}.collect().item(), q.collect().to_dicts()")
    pid, answer = re.match(r"\((\d+), (.*)\)", reply.value).groups()
    assert pid in pids
    assert answer == "[{'b': 1, 'a': 3}, {'b': 2, 'a': 3}]"
    assert re.match(r"Polars on 2 × NVIDIA H200 · \d+\.\d s", footer(reply))
    after = kernel.ok(f"{WHERE}.collect().item(), pl.lazyframe.engine_config.get_engine_affinity_override()")
    assert (after.value, after.displayed) == ("(0, None)", [])


def test_queries_run_on_the_workers_after_on_and_in_the_context_manager_too(kernel):
    pids = kernel.ok("sorted(client.run(os.getpid).values())").value
    kernel.ok("import jupyter_gpudask\nimport polars as pl\n%gpudask on")
    try:
        assert kernel.ok(f"{WHERE}.collect().item()").value in pids
    finally:
        kernel.ok("%gpudask off")
    assert kernel.ok(f"with jupyter_gpudask.gpu(): found = {WHERE}.collect().item()\nfound").value in pids
    assert kernel.ok(f"{WHERE}.collect().item()").value == "0"


def run_alone(tmp_path, *arguments):
    """What Python prints, with a pretend GPU that no cluster has reserved."""
    folders = {name: str(tmp_path) for name in ("TMPDIR", "JUPYTER_RUNTIME_DIR")}
    environment = fake_gpu_environment(cupy=True, FAKE_GPUS="1", **folders)
    environment["PYTHONPATH"] = os.pathsep.join([STAND_IN, environment["PYTHONPATH"]])
    command = [sys.executable, *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True, env=environment).stdout


def test_queries_of_a_script_run_on_the_workers(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(f"import os\nimport polars as pl\nprint({WHERE}.collect().item() in (0, os.getpid()))\n")
    assert run_alone(tmp_path, "-m", "jupyter_gpudask", str(script)) == "False\n"


IN_A_SCRIPT = """
import jupyter_gpudask, sys, time, dask.array as da
from distributed import default_client
def seen(dask_worker=None):
    cudf = dask_worker and dask_worker.plugins["gpudask-cudf"].is_imported
    return "cudf_polars.engine.dask" in sys.modules, cudf
def look():
    print(seen()[0], *default_client().run(seen).values())
with jupyter_gpudask.gpu():
    look()
    time.sleep(2)
    look()
    da.ones(4, chunks=2).sum().compute()
    look()
"""


def test_a_start_imports_cudf_polars_if_polars_is_imported_and_then_cudf_when_dask_needs_it(tmp_path):
    lines = run_alone(tmp_path, "-c", f"import polars{IN_A_SCRIPT}").splitlines()
    assert lines == ["True (True, False)"] * 2 + ["True (True, True)"]
    first, *later = run_alone(tmp_path, "-c", IN_A_SCRIPT).splitlines()
    assert first.startswith("False (False, ")
    assert later == ["False (False, True)"] * 2


def test_eager_methods_stay_on_the_cpu_because_polars_asks_for_no_engine(kernel):
    """If this fails, Polars lets an engine run eager methods, and the how-to must say so."""
    cell = (
        "import polars as pl\ndf = pl.DataFrame({'pid': [0]})\ndf.sort('pid').item(), df.group_by('pid').len().height"
    )
    reply = kernel.ok(f"%%gpudask\n{cell}")
    assert (reply.value, reply.displayed) == ("(0, 1)", [])


CONTEXTS = "sorted(name for names in client.run(lambda dask_worker: [name for name in vars(dask_worker) "
CONTEXTS += "if name.startswith('_cudf_polars_mp_context_')]).values() for name in names)"


def test_the_engine_is_kept_between_cells_and_ends_with_free_and_with_the_kernels_cluster(kernel):
    kernel.ok(f"%%gpudask\nimport polars as pl\n{WHERE}.collect()")
    before = kernel.ok(CONTEXTS).value
    kernel.ok(f"%%gpudask\n{WHERE}.collect()")
    assert (kernel.ok(CONTEXTS).value, before.count("context")) == (before, 2)
    assert "Polars' engine keeps 2.0 MiB of device memory." in kernel.ok("held = %gpudask held\nheld").value
    kernel.ok("%gpudask free")
    assert kernel.ok(CONTEXTS).value == "[]"
    assert "Polars" not in kernel.ok("held = %gpudask held\nheld").value
    kernel.ok(f"%%gpudask\n{WHERE}.collect()")
    kernel.ok("cluster = get_ipython().magics_manager.registry['GpuDaskMagics'].session.cluster")
    kernel.ok("cluster.ask(cluster.process.reset)")  # what the Jupyter server does when the kernel is restarted
    assert kernel.ok(CONTEXTS).value == "[]"
    kernel.ok("%gpudask free")  # this kernel goes on


CONNECT = """
import socket
def listen(dask_worker):
    from rapidsmpf.communicator import ucxx
    dask_worker.listening = ucxx.Communicator()
    return dask_worker.listening.listener.getsockname()[1]
def ports(dask_worker):
    contexts = [each for name, each in vars(dask_worker).items() if name.startswith('_cudf_polars_mp_context_')]
    found = [each.comm for each in contexts if hasattr(each.comm, 'listener')]
    return [(each.listener.getsockname()[1], each.transports) for each in found]
def connects(port):
    try:
        socket.create_connection(('127.0.0.1', port), timeout=0.5).close()
    except OSError:
        return False
    return True
"""


def test_nobody_can_connect_to_the_ranks_of_one_machine_and_one_rank_does_not_listen(kernel):
    kernel.ok(f"import polars as pl{CONNECT}")
    kernel.ok(f"%%gpudask\n{WHERE}.collect()")
    assert kernel.ok("{connects(port) for port in client.run(listen).values()}").value == "{True}"
    kernel.ok("found = [each for all in client.run(ports).values() for each in all]")
    expected = "({False}, {'self,posix,cma,cuda'}, 2)"
    found = kernel.ok("{connects(port) for port, _ in found}, {transports for _, transports in found}, len(found)")
    assert found.value == expected
    assert kernel.ok("client.run(os.environ.get, 'UCX_TLS').values()").value == "dict_values([None, None])"
    kernel.ok("%gpudask scale 1")
    kernel.ok(f"%%gpudask\n{WHERE}.collect()")
    assert kernel.ok("list(client.run(ports).values()), client.run(len, ()).__len__()").value == "([[]], 1)"
    kernel.ok("%gpudask scale 2")


def test_ports_that_cannot_be_closed_are_an_error_unless_the_user_allows_them(kernel):
    kernel.ok(
        "import polars as pl\n"
        "def set_closing(works):\n"
        "    from jupyter_gpudask.worker import polars_ports\n"
        "    def refuse(_): raise OSError('Protocol not available')\n"
        "    kept = polars_ports.__dict__.setdefault('kept', polars_ports._drop_packets)\n"
        "    polars_ports._drop_packets = kept if works else refuse"
    )
    kernel.ok("%gpudask free")
    kernel.ok("done = client.run(set_closing, False)")
    try:
        assert kernel.run(f"%%gpudask\n{WHERE}.collect()").error == "BackendUnavailableError"
        kernel.ok("%config GpuDask.polars_over_network = True")
        assert kernel.ok(f"%%gpudask\n{WHERE}.collect().item() > 0").value == "True"
    finally:
        kernel.ok("%config GpuDask.polars_over_network = False")
        kernel.ok("done = client.run(set_closing, True)")
        kernel.ok("%gpudask free")


def test_collect_all_and_sinks_run_on_the_workers_and_an_engine_of_the_user_wins(kernel, tmp_path):
    kernel.ok("import polars as pl")
    every = f"[frame.item() == 0 for frame in pl.collect_all([{WHERE}, {WHERE}])]"
    assert kernel.ok(f"%%gpudask\n{every}").value == "[False, False]"
    path = tmp_path / "table.parquet"
    reply = kernel.ok(f"%%gpudask\n{QUERY}lf.sink_parquet({str(path)!r})\npl.read_parquet({str(path)!r}).height")
    assert reply.value == "3"
    assert "Polars on 2" in footer(reply)
    assert kernel.ok(f"%%gpudask\n{WHERE}.collect(engine='streaming').item()").value == "0"
    chosen = kernel.ok(f"%%gpudask\npl.Config.set_engine_affinity('in-memory')\n{WHERE}.collect().item()")
    assert (chosen.value, chosen.displayed) == ("0", [])
    assert kernel.ok(f"{WHERE}.collect().item(), os.environ['POLARS_ENGINE_AFFINITY']").value == "(0, 'in-memory')"
    assert kernel.ok(f"%%gpudask\n{WHERE}.collect().item()").value == "0"
    kernel.ok("pl.Config.set_engine_affinity('auto')")
    assert kernel.ok(f"%%gpudask\n{WHERE}.collect().item()").value != "0"


def test_what_cudf_polars_lacks_runs_on_the_cpu_and_is_named(kernel):
    kernel.ok("import polars as pl")
    reply = kernel.ok(f"%%gpudask\n{QUERY}\n{LACKING}.collect()['a'].to_list()")
    assert reply.value == "[2, 3, 4]"
    assert footer(reply).endswith("on the CPU: a Python function (line 5)")
    assert re.search(r"a Python function +5 +1 ", kernel.ok("listed = %gpudask fallbacks\nlisted").value)
    strict = kernel.run(f"%%gpudask --strict\n{QUERY}{LACKING}.collect()")
    assert (strict.error, strict.error_value[:40]) == ("NotOnGpuError", "a Python function (line 4) cannot run on")
    kernel.ok('%config GpuDask.fallback = "error"')
    assert kernel.run(f"%%gpudask\n{QUERY}{LACKING}.collect()").error == "NotImplementedError"
    kernel.ok('%config GpuDask.fallback = "host"')


def test_beside_dask_the_line_names_both_and_without_cudf_polars_is_left_alone(kernel):
    kernel.ok("import polars as pl")
    dask = "import dask\ndask.delayed(sum)([1, 2]).compute()"
    assert "CuPy, cuDF and Polars on 2 ×" in footer(kernel.ok(f"%%gpudask\n{WHERE}.collect()\n{dask}"))
    reply = kernel.ok(f"%%gpudask --dataframe pandas\n{WHERE}.collect().item()")
    assert reply.value == "0"
    assert footer(reply).startswith("Polars on the CPU of the kernel · ")


def test_compare_runs_a_query_on_both_and_accepts_another_order_of_rows(kernel):
    kernel.ok("import polars as pl")
    cell = f"{QUERY}totals = q.collect()\nwhere = {WHERE}.collect()['pid']\n"
    cell += "rows = totals.sort('b', descending=(where > 0).any())"
    compared = kernel.ok(f"%%gpudask --compare\n{cell}")
    table = compared.value or compared.displayed[-1]
    assert re.search(r"rows +yes +equal, in another order", table)
    assert re.search(r"totals +yes", table)
    assert re.search(r"where +NO", table)


@pytest.mark.parametrize("where", ["plan", "slowly", "chunks", "memory"])
def test_an_interrupted_query_ends_in_every_worker_and_the_next_one_works(kernel, where):
    kernel.ok("import polars as pl")
    kernel.ok(f"%%gpudask\n{WHERE}.collect()")
    pids = "sorted(client.run(os.getpid).values())"
    before = kernel.ok(pids).value
    threading.Timer(1, kernel.interrupt).start()
    with promised(1 + 2):
        interrupted = kernel.run(f"%%gpudask\npl.LazyFrame({{{where!r}: [1]}}).collect()")
    assert interrupted.error == "KeyboardInterrupt"
    assert kernel.ok(f"%%gpudask\n{WHERE}.collect().item() > 0").value == "True"
    assert kernel.ok(pids).value == before


def test_a_call_that_is_interrupted_before_it_arrives_does_not_begin():
    rank, called = PolarsRankPlugin(), []
    rank.setup(types.SimpleNamespace())

    async def call():
        assert await rank.interrupt(1, "first")
        with pytest.raises(QueryInterruptedError):
            await rank.call("first", lambda: called.append(1))
        await rank.call("second", lambda: called.append(2))

    asyncio.run(call())
    assert called == [2]


def test_while_a_call_runs_dask_observes_the_worker_rarely():
    rank, callback = PolarsRankPlugin(), types.SimpleNamespace(callback_time=10)
    rank.setup(types.SimpleNamespace(periodic_callbacks={"profile": callback}))
    assert asyncio.run(rank.call("", lambda: callback.callback_time)) > 100
    assert callback.callback_time == 10


def test_the_state_says_in_which_workers_a_query_runs(kernel):
    kernel.ok(f"%%gpudask\nimport polars as pl\n{WHERE}.collect()")
    kernel.ok("session = get_ipython().magics_manager.registry['GpuDaskMagics'].session\nimport threading\nseen = []")
    kernel.ok("def look(): seen.append(sum(worker.polars for worker in session.state().workers))")
    threading.Timer(2.5, kernel.interrupt).start()
    kernel.run("%%gpudask\nthreading.Timer(2, look).start()\npl.LazyFrame({'slowly': [1]}).collect()")
    assert kernel.ok("seen").value == "[2]"


@pytest.mark.parametrize("how", ["stuck", "locked"])
def test_a_worker_in_which_a_query_does_not_stop_is_restarted_and_the_cell_says_so(kernel, how):
    kernel.ok("import polars as pl")
    kernel.ok(f"%%gpudask\n{WHERE}.collect()")
    pids = set(kernel.ok("list(client.run(os.getpid).values())").value.strip("[]").split(", "))
    threading.Timer(1, kernel.interrupt).start()
    with promised(1 + 2):
        interrupted = kernel.run(f"%%gpudask\npl.LazyFrame({{{how!r}: [1]}}).collect()")
    assert interrupted.error == "KeyboardInterrupt"
    assert any("The query of Polars on GPU 0 has not ended yet" in shown for shown in interrupted.displayed)
    after = kernel.ok(f"%%gpudask\n{WHERE}.collect().item() > 0")
    assert (after.value, "lost" in footer(after)) == ("True", False)
    now = set(kernel.ok("list(client.run(os.getpid).values())").value.strip("[]").split(", "))
    assert now.isdisjoint(pids)


def test_while_an_interrupted_query_ends_the_next_one_runs_and_then_nothing_is_left(kernel):
    kernel.ok(
        "import polars as pl\nimport threading\n"
        "def engines(dask_worker):\n"
        "    threads = sum(each.name.startswith('gpudask-polars') for each in threading.enumerate())\n"
        "    return threads, sum('cudf_polars' in name for name in vars(dask_worker))"
    )
    kernel.ok(f"%%gpudask\n{WHERE}.collect()")
    threading.Timer(1, kernel.interrupt).start()
    interrupted = kernel.run("%%gpudask\npl.LazyFrame({'lingers': [1]}).collect()")
    assert interrupted.error == "KeyboardInterrupt"
    assert any("The query of Polars on GPU 0 has not ended yet" in shown for shown in interrupted.displayed)
    assert kernel.ok(f"%%gpudask\n{WHERE}.collect().item() > 0").value == "True"
    assert kernel.ok("set(client.run(engines).values())").value == "{(2, 1)}"
    threading.Timer(1, kernel.interrupt).start()
    assert kernel.run("%%gpudask\npl.LazyFrame({'chunks': [1]}).collect()").error == "KeyboardInterrupt"
    assert kernel.ok(f"%%gpudask\n{WHERE}.collect().item() > 0").value == "True"
    kernel.ok("import time\nwhile set(client.run(engines).values()) != {(1, 1)}: time.sleep(0.1)", timeout=20)


def test_a_query_that_loses_a_worker_runs_again_on_the_new_ones(kernel):
    kernel.ok("import polars as pl")
    reply = kernel.ok("%%gpudask\npl.LazyFrame({'killed': [1]}).collect().item()")
    assert reply.value == "1"
    assert "lost the worker on GPU" in footer(reply)


@pytest.mark.parametrize("column", ["large", "grouped"])
def test_a_query_that_needs_too_much_memory_says_what_else_is_in_it(kernel, column):
    kernel.ok("import dask.array as da\nimport polars as pl")
    query = f"pl.LazyFrame({{{column!r}: [1]}}).collect()"
    alone = kernel.run(f"%%gpudask\n{query}")
    assert "The workers hold no results of Dask" in "".join(alone.traceback)
    assert "Group" not in alone.error + alone.printed
    kernel.ok("%%gpudask\nkept = da.ones(2**20, chunks=2**20).persist()")
    beside = kernel.run(f"%%gpudask\nfrom distributed import wait\nwait(kept)\n{query}")
    assert "The workers hold 8.0 MiB of results of Dask" in "".join(beside.traceback)
    kernel.ok("del kept")


def test_a_profile_has_what_each_worker_did_for_the_queries(kernel):
    kernel.ok(f"%%gpudask\nimport polars as pl\n{WHERE}.collect()")
    profiled = kernel.ok(f"%%gpudask --profile\nfor _ in range(3): {WHERE}.collect()")
    expected = r"Queries of Polars: GPU 0 .*, GPU 1 .*, 6.0 MiB sent between GPUs, 12.0 MiB moved to host memory"
    assert any(re.match(expected, shown) for shown in profiled.displayed), profiled.displayed
    with_dask = f"import dask\ndask.delayed(sum)([1, 2]).compute()\n{WHERE}.collect()"
    assert "2.0 MiB sent" in "".join(kernel.ok(f"%%gpudask --profile\n{with_dask}").displayed)
    on_cpu = kernel.ok(f"%%gpudask --profile --dataframe pandas\n{WHERE}.collect()")
    assert "Queries of Polars on the CPU are not profiled." in on_cpu.displayed


def test_the_engine_follows_a_restart_and_scaling(kernel):
    kernel.ok("import polars as pl")
    for command in ("restart", "adapt 1 2", "scale 1", "scale 2"):
        kernel.ok(f"%gpudask {command}")
        assert kernel.ok(f"%%gpudask\n{WHERE}.collect().item() > 0").value == "True"


def test_the_engine_follows_a_cluster_that_adapts(kernel):
    kernel.ok("from distributed import default_client\nimport polars as pl\nimport time\n%gpudask adapt 1 2")
    kernel.ok("client = default_client()")
    for workers, work in ((1, "working = []"), (2, "working = client.map(time.sleep, [0.5] * 200, pure=False)")):
        kernel.ok(f"{work}\nwhile len(client.scheduler_info()['workers']) != {workers}: time.sleep(0.1)")
        assert kernel.ok(f"%%gpudask\n{WHERE}.collect().item() > 0").value == "True"
        assert kernel.ok(CONTEXTS).value.count("context") == workers
    kernel.ok("client.cancel(working)\n%gpudask scale 2")


@pytest.mark.parametrize("where", ["pid", "chunks"])
def test_a_kernel_that_is_killed_leaves_nothing_of_the_engine_or_its_query(tmp_path, where):
    kernel = Kernel(environment_for(tmp_path))
    kernel.ok("%load_ext jupyter_gpudask\nimport polars as pl, signal, os\n%gpudask start --gpus 2")
    supervisor = kernel.supervisor()
    kernel.ok(f"%%gpudask\n{WHERE}.collect()")
    assert addresses_of_session(supervisor)
    kernel.client.execute(f"%%gpudask\nprint('begins')\npl.LazyFrame({{{where!r}: [1]}}).collect()")
    while kernel.client.get_iopub_msg(timeout=60)["content"].get("text") != "begins\n":
        pass
    os.kill(kernel.pid, signal.SIGKILL)
    wait_until(lambda: pids_of_session(supervisor) == [], 60)
    assert addresses_of_session(supervisor) == []
    assert not list(tmp_path.glob("jupyter-gpudask-*"))
    kernel.shutdown()


def test_a_polars_that_cudf_polars_does_not_support_is_refused_with_the_command(kernel, tmp_path):
    info = tmp_path / "cudf_polars_cu13-26.10.2.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Name: cudf-polars-cu13\nVersion: 26.10.2\nRequires-Dist: polars<1.36,>=1.35\n")
    kernel.ok("from jupyter_gpudask.polars import cluster_engine\ncluster_engine._engine_class.cache_clear()")
    kernel.ok("%gpudask free")
    kernel.ok(f"import sys\nimport polars as pl\nsys.path.insert(0, {str(tmp_path)!r})")
    refused = kernel.run(f"%%gpudask\n{WHERE}.collect()")
    kernel.ok("del sys.path[0]")
    assert refused.error == "BackendUnavailableError"
    assert "polars-cu13" in refused.error_value
    assert kernel.ok(f"%%gpudask\n{WHERE}.collect().item() > 0").value == "True"


OLD = """
import sys
sys.path.insert(0, {folder!r})
from jupyter_gpudask.polars.choice import choice
for _ in range(2):
    with choice.by_cell():
        import polars
"""


def test_an_older_polars_is_one_warning(tmp_path):
    (tmp_path / "polars").mkdir()
    (tmp_path / "polars" / "__init__.py").write_text("__version__ = '1.43.2'\nclass LazyFrame: pass\n")
    command = [sys.executable, "-c", OLD.format(folder=str(tmp_path))]
    told = subprocess.run(command, check=True, capture_output=True, text=True).stderr
    assert told.count("Polars 1.43.2") == 1


def test_without_a_gpu_polars_streams_and_the_line_says_where(tmp_path_factory):
    folders = {name: str(tmp_path_factory.mktemp("shared")) for name in ("TMPDIR", "JUPYTER_RUNTIME_DIR")}
    kernel = Kernel(fake_gpu_environment(FAKE_NVML_ERROR="LIBRARY_NOT_FOUND", FAKE_GPU_PACKAGES="", **folders))
    try:
        kernel.ok("%load_ext jupyter_gpudask\nimport polars as pl")
        engine = "pl.lazyframe.engine_config._select_engine('auto').name"
        reply = kernel.ok(f"%%gpudask\n{QUERY}({engine}, q.collect()['a'].to_list())")
        assert reply.value == "('streaming', [3, 3])"
        assert footer(reply).startswith("Polars on the CPU of the kernel · ")
        assert kernel.ok(engine).value == "'auto'"
    finally:
        kernel.shutdown()
