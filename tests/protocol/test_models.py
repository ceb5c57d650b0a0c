"""The models of messages, options and states: what they accept, refuse and say."""

import json

import pytest

from jupyter_gpudask.errors import ClusterLostError, GpuReservedError, OptionConflictError, ProtocolError, SpecError
from jupyter_gpudask.protocol.messages import (
    OLDEST_PROTOCOL,
    PROTOCOL_VERSION,
    Attach,
    AttachOrStart,
    Failed,
    Interpreter,
    LogText,
    parse_event,
    parse_request,
)
from jupyter_gpudask.protocol.spec import ClassPreset, ClusterSpec, differences, other_options
from jupyter_gpudask.protocol.state import ClusterState, TlsCredentials, WorkerState, names_of
from jupyter_gpudask.protocol.transport import EVENT_LIMIT
from jupyter_gpudask.protocol.verbs import Start, parse_command


def test_a_spec_survives_the_pipe():
    spec = ClusterSpec.parse(
        {"gpus": "0,1", "pool": "20GB", "resources": "GPU=1", "environment": ["A=b"], "threads": "2", "adapt": "1,4"}
    )
    assert ClusterSpec.model_validate_json(spec.model_dump_json()) == spec


@pytest.mark.parametrize(
    ("options", "option", "allowed"),
    [
        ({"engine": "gpu"}, "--engine", "auto, cuda or cpu"),
        ({"gpus": "1,1"}, "--gpus", "count"),
        ({"workers": -3}, "--cpu", "1 to 256"),
        ({"threads": 0}, "--threads", "1 to 256"),
        ({"pool": "lots"}, "--pool", "fraction"),
        ({"spill_threshold": "0"}, "--spill-threshold", "fraction"),
        ({"spilling": "host"}, "--spilling", "dask, cudf or off"),
        ({"resources": "GPU"}, "--resources", "NAME=AMOUNT"),
        ({"resources": "GPU=0"}, "--resources", "above 0"),
        ({"environment": "CUDA_VISIBLE_DEVICES=1"}, "--environment", "--gpus"),
        ({"environment": "1A=x"}, "--environment", "NAME=VALUE"),
        ({"adapt": "4,1"}, "--adapt", "the smaller one first"),
        ({"adapt": [0, 4]}, "--adapt", "1 to 256"),
        ({"start_timeout": 0}, "--start-timeout", "above 0"),
        ({"worker": 3}, "--worker", "one of the options"),
    ],
)
def test_a_bad_value_is_one_sentence_with_option_value_and_what_is_allowed(options, option, allowed):
    with pytest.raises(SpecError) as raised:
        ClusterSpec.parse(options)
    assert raised.value.field == next(iter(options))
    assert option in str(raised.value)
    assert repr(next(iter(options.values()))) in str(raised.value)
    assert allowed in str(raised.value)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("options", "field", "sentence"),
    [
        ({"gpus": 2, "engine": "cpu"}, "gpus", "--gpus and --cpu are mutually exclusive. Leave one of them out."),
        ({"workers": 2}, "workers", "Only a CPU cluster has a number of workers."),
    ],
)
def test_options_that_contradict_each_other_are_refused_with_what_to_change(options, field, sentence):
    with pytest.raises(OptionConflictError) as raised:
        ClusterSpec.parse(options)
    assert raised.value.field == field
    assert str(raised.value).startswith(sentence)


def test_what_is_reported_of_invalid_options_is_complete_as_it_was_typed_and_bounded():
    with pytest.raises(SpecError, match=r"^--environment 'A=1 FOO' is not allowed"):
        ClusterSpec.parse({"environment": ["A=1", "FOO"]})
    with pytest.raises(SpecError, match=r"^No GPU is selected\.") as raised:
        ClusterSpec.parse({"gpus": []}, strict=True)
    assert (raised.value.field, raised.value.others) == ("gpus", ())
    with pytest.raises(SpecError) as raised:
        ClusterSpec.parse({"pool": "lots", "threads": "many", "spilling": "dask", "gpus": ""})
    assert {each.field for each in (raised.value, *raised.value.others)} == {"gpus", "pool", "threads"}
    with pytest.raises(SpecError) as raised:
        ClusterSpec.parse({f"unknown{number}": 1 for number in range(300_000)} | {"pool": "x" * 100_000})
    assert (raised.value.field, len(raised.value.others)) == ("pool", 49)
    assert len(str(raised.value)) < 1000


