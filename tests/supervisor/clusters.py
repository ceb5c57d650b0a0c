"""Clusters that the tests of this folder start as a kernel without a server does."""

import asyncio
import sys

from jupyter_gpudask.client.connect import connect
from jupyter_gpudask.launcher.cluster import ClusterProcess
from jupyter_gpudask.protocol.spec import ClusterSpec

CPU = {"engine": "cpu", "workers": 1}


def with_cluster(use, options=CPU, path=tuple(sys.path), **start):
    """Start a cluster, `await use(cluster)`, and close it."""

    async def run():
        cluster = await ClusterProcess.start(ClusterSpec.parse(options), path=path, **start)
        try:
            return await use(cluster)
        finally:
            await cluster.close()

    return asyncio.run(run())


def compute_a_sum(ready):
    with connect(ready, set_as_default=False) as client:
        return client.submit(sum, range(101)).result()
