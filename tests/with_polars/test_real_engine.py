"""The package's part of the real ``DaskEngine``, as far as it loads without a GPU.

Needs the sources of cudf-polars: ``pip install --no-deps cudf-polars-cu13``. Objects that accept each call replace the
compiled libraries below it. Where these are installed, too, `test_on_gpus` has the tests.
"""

import asyncio
import importlib.util
import os
import sys
from functools import partial
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType, SimpleNamespace
from unittest.mock import MagicMock
from uuid import uuid4

import polars as pl
import pytest

from jupyter_gpudask.overlay import CellRecord, Overlay, current_record
from jupyter_gpudask.polars import cluster_engine
from jupyter_gpudask.worker.polars_rank import CONTEXT, PolarsRankPlugin

COMPILED = ("pylibcudf", "rmm", "rapidsmpf", "ucxx", "kvikio", "cudf_streaming", "nvtx", "cuda")

if importlib.util.find_spec("cudf_polars") is None or importlib.util.find_spec("rmm") is not None:
    pytest.skip("needs the sources of cudf-polars, without RMM", allow_module_level=True)


class ClassOfMocks(type):
    """A class that has each attribute and item, and whose objects do, too."""

    def __getattr__(cls, name):
        if name.startswith("_"):
            raise AttributeError(name)
        return MagicMock(name=name)

    def __getitem__(cls, key):
        return MagicMock(name=key)


class Compiled(MetaPathFinder, Loader):
    """Finds the compiled libraries; what has the name of a class is one."""

    def find_spec(self, fullname, path, target=None):
        return ModuleSpec(fullname, self, is_package=True) if fullname.partition(".")[0] in COMPILED else None

    def create_module(self, spec):
        module = ModuleType(spec.name)
        module.__path__ = []
        module.__getattr__ = partial(self._attribute, module)
        return module

    def exec_module(self, module):
        pass

    def _attribute(self, module, name):
        if name.startswith("__"):
            raise AttributeError(name)
        new = {"__init__": lambda self, *_, **__: MagicMock.__init__(self)}
        found = ClassOfMocks(name, (MagicMock,), new) if name[0].isupper() else MagicMock(name=name)
        setattr(module, name, found)
        return found


@pytest.fixture
def compiled():
    """The module of RapidsMPF's communicators, while the compiled libraries are replaced."""
    finder, before = Compiled(), set(sys.modules)
    sys.meta_path.append(finder)
    cluster_engine._engine_class.cache_clear()
    try:
        importlib.import_module("rapidsmpf.bootstrap").is_running_with_rrun = bool
        yield importlib.import_module("rapidsmpf.communicator.ucxx")
    finally:
        sys.meta_path.remove(finder)
        cluster_engine._engine_class.cache_clear()
        for name in set(sys.modules) - before:
            del sys.modules[name]


class Cluster:
    """A client of workers that are objects of this process, each with the plugin of the real ones."""

    is_joined, status, id = False, "running", "client"

    def __init__(self, number):
        self.workers = {
            f"tcp://{n}": SimpleNamespace(name=str(n), plugins={}, local_directory=str(n)) for n in range(number)
        }
        self.transports = []
        for worker in self.workers.values():
            worker.plugins[PolarsRankPlugin.name] = plugin = PolarsRankPlugin()
            plugin.setup(worker)
        info = {address: {"host": "here", "local_directory": each.name} for address, each in self.workers.items()}
        self.scheduler = SimpleNamespace(identity=partial(self._identity, {"workers": info}))

    async def _identity(self, info, n_workers):
        return info

    def sync(self, function, *args, callback_timeout=None, **kwargs):
        return asyncio.run(function(*args, **kwargs))

    async def _run(self, function, *args, workers, **kwargs):
        (address,) = workers
        return {address: await function(*args, dask_worker=self.workers[address], **kwargs)}


@pytest.fixture
def started(compiled, request):
    """An engine on so many workers, and its cluster."""
    cluster = Cluster(request.param)

    def new_communicator(**_):
        cluster.transports.append(os.environ.get("UCX_TLS"))
        return MagicMock(rank=len(cluster.transports) - 1)

    compiled.new_communicator = new_communicator
    importlib.import_module("rapidsmpf.communicator.single").new_communicator = lambda *_: MagicMock(rank=0)
    info = importlib.import_module("cudf_polars.engine.core").ClusterInfo
    info.local = lambda: info(os.getpid(), "here", None, f"GPU-{uuid4()}", 2**36)
    overlay = Overlay({"array": "cupy", "dataframe": "cudf"}, CellRecord(fallback="host"))
    overlay.enter()
    try:
        yield cluster_engine._engine_class()(cluster_engine.ClusterClient(cluster)), cluster
    finally:
        overlay.leave()


def contexts(cluster):
    return [each for worker in cluster.workers.values() for name, each in vars(worker).items() if CONTEXT in name]


@pytest.mark.parametrize("started", [1, 2], indirect=True)
def test_it_starts_and_ends_in_the_thread_of_each_rank_and_one_rank_has_no_communicator(started):
    engine, cluster = started
    assert engine.nranks == len(contexts(cluster)) == len(cluster.workers)
    assert cluster.transports == ([] if len(cluster.workers) == 1 else ["self,posix,cma,cuda"] * 2)
    engine.shutdown()
    assert contexts(cluster) == []


@pytest.mark.parametrize("started", [2], indirect=True)
def test_its_contexts_have_what_held_profiles_and_interrupts_ask_for(started):
    engine, cluster = started
    for context in contexts(cluster):
        context.mr.current_allocated = 2**20
        context.statistics.to_dict.return_value = {"shuffle-payload-send": {"value": 3}}
    uid = cluster_engine._id_of(engine)
    assert set(engine.client.run(partial(cluster_engine.kept_bytes, uid)).values()) == {2**20}
    engine.client.run(partial(cluster_engine.begin_statistics, uid))
    taken = engine.client.run(partial(cluster_engine.take_statistics, uid)).values()
    assert [each.nbytes["sent"] for each in taken] == [3, 3]
    for worker, context in zip(cluster.workers.values(), contexts(cluster), strict=True):
        assert worker.plugins[PolarsRankPlugin.name]._memories() == [context.ctx.memory.return_value]


@pytest.mark.parametrize("started", [1], indirect=True)
def test_what_it_lacks_is_found_by_its_own_translation_and_named(started):
    engine, _ = started
    frame = pl.LazyFrame({"a": [1, 2, 3]}).select(pl.col("a").map_elements(hash, return_dtype=pl.Int64))
    assert frame.collect(engine=engine)["a"].to_list() == [1, 2, 3]
    assert list(current_record().on_host) == ["a Python function"]
