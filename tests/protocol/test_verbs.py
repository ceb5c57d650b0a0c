"""The verbs of a cluster: from one declaration to the command, its answer, and the operation of the REST interface."""

import asyncio
import time

import pytest

from jupyter_gpudask.errors import ClusterLostError
from jupyter_gpudask.protocol.messages import parse_event
from jupyter_gpudask.protocol.state import CellRun, ClusterState
from jupyter_gpudask.protocol.verbs import VERBS, ClusterVerbs, Start, answer, parse_command
from jupyter_gpudask.server.rest import openapi_document
from jupyter_gpudask.session.joined_cluster import PanelReports

STATE = ClusterState(engine="cpu", status="ready", time=time.time())
ARGUMENTS = {
    "worker_log": {"worker": "0", "lines": 7},
    "scale": {"workers": 3},
    "adapt": {"minimum": 1, "maximum": 4},
    "watch": {"interval": 2.0},
    "restart": {"spec": {"workers": 2}},
    "rename": {"holder": "a.ipynb"},
    "report_automatic": {"on": True},
    "report_cell": {"cell": CellRun(began=1.0, fallback_blocks=5)},
    "close": {"reason": "idle"},
}
RESULTS = {"worker_log": "the log", "keep": "user anna"}


class Answering(ClusterVerbs):
    """Answers every verb, and notes how it was called."""

    def __init__(self):
        self.calls = []

    def call(self, command):
        return self._note(VERBS[command.type], command.arguments)

    async def _note(self, verb, arguments):
        self.calls.append((verb.name, arguments))
        return RESULTS.get(verb.name, STATE) if verb.answer else None


class Asking(ClusterVerbs):
    """Sends each command to another process and back, as text."""

    def __init__(self, other):
        self._other = other

    async def call(self, command):
        event = await answer(parse_command(command.model_dump_json()), self._other)
        return None if event is None else parse_event(event.model_dump_json()).result


@pytest.mark.parametrize("verb", VERBS.values(), ids=lambda verb: verb.name)
def test_a_verb_reaches_who_answers_it_and_its_result_comes_back(verb):
    answering, arguments = Answering(), ARGUMENTS.get(verb.name, {})
    result = asyncio.run(getattr(Asking(answering), verb.name)(**arguments))
    assert answering.calls == [(verb.name, arguments)]
    assert result == (RESULTS.get(verb.name, STATE) if verb.answer else None)


def test_a_command_that_nobody_answers_is_refused_and_a_report_is_ignored():
    async def ask(line):
        return await answer(parse_command(line), ClusterVerbs())

    refused = asyncio.run(ask('{"type": "scale", "workers": 2, "id": 4}'))
    assert (refused.answers, refused.reason) == (4, "The command scale is not possible here.")
    assert asyncio.run(ask('{"type": "report_cell", "cell": {"began": 1}}')) is None
    assert "start is not possible" in asyncio.run(answer(Start(spec={}), ClusterVerbs())).reason


def test_an_operation_of_a_verb_is_in_the_document_of_the_rest_interface_with_its_arguments():
    api = openapi_document("/")
    for verb in (verb for verb in VERBS.values() if verb.operation):
        described = api["paths"][f"/clusters/{{kernel_id}}/{verb.name}"]["post"]
        assert (described["operationId"], described["summary"]) == (verb.operation, verb.summary)
        if verb.body is not None:
            schema = api["components"]["schemas"][verb.body.__name__]
            assert schema["properties"].keys() == ARGUMENTS[verb.name].keys()


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
    cluster = Cluster(KeyError("device"), KeyError("device"), ClusterLostError("shut-down"), RuntimeError("other"))
    assert STATE in asyncio.run(reports_of(cluster))
    assert [record.getMessage().rpartition(": ")[2] for record in caplog.records] == ["'device'", "other"]