@pytest.mark.parametrize("line", ["", "garbage", '{"type": "start"}', '{"type": "dance"}', "[]"])
def test_a_line_that_is_no_message_is_a_protocol_error(line):
    with pytest.raises(ProtocolError, match="Not a message"):
        parse_command(line)


def test_what_a_newer_side_adds_is_ignored_except_for_options_that_are_not_their_defaults():
    order = Start(spec=ClusterSpec(gpus=2))
    line = order.model_dump(mode="json")
    assert line["spec"] == {"gpus": 2}
    assert parse_command(json.dumps(line | {"new": 1})) == order
    with pytest.raises(ProtocolError, match=r"spec\.new"):
        parse_command(json.dumps(line | {"spec": {"gpus": 2, "new": 1}}))


@pytest.mark.parametrize(
    ("version", "old", "new"),
    [
        *((version, "", "") for version in range(OLDEST_PROTOCOL, PROTOCOL_VERSION + 1)),
        (OLDEST_PROTOCOL - 1, "kernel", "Jupyter server"),
        (PROTOCOL_VERSION + 1, "Jupyter server", "kernel"),
    ],
)
def test_a_server_refuses_kernels_of_a_protocol_that_it_does_not_understand_with_the_side_to_upgrade(version, old, new):
    attach = Attach(kernel_id="1", protocol=version)
    line = attach.model_dump_json().encode()
    if not old:
        assert parse_request(line) == attach
        return
    with pytest.raises(ProtocolError) as raised:
        parse_request(line)
    assert f"of the {old} is too old for that of the {new}" in raised.value.reason
    assert raised.value.fix == f"Upgrade it in the environment of the {old}, and restart the {old}."


def test_credentials_and_environments_never_show():
    credentials = TlsCredentials(ca="ca", certificate="cert", key="secret")
    interpreter = Interpreter(python="python", environment={"TOKEN": "secret"})
    request = AttachOrStart(kernel_id="1", options={}, interpreter=interpreter)
    assert "secret" not in f"{credentials} {credentials!r} {request} {request!r}"
    assert json.loads(credentials.model_dump_json())["key"] == "secret"


@pytest.mark.parametrize("character", ["\0", "\N{CLAPPER BOARD}"])
def test_the_longest_log_fits_into_an_event_with_its_last_lines(character):
    log = character * EVENT_LIMIT + "the end"
    sent = LogText(worker="0", text=log), Failed.from_error(ClusterLostError("closed", log=log))
    for event, field in zip(sent, ("text", "log"), strict=True):
        line = event.model_dump_json().encode()
        assert len(line) < EVENT_LIMIT
        assert getattr(parse_event(line), field).endswith(f"{character}the end")


def test_the_gpus_that_others_hold_are_known_to_who_reads_the_event():
    sent = Failed.from_error(GpuReservedError("others-wait", waiting="user anna", reserved_gpus=["GPU-0"]))
    error = parse_event(sent.model_dump_json()).to_error()
    assert (type(error), error.reason, error.fix, error.reserved_gpus) == (
        GpuReservedError,
        sent.reason,
        sent.fix,
        ("GPU-0",),
    )


def test_text_that_is_not_utf_8_is_left_out_of_the_first_line_of_a_kernel():
    environment = {"A": "1", "B": "\udce9", "\udce9": "2"}
    interpreter = Interpreter(python="python", path=["/a", "/\udce9"], environment=environment)
    request = AttachOrStart(kernel_id="1", options={}, interpreter=interpreter)
    same = parse_request(request.model_dump_json().encode()).interpreter
    assert (same.path, same.environment) == (("/a",), {"A": "1"})


@pytest.mark.parametrize(
    ("entry", "engine"),
    [
        ({"options": {"worker_class": "dask_cuda.CUDAWorker"}}, "cuda"),
        ({"options": {"worker_class": "dask_cuda.CUDAWorker"}, "engine": "cpu"}, "cpu"),
        ({"options": {"worker_class": "distributed.Nanny"}}, "cpu"),
        ({}, "cpu"),
    ],
)
def test_a_preset_whose_workers_are_those_of_dask_cuda_is_one_for_gpus(entry, engine):
    assert ClassPreset.model_validate({"class": "distributed.SSHCluster"} | entry).engine == engine


@pytest.mark.parametrize(("tasks", "end"), [(0, "."), (6, "; its tasks wait for one.")])
def test_a_cluster_without_workers_says_that_tasks_wait_if_there_are_some(tasks, end):
    state = ClusterState(engine="cpu", status="ready", time=0, tasks_unfinished=tasks, seconds_without_workers=24)
    assert state.notes == (f"The cluster has had no worker for 24 s{end}",)


