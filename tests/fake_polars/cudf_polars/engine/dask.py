import functools
import io
import threading
import uuid

import polars as pl

import cudf_polars


def setup(ranks, uid, dask_worker=None):
    contexts = dask_worker.__dict__.setdefault("_fake_contexts", {})
    contexts[uid] = ranks.index(dask_worker.address)
    dask_worker.__dict__.setdefault("_fake_threads", {})[uid] = threading.get_ident()


def teardown(uid, dask_worker=None):
    contexts = dask_worker.__dict__.get("_fake_contexts", {})
    if contexts.pop(uid, None) is not None:
        assert dask_worker.__dict__["_fake_threads"].pop(uid) == threading.get_ident()


class DaskEngine(pl.GPUEngine):
    def __init__(self, *, dask_client, engine_options):
        self.uid, self.dask_client, self.running = str(uuid.uuid4()), dask_client, []
        workers = list(dask_client.scheduler_info(n_workers=-1)["workers"])
        dask_client.run(functools.partial(setup, uid=self.uid), workers)
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
        self.dask_client.run(functools.partial(teardown, uid=self.uid))
