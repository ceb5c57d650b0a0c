"""The line of starts that wait for GPUs."""

import os
import subprocess
import sys

import pytest

from jupyter_gpudask.machine.waiting_line import WaitingLine

GPUS = ["GPU-0", "GPU-1"]

WAIT = """
import sys
from pathlib import Path
from jupyter_gpudask.machine.waiting_line import WaitingLine
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
