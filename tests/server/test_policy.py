"""Presets: named options and cluster classes of the administrator."""

import pytest
from helpers import wait_until
from managers import policy_of
from traitlets import TraitError

from jupyter_gpudask.errors import LimitError, PresetNotFoundError, SpecError

pytestmark = pytest.mark.cluster

PRESETS = {
    "small": {"title": "Small", "engine": "cpu", "workers": 1, "threads": 1},
    "local": {
        "title": "By a class",
        "class": "distributed.LocalCluster",
        "options": {"n_workers": 2, "threads_per_worker": 3, "resources": {"FAST": 1}},
    },
    "nowhere": {"class": "no_such_package.Cluster"},
    "wrong": {"class": "distributed.LocalCluster", "options": {"n_workers": "many"}},
    "no-cluster": {"class": "collections.OrderedDict"},
    "elsewhere": {"class": "distributed.SpecCluster"},
    "large": {"class": "distributed.LocalCluster", "options": {"n_workers": 5}},
}


@pytest.fixture(scope="module")
def server(server_in):
    return server_in(options=[f"--GpuDask.presets={PRESETS!r}", "--GpuDask.max_workers=4"])


def start(server, kernel, preset, **options):
    answer = server.fetch("clusters", "POST", {"kernel_id": kernel.id, "preset": preset, "spec": options})
    assert answer.status == 202, answer.text
    return server.settled(kernel)


def test_a_cluster_class_gets_credentials_and_its_cluster_works_like_any_other(server, gone):
    kernel = server.kernel()
    cluster = start(server, kernel, "local")
    assert (cluster["status"], cluster["engine"], cluster["workers_ready"]) == ("ready", "cpu", 2)
    found = kernel.ok("%load_ext jupyter_gpudask\nstarted = %gpudask start --preset local\nstarted")
    assert any("Clusters of the preset local have no GPUs." in each for each in found.displayed)
    assert kernel.ok("started.client.scheduler.address[:16]").value == "'tls://127.0.0.1:'"
    threads = "list(started.client.run(lambda dask_worker: (dask_worker.state.nthreads, dask_worker.name)).values())"
    assert kernel.ok(f"sorted({threads})").value == "[(3, 0), (3, 1)]"
    cell = kernel.ok("%%gpudask\nimport dask.array as da\nda.ones(10).sum().compute()")
    assert "10" in cell.value
    state = server.cluster(kernel)["state"]
    assert all(worker["pid"] and worker["spilled_to_disk"] is not None for worker in state["workers"])

    assert server.fetch(f"clusters/{kernel.id}/scale", "POST", {"workers": 1}).status == 202
    wait_until(lambda: len(server.cluster(kernel)["state"]["workers"]) == 1)
    assert set(server.fetch(f"clusters/{kernel.id}/logs").body["logs"]) == {"supervisor", "0"}
    server.fetch(f"kernels/{kernel.id}/restart", "POST", {}, prefix="api/")
    assert server.settled(kernel)["pid"] == cluster["pid"]
    server.fetch(f"clusters/{kernel.id}", "DELETE")
    gone(cluster["pid"])


def test_a_class_that_cannot_create_a_cluster_fails_with_a_reason(server, kernel):
    for preset, sentence in [
        ("nowhere", "The class no_such_package.Cluster of this preset is not in the kernel's environment"),
        ("wrong", "distributed.LocalCluster does not start: TypeError: "),
        ("no-cluster", "collections.OrderedDict does not start: ValueError: "),
        ("elsewhere", "distributed.SpecCluster creates a cluster whose scheduler runs in another process."),
        ("large", "This server limits the workers of a cluster to 4; 5 were requested."),
    ]:
        cluster = start(server, kernel, preset)
        assert (cluster["status"], sentence in cluster["reason"]) == ("failed", True), cluster
        assert "\n" not in cluster["reason"]
        wait_until(lambda: not server.supervisors())


def test_users_cannot_name_a_class_or_its_options(server, kernel):
    for order in [
        {"spec": {"class": "os.system"}},
        {"spec": {"engine": "os.system"}},
        {"spec": {"options": {"n_workers": 8}}},
        {"spec": {"cluster_class": {"path": "os.system"}}},
        {"preset": "local", "spec": {"threads": 8}},
        {"preset": "local", "spec": {"environment": {"A": "b"}}},
        {"spec": {"preset": "local", "threads": 8}},
        {"spec": {"preset": 3}},
        {"class": "os.system"},
    ]:
        assert server.fetch("clusters", "POST", {"kernel_id": kernel.id} | order).status == 422, order
    kernel.ok("%load_ext jupyter_gpudask")
    reply = kernel.run("%gpudask start --preset big")
    assert "There is no preset 'big'. Choose one of: small, local" in reply.error_value + reply.printed
    reply = kernel.run("%gpudask start --engine distributed.LocalCluster")
    assert "auto, cuda or cpu" in reply.error_value + reply.printed
    presets = {preset["name"]: preset for preset in server.fetch("presets").body["presets"]}
    assert (presets["small"]["title"], presets["small"]["spec"]["threads"]) == ("Small", 1)
    assert (presets["local"]["title"], presets["local"]["spec"]["preset"]) == ("By a class", "local")
    assert "distributed" not in str(presets)


