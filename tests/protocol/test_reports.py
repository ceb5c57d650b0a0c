"""Reports of a cluster's state to whoever watches it."""

import asyncio
import time

from jupyter_gpudask.protocol import ClusterState
from jupyter_gpudask.session.joined.panel import PanelReports

STATE = ClusterState(engine="cpu", status="ready", time=time.time())


class Stream:
    """A connection that notes what is sent, of which so many bytes are not read yet."""

    def __init__(self, backlog=0):
        self.backlog = backlog
        self.sent = []

    def send(self, event):
        self.sent.append(event.state)


class Cluster:
    """A cluster whose state is read."""

    async def state(self):
        return STATE


def test_a_kernel_keeps_no_reports_of_a_joined_cluster_for_a_server_that_does_not_read_them():
    async def run(backlog):
        reports = PanelReports(Cluster())
        reports._stream = Stream(backlog)
        await reports.watch(0.01)
        await asyncio.sleep(0.2)
        await reports.watch(0)
        return reports._stream.sent

    assert asyncio.run(run(2**21)) == []
    assert STATE in asyncio.run(run(0))
