"""Clusters of any class whose scheduler runs in another process."""

import asyncio
import contextlib
import os
import signal
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from distributed import Client, LocalCluster, Security
from distributed.comm import CommClosedError

from jupyter_gpudask.errors import ClusterLostError, LimitError
from jupyter_gpudask.launcher.cluster import ClusterProcess
from jupyter_gpudask.protocol.spec import ClusterClass, ClusterSpec
from jupyter_gpudask.protocol.verbs import Start
from jupyter_gpudask.supervisor.engines import has_remote_scheduler
from jupyter_gpudask.supervisor.remote_cluster import RemoteCluster
from jupyter_gpudask.supervisor.supervised import register_plugins

ELSEWHERE = "elsewhere.ElsewhereCluster"


@pytest.fixture
def module(monkeypatch):
    """The folder of the class, on the import path."""
    monkeypatch.syspath_prepend(Path(__file__).parent)
    yield
    sys.modules.pop("elsewhere", None)


@pytest.mark.parametrize(
    ("path", "is_remote"),
    [
        (ELSEWHERE, True),
        ("dask_gateway.GatewayCluster", True),
        ("distributed.deploy.Cluster", True),
        ("distributed.LocalCluster", False),
        ("distributed.SSHCluster", False),
        ("collections.OrderedDict", False),
        ("no_such_package.Cluster", False),
    ],
)
@pytest.mark.usefixtures("module")
def test_the_base_class_says_whether_the_scheduler_runs_elsewhere(path, is_remote):
    assert has_remote_scheduler(ClusterClass(path=path)) is is_remote


async def use(cluster):
    """Start a cluster, use it in each way, and close it; the processes that are left."""
    progress = []
    ready = await cluster.open(progress.append)
    created = cluster._cluster
    try:
        assert (ready.engine, ready.workers, ready.credentials) == ("cpu", 1, None)
        assert created.n_workers == 1
        async with Client(ready.address, asynchronous=True, set_as_default=False) as client:
            await cluster.scale(2)
            await client.wait_for_workers(2, timeout=60)
            assert await client.submit(sum, (40, 1)) == 41
            assert len((await cluster.state("ready")).workers) == 2
            with pytest.raises(LimitError):
                await cluster.scale(4)
            await cluster.adapt(1, 3)
            adaptive = created._adaptive
            assert (await cluster.state("ready")).adaptive_range == (1, 3)
            await cluster.scale(1)
            assert adaptive.state == "stopped"
            assert (await cluster.state("ready")).adaptive_range is None
    finally:
        processes = [*created.workers, created._scheduler]
        await cluster.close(30)
    return [process for process in processes if process.returncode is None]


@pytest.mark.cluster
@pytest.mark.usefixtures("module")
def test_a_cluster_of_a_class_of_the_administrator_is_started_scaled_and_closed():
    class_ = ClusterClass(path=ELSEWHERE, options={"n_workers": 1})
    spec = ClusterSpec.parse({"engine": "cpu", "preset": "elsewhere", "start_timeout": 60})
    request = Start(spec=spec, cluster_class=class_, max_workers=3)
    assert asyncio.run(use(RemoteCluster(request, class_))) == []


async def close_during_a_question(record):
    """Close a cluster while its supervisor waits for the scheduler, which has stopped responding."""
    class_ = ClusterClass(path=ELSEWHERE, options={"n_workers": 1, "record": str(record)})
    spec = ClusterSpec.parse({"engine": "cpu", "preset": "elsewhere", "start_timeout": 60})
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), *sys.path])}
    cluster = await ClusterProcess.start(spec, cluster_class=class_, environment=environment)
    os.kill(int(record.read_text()), signal.SIGSTOP)
    question = asyncio.create_task(cluster.state())
    await asyncio.sleep(0.5)
    await cluster.close()
    with contextlib.suppress(ClusterLostError):
        await question


@pytest.mark.cluster
def test_a_cluster_whose_scheduler_does_not_respond_is_closed_by_its_class(tmp_path):
    record = tmp_path / "scheduler"
    asyncio.run(close_during_a_question(record))
    assert not record.exists()


def test_the_kernel_gets_the_credentials_of_the_class():
    class_ = ClusterClass(path=ELSEWHERE)
    cluster = RemoteCluster(Start(spec=ClusterSpec(), cluster_class=class_), class_)
    security = Security(tls_ca_file="ca", tls_client_cert="certificate", tls_client_key="key", require_encryption=True)
    for given, expected in (
        (security, ("ca", "certificate", "key")),
        (SimpleNamespace(tls_cert="certificate", tls_key="key"), ("certificate", "certificate", "key")),
    ):
        cluster._cluster = SimpleNamespace(security=given)
        found = cluster._credentials()
        assert (found.ca, found.certificate, found.key) == expected
    cluster._cluster = SimpleNamespace(security=Security())
    assert cluster._credentials() is None


def test_plugins_are_registered_although_a_worker_goes_meanwhile():
    async def register():
        async with LocalCluster(n_workers=1, processes=False, dashboard_address=":0", asynchronous=True) as cluster:
            ask = cluster.scheduler.broadcast

            async def broadcast(**options):
                await ask(**options)
                raise CommClosedError("in <TLS Scheduler Broadcast>: Stream is closed")

            cluster.scheduler.broadcast = broadcast
            await register_plugins([], "cpu", None, cluster.scheduler)
            [worker] = cluster.workers.values()
            return {name for name in worker.plugins if name.startswith("gpudask-")}

    assert {"gpudask-path", "gpudask-patches"} <= asyncio.run(register())
