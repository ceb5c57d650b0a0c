"""The directories of clusters, and the end of processes with their parents."""

import ctypes
import fcntl
import os
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
from helpers import slowdown, wait_until
from users import ANNA, as_root

from jupyter_gpudask.machine import directories
from jupyter_gpudask.machine.directories import ClusterDirectory, remove_stale_directories


def test_a_folder_is_removed_when_its_process_is_gone_and_not_before(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    mine = tmp_path / "jupyter-gpudask-of-the-user"
    mine.mkdir()
    (mine / "model.bin").write_text("precious")
    script = (
        "import os; from jupyter_gpudask.machine.directories import ClusterDirectory\n"
        "print(ClusterDirectory().path, flush=True); os._exit(9)"
    )
    environment = {"TMPDIR": str(tmp_path), "PATH": "", "PYTHONPATH": ":".join(sys.path)}
    command = [sys.executable, "-c", script]
    dead = subprocess.run(command, env=environment, capture_output=True, text=True, check=False).stdout.strip()
    assert dead.startswith(str(tmp_path))
    directory = ClusterDirectory()
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([mine.name, directory.path.name])
    remove_stale_directories()
    assert directory.logs.is_dir()
    directory.remove()
    assert [path.name for path in tmp_path.iterdir()] == [mine.name]


def test_a_folder_that_is_removed_before_it_is_locked_is_made_anew(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    flock, others = fcntl.flock, [remove_stale_directories]

    def flock_after_another_process(lock, how):
        if how == fcntl.LOCK_EX and others:
            others.pop()()
        flock(lock, how)

    monkeypatch.setattr(fcntl, "flock", flock_after_another_process)
    directory = ClusterDirectory()
    assert not others
    remove_stale_directories()
    assert list(tmp_path.iterdir()) == [directory.path]
    directory.remove()


def unlocked(place, name):
    """A directory such as a process that was killed leaves behind."""
    folder = place / name
    folder.mkdir()
    (folder / "in-use.lock").touch()
    return folder


@as_root
def test_a_folder_of_another_user_is_left_alone(tmp_path):
    folder = unlocked(tmp_path, "jupyter-gpudask-abcdefgh")
    os.chown(folder, ANNA, ANNA)
    remove_stale_directories(tmp_path)
    assert folder.is_dir()
    os.chown(folder, os.geteuid(), os.getegid())
    remove_stale_directories(tmp_path)
    assert not folder.exists()


def test_a_folder_of_a_host_whose_name_begins_like_that_of_this_one_is_left_alone(tmp_path):
    other, own = (unlocked(tmp_path, f"jupyter-gpudask-{name}") for name in ("gpu-2-abcdefgh", "gpu-abcdefgh"))
    remove_stale_directories(tmp_path, "gpu")
    assert list(tmp_path.iterdir()) == [other]
    assert not own.exists()


def fill(folder, files):
    """Files such as Dask spills, and a link and an empty folder of a user."""
    scratch = folder / "dask-scratch-space" / "worker"
    scratch.mkdir(parents=True)
    for number in range(files):
        (scratch / str(number)).touch()
    (scratch / "link").symlink_to(folder.parent)
    (scratch / "empty").mkdir()


def test_a_removal_that_takes_long_goes_on_in_the_background(tmp_path, monkeypatch):
    monkeypatch.setattr(directories, "_REMOVAL_LIMIT", 0.0)
    kept = tmp_path / "kept"
    kept.touch()
    directory = ClusterDirectory(tmp_path)
    fill(directory.path, 1000)
    directory.remove()
    remove_stale_directories(tmp_path)  # which leaves it to the process that removes it
    wait_until(lambda: not directory.path.exists(), 60)
    assert list(tmp_path.iterdir()) == [kept]


def test_a_removal_that_is_cut_is_finished_by_the_next_start(tmp_path, monkeypatch):
    directory = ClusterDirectory(tmp_path)
    fill(directory.path, 100)
    unlink, left = os.unlink, [*range(50)]

    def unlink_until_it_is_killed(*arguments, **options):
        if not left:
            raise KeyboardInterrupt
        left.pop()
        unlink(*arguments, **options)

    with monkeypatch.context() as patch:
        patch.setattr(os, "unlink", unlink_until_it_is_killed)
        with pytest.raises(KeyboardInterrupt):
            directory.remove()
    assert directory.path.exists()
    for descriptor in Path("/proc/self/fd").iterdir():  # as Linux closes those of a process that was killed
        if descriptor.resolve() == directory.path / "in-use.lock":
            os.close(int(descriptor.name))
    remove_stale_directories(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_an_old_folder_without_a_lock_is_removed_if_a_cluster_has_made_it(tmp_path):
    def made(name, entry, mode=0o700, age=3600):
        folder = tmp_path / f"jupyter-gpudask-{name}"
        folder.mkdir(mode)
        folder.joinpath(entry).mkdir()
        then = time.time() - age
        os.utime(folder, (then, then))
        return folder

    old = made("leftover", "dask-scratch-space")
    kept = {made("notebook", "my results"), made("readable", "logs", mode=0o755), made("creating", "logs", age=0)}
    remove_stale_directories(tmp_path)
    assert not old.exists()
    assert {*tmp_path.iterdir()} == kept


_PR_SET_CHILD_SUBREAPER = 36  # prctl(2)

LEADER = """
import subprocess, sys, time
from jupyter_gpudask.machine.lifeline import end_session
grandparent = "import signal, subprocess, sys;" \\
    "c = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)']);" \\
    "print(c.pid, flush=True); signal.pause()"  # and does not reap it
child = subprocess.Popen([sys.executable, "-c", grandparent], stdout=subprocess.PIPE, text=True)
grandchild = int(child.stdout.readline())
began = time.monotonic()
end_session()
print(child.pid, grandchild, time.monotonic() - began)
"""


@pytest.fixture
def reaps_nothing():
    """This process adopts orphans, and leaves them zombies, as the first process of some containers does."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_CHILD_SUBREAPER, 1):
        pytest.skip("orphans cannot be adopted here")
    yield
    libc.prctl(_PR_SET_CHILD_SUBREAPER, 0)


@pytest.mark.usefixtures("reaps_nothing")
def test_a_session_is_ended_without_waiting_for_somebody_to_reap_its_orphans():
    done = subprocess.run(
        [sys.executable, "-c", LEADER], start_new_session=True, capture_output=True, text=True, check=True, timeout=60
    )
    child, grandchild, seconds = done.stdout.split()
    assert not psutil.pid_exists(int(child))
    assert psutil.Process(int(grandchild)).status() == psutil.STATUS_ZOMBIE
    os.waitpid(int(grandchild), 0)
    assert float(seconds) < 1.5 * slowdown()
