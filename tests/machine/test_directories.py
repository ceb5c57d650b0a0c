"""The folder of a cluster, and nobody else's."""

import fcntl
import os
import subprocess
import sys

from users import ANNA, as_root

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
