"""The line of starts that wait for GPUs."""

import os
import re
import subprocess
import sys

import pytest

from jupyter_gpudask.machine.lease_registry import PublicLease
from jupyter_gpudask.machine.leases import Waiting, WaitingLine, clusters_to_ask

GPUS = ["GPU-0", "GPU-1"]

WAIT = """
import sys
from pathlib import Path
from jupyter_gpudask.machine.leases import WaitingLine
place = WaitingLine(Path(sys.argv[1])).enter(["GPU-0"])
print("waits", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def line(tmp_path):
    return WaitingLine(tmp_path)


def test_who_comes_first_is_served_first_and_leaving_moves_the_others_up(line):
    places = [line.enter(GPUS) for _ in range(3)]
    assert [len(line.before(place, GPUS)) for place in places] == [0, 1, 2]
    assert len(line.read()) == 3
    places[0].leave()
    assert [len(line.before(place, GPUS)) for place in places[1:]] == [0, 1]
    for place in places[1:]:
        place.leave()
    assert line.read() == []


def test_a_start_stands_behind_those_only_that_wait_for_one_of_its_gpus(line):
    place = line.enter(["GPU-0"])
    assert [len(line.before(None, gpus)) for gpus in ([], ["GPU-1"], GPUS)] == [0, 0, 1]
    place.leave()


def test_a_process_that_ends_leaves_the_line(line, tmp_path):
    command = [sys.executable, "-c", WAIT, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "waits\n"
        place = line.enter(GPUS)
        [first] = line.before(place, GPUS)
        assert first.lease.uid == os.geteuid()
        assert first.description.startswith("user ")
        process.kill()
        process.wait()
    assert line.before(place, GPUS) == []
    place.leave()
    line.enter(GPUS).leave()
    assert list(tmp_path.iterdir()) == []


def test_the_starts_of_a_user_have_the_names_of_their_notebooks_which_other_users_cannot_read(tmp_path):
    public, private = tmp_path / "public", tmp_path / "private"
    public.mkdir()
    private.mkdir()
    line = WaitingLine(public, names=private)
    place = line.enter(GPUS, holder="analysis.ipynb", kernel_id="kernel-1")
    [waiting] = line.read()
    assert waiting.kernel_id == "kernel-1"
    assert re.fullmatch(r"analysis\.ipynb since \d\d:\d\d.*", waiting.description)
    assert "analysis" not in place.path.read_text()
    assert WaitingLine(public).read()[0].description.startswith("user ")
    place.leave()
    assert [*public.iterdir(), *private.iterdir()] == []


def test_a_start_waits_without_its_name_where_that_cannot_be_written(tmp_path):
    line = WaitingLine(tmp_path, names=tmp_path / "missing")
    place = line.enter(GPUS, holder="analysis.ipynb")
    assert line.read()[0].description.startswith("user ")
    place.leave()


def test_neither_links_nor_unlocked_files_nor_a_new_time_of_a_file_change_the_order(line, tmp_path):
    first, second = line.enter(GPUS), line.enter(GPUS)
    (tmp_path / "another.waiting").write_text("")
    (tmp_path / "symbolic.waiting").symlink_to(first.path)
    os.utime(second.path, (0, 0))
    assert len(line.before(second, GPUS)) == 1
    os.link(second.path, tmp_path / "link.waiting")
    assert len(line.read()) == 2
    assert len(line.before(first, GPUS)) == 0
    for place in (first, second):
        place.leave()


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
