"""Reports of a cluster's state to whoever watches it."""

import asyncio
import time

from jupyter_gpudask.errors import ClusterLostError
from jupyter_gpudask.protocol import ClusterState
from jupyter_gpudask.session.joined_cluster import PanelReports

STATE = ClusterState(engine="cpu", status="ready", time=time.time())


class Stream:
    """A connection that notes what is sent, of which so many bytes are not read yet."""

    def __init__(self, backlog=0):
        self.backlog = backlog
        self.sent = []

    def send(self, event):
        self.sent.append(event.state)


class Cluster:
    """A cluster whose state is read, after so many failures."""

    def __init__(self, *errors):
        self._errors = list(errors)

    async def state(self):
        if self._errors:
            raise self._errors.pop(0)
        return STATE


async def reports_of(cluster, backlog=0):
    reports = PanelReports(cluster)
    reports._stream = Stream(backlog)
    await reports.watch(0.01)
    await asyncio.sleep(0.2)
    await reports.watch(0)
    return reports._stream.sent


def test_a_kernel_keeps_no_reports_of_a_joined_cluster_for_a_server_that_does_not_read_them():
    assert asyncio.run(reports_of(Cluster(), 2**21)) == []
    assert STATE in asyncio.run(reports_of(Cluster()))


def test_reports_go_on_after_a_state_that_could_not_be_read(caplog):
    cluster = Cluster(KeyError("device"), KeyError("device"), ClusterLostError("gone"), RuntimeError("other"))
    assert STATE in asyncio.run(reports_of(cluster))
    assert [record.getMessage().rpartition(": ")[2] for record in caplog.records] == ["'device'", "other"]
