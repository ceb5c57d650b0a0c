"""The names of workers in tables and logs; `workerNames.spec.ts` has the same cases for the panel."""

import pytest

from jupyter_gpudask.protocol.state import WorkerState, names_of


def names(*places, **options):
    workers = [WorkerState(name=str(name), host=host, gpu_index=index) for name, (host, index) in enumerate(places)]
    return names_of(workers, **options)


@pytest.mark.parametrize(
    ("places", "expected"),
    [
        ([("a", 0), ("a", 3), ("a", None)], ["GPU 0", "GPU 3", "Worker 2"]),
        ([("a", 0), ("a", 1), ("a", 0)], ["GPU 0, worker 1", "GPU 1", "GPU 0, worker 2"]),
        ([("a", 0), ("b", 0), ("b", 0)], ["a GPU 0", "b GPU 0, worker 1", "b GPU 0, worker 2"]),
    ],
)
def test_workers_are_named_by_their_gpus_and_numbered_if_they_share_one(places, expected):
    assert names(*places) == expected


def test_the_host_is_left_out_where_it_is_shown_otherwise():
    assert names(("a", 0), ("b", 0), ("b", 0), with_hosts=False) == ["GPU 0", "GPU 0, worker 1", "GPU 0, worker 2"]