def test_specs_of_cluster_classes_are_fixed_except_for_the_start_timeout_and_the_number_of_workers():
    policy = policy_of(presets=PRESETS | {"gpu": {"class": "a.B", "engine": "cuda", "start_timeout": 600}})
    spec = policy.spec({}, "gpu")
    assert (spec.preset, spec.engine, spec.start_timeout) == ("gpu", "cuda", 600)
    assert policy.spec({"preset": "gpu", "start_timeout": 60}).start_timeout == 60
    assert policy.updated_spec(policy.spec({"preset": "gpu", "workers": 8}), {"start_timeout": 60}).workers == 8
    assert policy.updated_spec(policy.spec({"preset": "gpu", "adapt": [1, 8]}), {"start_timeout": 60}).adapt == (1, 8)
    with pytest.raises(LimitError, match="limits the workers of a cluster to 4"):
        policy_of(max_workers=4).spec({"adapt": [1, 8]})
    assert policy.updated_spec(spec, {}) == spec
    assert policy.updated_spec(spec, {"preset": "small"}).threads == 1
    assert policy.cluster_class(policy.updated_spec(spec, {"preset": ""}).preset) is None
    with pytest.raises(SpecError, match="cannot be used with --preset gpu"):
        policy.updated_spec(spec, {"threads": 2})
    with pytest.raises(PresetNotFoundError):
        policy.spec({"preset": "b"})
    assert "secret" not in repr(policy_of(presets={"a": {"class": "a.B", "options": {"secret": 1}}}).cluster_class("a"))


def test_the_default_options_can_name_a_preset_and_override_its_options():
    policy = policy_of(default_spec={"preset": "small", "threads": 2}, presets=PRESETS)
    spec = policy.spec({})
    assert (spec.preset, spec.engine, spec.workers, spec.threads) == ("", "cpu", 1, 2)
    assert policy.spec({"pool": 0.5}).model_copy(update={"pool": None}) == spec
    assert policy.spec({"threads": 3}) == spec.model_copy(update={"threads": 3})
    assert (policy.spec({"gpus": 1}).engine, policy.spec({"gpus": 1}).threads) == ("auto", 2)
    assert policy.spec({}, "small").threads == 1
    assert policy.spec({"preset": ""}).workers is None
    assert policy_of(default_spec={"preset": "small", "gpus": 1}, presets=PRESETS).spec({}).gpus == 1


def test_only_the_options_of_presets_and_the_default_ones_are_allowed_if_the_administrator_says_so():
    policy = policy_of(presets_only=True, presets=PRESETS, default_spec={"threads": 2})
    policy.validate_settings()
    small = policy.spec({}, "small")
    for allowed in (
        {},
        {"gpus": "free"},
        {"threads": 2},
        {"start_timeout": 5},
        {"preset": "local", "workers": 4},
        small.model_dump(exclude_defaults=True),
    ):
        assert policy.spec(allowed)
    assert policy.updated_spec(small, {"preset": "local"}).preset == "local"
    names = ", ".join(PRESETS)
    for refused in ({"threads": 3}, {"gpus": 1}, {"pool": 0.5}, {"engine": "cpu"}, {"preset": "small", "threads": 2}):
        with pytest.raises(LimitError) as caught:
            policy.spec(refused)
        assert caught.value.reason == f"This server allows only its presets ({names}) and its default options."
        assert caught.value.fix == "Type: %gpudask start --preset small"
    with pytest.raises(LimitError):
        policy.updated_spec(small, {"threads": 2})
    with pytest.raises(LimitError, match=r"allows only its default options\. Leave out all options\."):
        policy_of(presets_only=True).spec({"threads": 2})


@pytest.mark.parametrize(
    ("default_spec", "presets"),
    [
        ({"preset": "nowhere"}, {"small": {}}),
        ({"preset": 3}, {"small": {}}),
        ({"preset": "a", "threads": 2}, {"a": {"class": "a.B"}}),
        ({"preset": "a", "thread": 2}, {"a": {}}),
        ({}, {"a": {"preset": "small"}, "small": {}}),
        *(
            ({}, {"odd": entry})
            for entry in ({"class": "LocalCluster"}, {"class": 3}, {"class": "a.B", "n_workers": 3})
        ),
    ],
)
def test_invalid_default_options_and_presets_are_refused_when_the_server_starts(default_spec, presets):
    policy = policy_of(default_spec=default_spec, presets=presets)
    with pytest.raises(TraitError, match="Invalid configuration of GpuDask: "):
        policy.validate_settings()


def test_a_directory_of_leases_that_cannot_be_used_is_refused_when_the_server_starts(tmp_path):
    tmp_path.chmod(0o1777)
    policy_of(lease_directory=str(tmp_path)).validate_settings()
    missing = f"{tmp_path}/none"
    with pytest.raises(TraitError) as raised:
        policy_of(lease_directory=missing).validate_settings()
    assert str(raised.value) == (
        f"The lease_directory {missing} of GpuDask cannot be used: No such file or directory. "
        f"Type as root: install -d -m 1777 {missing}"
    )
