import functools
import io
import threading
import uuid

import polars as pl

import cudf_polars


def _setup_worker(ranks, uid, dask_worker=None):
    context = (ranks.index(dask_worker.address), threading.get_ident())
    setattr(dask_worker, f"_cudf_polars_mp_context_{uid}", context)


def _teardown_worker(*, uid, dask_worker=None):
    _, thread = vars(dask_worker).pop(f"_cudf_polars_mp_context_{uid}", (0, threading.get_ident()))
    if thread != threading.get_ident():
        raise RuntimeError("A context must be shut down in the thread that has made it.")


class DaskEngine(pl.GPUEngine):
    def __init__(self, *, dask_client, engine_options):
        self.uid, self.dask_client, self.running = str(uuid.uuid4()), dask_client, []
        workers = list(dask_client.scheduler_info(n_workers=-1)["workers"])
        dask_client.run(functools.partial(_setup_worker, uid=self.uid), workers)
        super().__init__(**engine_options)

    def collect(self, lf, **kwargs):
        self.running.append(lf)
        return super().collect(lf, **kwargs)

    def evaluate(self, lf):
        buffer = io.BytesIO()
        lf.serialize(buffer)
        answers = self.dask_client.run(functools.partial(cudf_polars.evaluate, uid=self.uid), buffer.getvalue())
        return pl.concat([frame for _, frame in sorted(answers.values(), key=lambda answer: answer[0])])

    def shutdown(self):
        self.dask_client.run(functools.partial(_teardown_worker, uid=self.uid))
