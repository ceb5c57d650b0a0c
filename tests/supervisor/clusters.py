"""Clusters that the tests of this folder start as a kernel without a server does."""

import sys
from contextlib import asynccontextmanager

from jupyter_gpudask.client.connect import connect
from jupyter_gpudask.launcher.cluster import ClusterProcess
from jupyter_gpudask.protocol.spec import ClusterSpec

CPU = {"engine": "cpu", "workers": 1}


@asynccontextmanager
async def running_cluster(options=CPU, path=tuple(sys.path), **start):
    """A cluster that is closed afterwards."""
    cluster = await ClusterProcess.start(ClusterSpec.parse(options), path=path, **start)
    try:
        yield cluster
    finally:
        await cluster.close()


def compute_a_sum(ready):
    with connect(ready, set_as_default=False) as client:
        return client.submit(sum, range(101)).result()
