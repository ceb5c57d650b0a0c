import functools
import io
import threading
import types
import uuid

import polars as pl
from rapidsmpf.communicator.ucxx import barrier, get_root_ucxx_address, new_communicator
from rapidsmpf.statistics import Statistics
from rapidsmpf.streaming.core.context import Context

import cudf_polars

_OPTIONS = {"ucx_worker": None, "options": None, "progress_thread": None}


def _setup_root(nranks, *, uid, dask_worker=None):
    communicator = new_communicator(nranks=nranks, root_ucxx_address=None, **_OPTIONS)
    setattr(dask_worker, f"_cudf_polars_mp_context_{uid}", communicator)
    return get_root_ucxx_address(communicator)


def _setup_worker(root_address, ranks, *, uid, dask_worker=None):
    attribute = f"_cudf_polars_mp_context_{uid}"
    communicator = getattr(dask_worker, attribute, None) or new_communicator(
        nranks=len(ranks), root_ucxx_address=root_address, **_OPTIONS
    )
    barrier(communicator)
    rank = ranks.index(dask_worker.address)
    setattr(dask_worker, attribute, WorkerContext(rank, threading.get_ident(), communicator))


class WorkerContext:
    def __init__(self, rank, thread, communicator):
        self.ctx = Context()
        self.rank, self.thread, self.comm, self.statistics = rank, thread, communicator, Statistics()
        self.mr = types.SimpleNamespace(current_allocated=2**20)


def _teardown_worker(*, uid, dask_worker=None):
    context = vars(dask_worker).pop(f"_cudf_polars_mp_context_{uid}", None)
    if context is not None and context.thread != threading.get_ident():
        raise RuntimeError("A context must be shut down in the thread that has made it.")


class DaskEngine(pl.GPUEngine):
    def __init__(self, *, dask_client, engine_options):
        self.uid, self.dask_client, self.running = str(uuid.uuid4()), dask_client, []
        workers = list(dask_client.scheduler_info(n_workers=-1)["workers"])
        root = functools.partial(_setup_root, uid=self.uid)
        address = dask_client.run(root, len(workers), workers=[workers[0]])[workers[0]]
        dask_client.run(functools.partial(_setup_worker, uid=self.uid), address, workers)
        super().__init__(**engine_options)

    def collect(self, lf, **kwargs):
        self.running.append(lf)
        return super().collect(lf, **kwargs)

    @property
    def _dask_ctx(self):
        return types.SimpleNamespace(rapidsmpf_id=self.uid)

    def evaluate(self, lf):
        buffer = io.BytesIO()
        lf.serialize(buffer)
        answers = self.dask_client.run(functools.partial(cudf_polars.evaluate, uid=self.uid), buffer.getvalue())
        return pl.concat([frame for _, frame in sorted(answers.values(), key=lambda answer: answer[0])])

    def shutdown(self):
        self.dask_client.run(functools.partial(_teardown_worker, uid=self.uid))
