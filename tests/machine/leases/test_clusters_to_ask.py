"""Which idle clusters are asked for their GPUs."""

import pytest

from jupyter_gpudask.machine.lease_registry import PublicLease
from jupyter_gpudask.machine.waiting_line import Waiting, clusters_to_ask

ANNA, BERT, EVA = 1, 2, 3


def lease(gpus, uid, *, share=False, count=0):
    return PublicLease("", tuple(gpus), share, uid, 0.0, count)


def places(*leases):
    return [Waiting(number, 0, number, each) for number, each in enumerate(leases)]


def asked(line, leases, idle):
    """Of each cluster that is asked, its user and GPUs."""
    chosen = clusters_to_ask(places(*line), leases, places(*idle))
    return ["".join((str(each.lease.uid), *each.lease.gpus)) for each in chosen]


A, B, C = lease("a", ANNA), lease("b", ANNA), lease("c", BERT)


@pytest.mark.parametrize(
    ("line", "leases", "idle", "expected"),
    [
        ([], [A], [A], []),
        ([lease("a", EVA)], [A], [A], ["1a"]),
        ([lease("b", EVA)], [A], [A], []),  # b is free
        ([lease("abc", EVA, count=1)], [A, B, C], [C, A], ["2c"]),  # the longest idle, and no more than needed
        ([lease("abc", EVA, count=2)], [A, B, C], [C, A], ["2c", "1a"]),
        ([lease("abc", EVA, count=2)], [A, C], [C, A], ["2c"]),  # with b, which is free
        ([lease("abc", EVA, count=3)], [A, B, C], [C, A], []),  # b is in use, so that the others would be lost in vain
        ([lease("abc", EVA)], [A, B, C], [C, A, B], ["2c", "1a", "1b"]),
        ([lease("a", EVA), lease("a", BERT)], [A], [A], ["1a"]),
        ([lease("a", EVA), lease("c", ANNA)], [A, C], [A, C], ["1a", "2c"]),
        ([lease("ab", EVA, count=99)], [A, B], [A, B], ["1a", "1b"]),
    ],
)
def test_the_clusters_that_are_idle_longest_are_asked_as_many_as_are_needed(line, leases, idle, expected):
    assert asked(line, leases, idle) == expected


def test_nothing_is_expected_of_a_gpu_that_its_owner_does_not_hold():
    forged = lease("ab", EVA)
    assert asked([lease("ab", BERT, count=1)], [A, B], [forged, B]) == ["1b"]
    assert asked([lease("ab", BERT)], [A, B], [forged, B]) == []


def test_gpus_that_several_clusters_share_are_not_asked_for():
    shared = [lease("a", ANNA, share=True), lease("a", BERT, share=True)]
    assert asked([lease("a", EVA)], shared, shared) == []
    assert asked([lease("a", EVA, share=True)], shared[:1], shared[:1]) == []  # it does not wait for these
    assert asked([lease("a", EVA)], shared[:1], shared[:1]) == ["1a"]


@pytest.mark.parametrize(
    ("max_gpus", "idle", "expected"),
    [
        (1, [A, C], []),  # Bert holds c: with another GPU his start would fail, and Anna's cluster be lost in vain
        (1, [A, lease("c", BERT)], ["2c"]),
        (2, [A, C], ["1a"]),
        (None, [A, C], ["1a"]),
    ],
)
def test_nobody_is_asked_for_a_start_whose_user_may_hold_no_more_gpus(max_gpus, idle, expected):
    wanted = lease("ab" if expected != ["2c"] else "abc", BERT, count=1)
    chosen = clusters_to_ask(places(wanted), [A, B, C], places(*idle), max_gpus)
    assert ["".join((str(each.lease.uid), *each.lease.gpus)) for each in chosen] == expected