CPU, GPUS = ClusterSpec.parse({"engine": "cpu", "workers": 2}), ClusterSpec.parse({"gpus": "0,1"})


@pytest.mark.parametrize(
    ("running", "requested", "expected"),
    [
        ({"threads": 1}, {"threads": 2}, ["--threads 1 instead of 2"]),
        ({"threads": 1}, {}, ["--threads 1 instead of default"]),
        ({}, {"pool": "20GB", "spilling": "cudf"}, ["--pool none instead of 20GB", "--spilling dask instead of cudf"]),
        ({"pool": "16GiB"}, {"pool": 16 * 1024**3 + 1}, ["--pool 16GiB instead of 17179869185"]),
        ({"memory_limit": 0.5}, {"memory_limit": "none"}, ["--memory-limit 0.5 instead of none"]),
        ({"share": True}, {}, ["--share yes instead of no"]),
        ({"adapt": "1,4"}, {}, ["--adapt 1,4 instead of none"]),
        ({"resources": "GPU=1"}, {}, ["--resources GPU=1 instead of none"]),
        ({"gpus": 2}, {"gpus": "1,"}, ["--gpus 2 instead of 1,"]),
        ({"gpus": "0,1", "engine": "cuda"}, {}, ["--gpus 0,1 instead of all", "--engine cuda instead of auto"]),
        ({"engine": "cpu", "workers": 2}, {"engine": "cpu", "workers": 3}, ["--cpu 2 instead of --cpu 3"]),
        ({"engine": "cpu", "workers": 2}, {"gpus": 1}, ["--cpu 2 instead of --gpus 1"]),
        ({"gpus": "0,"}, {"engine": "cpu"}, ["--gpus 0, instead of --cpu"]),
        ({"preset": "small", "threads": 4}, {"pool": "1GB"}, ["--preset small instead of none"]),
        (CPU, CPU.model_copy(update={"gpus": 1}), ["--cpu 2 instead of --gpus 1"]),
        (GPUS, GPUS.model_copy(update={"engine": "cpu", "workers": 2}), ["--gpus 0,1 instead of --cpu 2"]),
        ({"environment": ["A=secret"]}, {"environment": ["A=b"]}, ["--environment with other values"]),
    ],
)
def test_the_options_that_differ_are_named_with_both_values_as_they_are_typed(running, requested, expected):
    specs = [each if isinstance(each, ClusterSpec) else ClusterSpec.parse(each) for each in (running, requested)]
    assert differences(*specs) == expected
    assert str(other_options(*specs)) == (
        f"The running cluster has other options than you asked for: {', '.join(expected)}. "
        "Type: %gpudask restart with these options, or %gpudask stop first."
    )


def test_each_option_can_be_described():
    others = {
        "gpus": 1, "engine": "cuda", "pool": 0.5, "spilling": "off", "spill_threshold": "none", "memory_limit": "2GB",
        "threads": 2, "share": True, "wait": True, "adapt": [1, 2], "protocol": "tcp", "resources": {"A": 1.5},
        "environment": {"A": "b"}, "start_timeout": 5, "dashboard": True,
    }  # fmt: skip
    assert others.keys() == ClusterSpec.model_fields.keys() - {"workers", "preset"}
    described = differences(ClusterSpec(), ClusterSpec.parse(others))
    assert len(described) == len(others)
    assert "--start-timeout 120 instead of 5" in described
    assert "--resources none instead of A=1.5" in described


@pytest.mark.parametrize(
    ("places", "options", "expected"),
    [
        ([("a", 0), ("a", 3), ("a", None)], {}, ["GPU 0", "GPU 3", "Worker 2"]),
        ([("a", 0), ("a", 1), ("a", 0)], {}, ["GPU 0, worker 1", "GPU 1", "GPU 0, worker 2"]),
        ([("a", 0), ("b", 0), ("b", 0)], {}, ["a GPU 0", "b GPU 0, worker 1", "b GPU 0, worker 2"]),
        ([("a", 0), ("b", 0), ("b", 0)], {"with_hosts": False}, ["GPU 0", "GPU 0, worker 1", "GPU 0, worker 2"]),
    ],
)
def test_workers_are_named_by_their_gpus_and_hosts_and_numbered_if_they_share_one(places, options, expected):
    workers = [WorkerState(name=str(name), host=host, gpu_index=index) for name, (host, index) in enumerate(places)]
    assert names_of(workers, **options) == expected
