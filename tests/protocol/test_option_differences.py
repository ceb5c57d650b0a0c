"""The sentence on a cluster that has other options than those that were requested."""

import pytest

from jupyter_gpudask.protocol import ClusterSpec
from jupyter_gpudask.protocol.spec import differences, other_options


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
        ({"profile": "small", "threads": 4}, {"pool": "1GB"}, ["--profile small instead of none"]),
    ],
)
def test_the_options_that_differ_are_named_with_both_values_as_they_are_typed(running, requested, expected):
    assert differences(ClusterSpec.parse(running), ClusterSpec.parse(requested)) == expected


def test_gpus_that_are_requested_of_a_cluster_on_the_cpu_are_named():
    running = ClusterSpec.parse({"engine": "cpu", "workers": 2})
    assert differences(running, running.model_copy(update={"gpus": 1})) == ["--cpu 2 instead of --gpus 1"]


def test_the_cpu_that_is_requested_of_a_cluster_on_gpus_is_named():
    running = ClusterSpec.parse({"gpus": "0,1"})
    requested = running.model_copy(update={"engine": "cpu", "workers": 2})
    assert differences(running, requested) == ["--gpus 0,1 instead of --cpu 2"]


def test_the_values_of_environment_variables_are_not_shown():
    running, requested = (ClusterSpec.parse({"environment": [f"TOKEN={value}"]}) for value in ("secret", "other"))
    assert differences(running, requested) == ["--environment with other values"]


def test_each_option_can_be_described():
    others = {
        "gpus": 1, "engine": "cuda", "pool": 0.5, "spilling": "off", "spill_threshold": "none", "memory_limit": "2GB",
        "threads": 2, "share": True, "wait": True, "adapt": [1, 2], "protocol": "tcp", "resources": {"A": 1.5},
        "environment": {"A": "b"}, "start_timeout": 5, "dashboard": True,
    }  # fmt: skip
    assert others.keys() == ClusterSpec.model_fields.keys() - {"workers", "profile"}
    described = differences(ClusterSpec(), ClusterSpec.parse(others))
    assert len(described) == len(others)
    assert "--start-timeout 120 instead of 5" in described
    assert "--resources none instead of A=1.5" in described


def test_the_error_says_what_to_type():
    error = other_options(ClusterSpec(threads=1), ClusterSpec(threads=2))
    assert str(error) == (
        "The running cluster has other options than you asked for: --threads 1 instead of 2. "
        "Type: %gpudask restart with these options, or %gpudask stop first."
    )
