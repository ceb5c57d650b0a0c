"""Leases in a directory of all users, and the record of the use of GPUs."""

import asyncio
import fcntl
import json
import os
import re
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest
from helpers import fake_gpu_environment, wait_until
from traitlets.config import Config
from users import ANNA, BERT, SINCE, UUID, as_root, lease_registry, process_of

from jupyter_gpudask.errors import ClusterStartError, GpuReservedError
from jupyter_gpudask.launcher.cluster import ClusterProcess
from jupyter_gpudask.machine import lease_registry as registry_module
from jupyter_gpudask.machine.lease_registry import LEASE_DIRECTORY_VARIABLE, LeaseRegistry, Usage, gpu_hours
from jupyter_gpudask.machine.leases import LeaseFolder
from jupyter_gpudask.magics.settings import MagicsSettings
from jupyter_gpudask.protocol.spec import ClusterSpec
from jupyter_gpudask.server.commands import UsageApp

HOLD = """
with leases.lock():
    lease = leases.take([UUID], holder="secret.ipynb", kernel_id="k", share=False)
print("held", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def registry():
    with lease_registry() as registry:
        yield registry


@contextmanager
def held_by(uid, registry, prefix=()):
    with process_of(uid, registry, HOLD, prefix) as holder:
        assert holder.stdout.readline() == "held\n"
        yield holder


def run_as(uid, registry, script):
    with process_of(uid, registry, script) as process:
        output, _ = process.communicate(timeout=60)
        assert process.returncode == 0
        return output


@as_root
def test_a_user_sees_who_holds_a_gpu_and_since_when_but_not_the_notebook(registry, tmp_path):
    own = LeaseFolder(tmp_path, registry)
    with held_by(ANNA, registry):
        with own.lock() as leases:
            [theirs] = leases
            assert theirs.gpus == (UUID,)
            assert re.fullmatch(f"user nobody {SINCE}", theirs.holder)
            assert (theirs.kernel_id, theirs.pid, theirs.share) == ("", 0, False)
            mine = own.take(["GPU-1"], holder="mine.ipynb", kernel_id="m", share=True)
        assert sorted(lease.holder[:9] for lease in own.read()) == ["mine.ipyn", "user nobo"]
        seen = run_as(BERT, registry, "print([(lease.holder, lease.gpus) for lease in leases.read()])")
        assert re.search(rf"'user nobody {SINCE}', \('GPU-0", seen)
        assert re.search(rf"'user root {SINCE}', \('GPU-1", seen)
        assert "ipynb" not in seen + "".join(path.read_text() for path in registry.path.iterdir())
        with own.lock():
            mine.rename("renamed.ipynb")
        assert sorted(lease.holder[:9] for lease in own.read()) == ["renamed.i", "user nobo"]
        mine.release()
        assert [lease.gpus for lease in own.read()] == [(UUID,)]
    assert own.read() == []


@as_root
def test_nobody_waits_while_the_files_of_others_are_read(registry, monkeypatch):
    def pread(*arguments):
        read.append(arguments)
        return original(*arguments)

    read, original = [], os.pread
    monkeypatch.setattr(os, "pread", pread)
    with held_by(ANNA, registry):
        with registry.lock():
            assert len(read) == 1
            assert [lease.gpus for lease in registry.read()] == [(UUID,)]
            assert len(read) == 1
        registry.read()
        assert len(read) == 2


ATTACK = """
[theirs] = registry.glob("*.lease")
def denied(action):
    try:
        action()
    except PermissionError:
        return True
mine = registry / "mine"
mine.write_text("{}")
print([denied(action) for action in (
    theirs.unlink,
    lambda: theirs.write_text("{}"),
    lambda: theirs.rename(registry / "moved"),
    lambda: mine.replace(theirs),
    lambda: theirs.chmod(0o666),
)])
file = os.open(theirs, os.O_RDONLY)
fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)  # theirs is not this kind of lock
(registry / "link.lease").symlink_to(theirs)
os.mkfifo(registry / "pipe.lease")
(registry / "folder.lease").mkdir()
(registry / "copy.lease").write_text(theirs.read_text())
for number, content in enumerate(["", "[]", "{}", "x" * 100_000, "[" * 60_000, json.dumps(
    {"gpus": [UUID], "share": False, "since": 1e300}
), json.dumps({"gpus": UUID, "share": 3, "since": "now"})]):
    kept = (registry / f"bad-{number}.lease").open("w")
    kept.write(content)
    kept.flush()
    fcntl.lockf(kept, fcntl.LOCK_EX)
    globals()[f"kept_{number}"] = kept
print("done", flush=True)
sys.stdin.read()
"""


@as_root
def test_a_user_can_neither_break_nor_forge_nor_prolong_the_lease_of_another(registry, tmp_path):
    own = LeaseFolder(tmp_path, registry)
    with held_by(ANNA, registry) as holder, process_of(BERT, registry, ATTACK) as attacker:
        assert attacker.stdout.readline() == f"{[True] * 5}\n"
        assert attacker.stdout.readline() == "done\n"
        [lease] = own.read()
        assert lease.holder.startswith("user nobody since ")
        holder.kill()
        holder.wait()
        assert own.read() == []
        with own.lock() as leases:
            assert leases == []
    claimed = json.dumps({"gpus": [UUID], "share": False, "since": 0, "uid": ANNA, "holder": "user nobody"})
    forge = f"""
kept = (registry / "forged.lease").open("w")
kept.write({claimed!r})
kept.flush()
fcntl.lockf(kept, fcntl.LOCK_EX)
print("done", flush=True)
sys.stdin.read()
"""
    with process_of(BERT, registry, forge) as forger:
        assert forger.stdout.readline() == "done\n"
        [lease] = own.read()
        assert re.fullmatch(rf"user {BERT} since \d\d:\d\d of 19\d\d-\d\d-\d\d", lease.holder)


FLOOD = """
first = registry / "first.lease"
kept = []
for number in range(1500):
    kept.append((first if number == 0 else registry / f"{number}.lease").open("w"))
    kept[-1].write(json.dumps({"gpus": [UUID], "share": False, "since": 0}) + " " * (number % 2 * 50_000))
    kept[-1].flush()
    fcntl.lockf(kept[-1], fcntl.LOCK_EX)
for number in range(2000):
    os.link(first, registry / f"link-{number}.lease")
    (registry / f"unlocked-{number}.lease").touch()
print("done", flush=True)
sys.stdin.read()
"""
MORE_FILES = "import resource\nresource.setrlimit(resource.RLIMIT_NOFILE, (4000, 4000))\n"


@as_root
def test_neither_links_nor_many_nor_large_files_of_one_user_slow_the_starts_of_others(registry, tmp_path, monkeypatch):
    own = LeaseFolder(tmp_path, registry)
    opened = []
    os_open = os.open
    with held_by(ANNA, registry), process_of(BERT, registry, FLOOD, imports=MORE_FILES) as flooder:
        assert flooder.stdout.readline() == "done\n"
        monkeypatch.setattr(os, "open", lambda path, *options, **more: opened.append(path) or os_open(path, *options))
        with own.lock() as leases:
            opened_for_a_start = len(opened)
        monkeypatch.undo()
        holders = [lease.holder.split()[1] for lease in leases]
        assert holders.count("nobody") == 1
        assert holders.count(str(BERT)) == 128  # of the 256 files that count, half are too large
        assert opened_for_a_start < 500


CONTAINER = ("unshare", "--pid", "--fork")  # process ids of its own


@as_root
@pytest.mark.parametrize("prefix", [(), CONTAINER], ids=["same pids", "other pids"])
def test_a_lease_ends_with_its_process_and_its_owner_removes_the_file(registry, tmp_path, prefix):
    if prefix and subprocess.run([*prefix, "true"], capture_output=True, check=False).returncode:
        pytest.skip("this machine lets no process have process ids of its own")
    own = LeaseFolder(tmp_path, registry)
    with held_by(ANNA, registry, prefix) as holder:
        assert len(own.read()) == 1
        for process in [*psutil.Process(holder.pid).children(), holder]:
            process.kill()
        wait_until(lambda: own.read() == [], 60)
        assert len(list(registry.path.iterdir())) == 1
    run_as(ANNA, registry, "with leases.lock() as found: assert found == []")
    assert list(registry.path.glob("*.lease")) == []


def test_a_lease_of_the_same_user_without_its_own_folder_counts_too(registry, tmp_path):
    """As in two containers that share the directory, and not the home."""
    first, second = (LeaseFolder(tmp_path / name, registry) for name in ("first", "second"))
    with first.lock():
        lease = first.take(["GPU-0"], holder="a.ipynb", kernel_id="k", share=False)
    assert [found.holder for found in first.read()] == ["a.ipynb"]
    assert [found.holder.split()[0] for found in second.read()] == ["user"]
    lease.release()
    assert (first.read(), second.read(), list(registry.path.iterdir())) == ([], [], [])


def test_a_kernel_without_a_server_has_the_directory_of_its_own_settings(registry, monkeypatch):
    monkeypatch.setenv(LEASE_DIRECTORY_VARIABLE, "")
    assert LeaseRegistry.from_environment() is None
    MagicsSettings(config=Config(GpuDask={"lease_directory": str(registry.path)}))
    assert LeaseRegistry.from_environment().path == registry.path


def test_a_directory_that_cannot_hold_leases_is_refused_with_the_reason(registry, tmp_path, monkeypatch):
    def problem(path):
        with pytest.raises(OSError) as raised, LeaseFolder(tmp_path / "own", LeaseRegistry(path)).lock():  # noqa: PT011
            pass
        assert LeaseFolder(tmp_path / "own", LeaseRegistry(path)).place_of(raised.value) == path
        return raised.value.strerror

    assert problem(tmp_path / "none") == "No such file or directory"
    assert problem(Path("relative")) == "it is not an absolute path"
    (tmp_path / "file").touch()
    assert problem(tmp_path / "file") == "Not a directory"
    registry.path.chmod(0o777)
    assert problem(registry.path) == "it is not sticky, so that others can remove leases"
    registry.path.chmod(0o1777)
    monkeypatch.setattr(registry_module, "_LOCK_TIMEOUT", 0.2)
    directory = os.open(registry.path, os.O_RDONLY)
    try:
        fcntl.flock(directory, fcntl.LOCK_EX)
        assert problem(registry.path) == "another process has locked it for 0 s"
    finally:
        os.close(directory)


GPUS = ["GPU-0", "GPU-00000000-1111-2222-3333-444444444444"]  # the second one is that of `tests/fake_gpus`
WAIT = """
from jupyter_gpudask.machine.leases import Waiting, WaitingLine
place = leases.line.enter(["GPU-0", "GPU-00000000-1111-2222-3333-444444444444"])
print("waits", flush=True)
sys.stdin.read()
"""
PUSH_IN = """
from jupyter_gpudask.machine.leases import Waiting, WaitingLine
[first] = registry.glob("*.waiting")
refused = []
for action in (first.unlink, lambda: first.chmod(0o666), lambda: os.utime(first), lambda: first.rename(registry / "a")):
    try:
        action()
    except PermissionError:
        refused.append(True)
place = leases.line.enter(["GPU-0"])
os.utime(place.path, (0, 0))
print(refused, len(leases.line.before(place, ["GPU-0"])), flush=True)
sys.stdin.read()
"""


@as_root
def test_users_stand_in_one_line_and_cannot_push_in(registry, tmp_path):
    own = LeaseFolder(tmp_path, registry)
    with process_of(BERT, registry, WAIT) as first:
        assert first.stdout.readline() == "waits\n"
        with process_of(ANNA, registry, PUSH_IN) as second:
            assert second.stdout.readline() == f"{[True] * 4} 1\n"
            mine = own.line.enter(GPUS)
            assert [waiting.lease.uid for waiting in own.line.before(mine, GPUS)] == [BERT, ANNA]
            assert re.fullmatch(f"user {BERT} {SINCE}", own.line.before(mine, GPUS)[0].description)
            first.kill()
            first.wait()
            assert [waiting.lease.uid for waiting in own.line.before(mine, GPUS)] == [ANNA]
        mine.leave()
    assert own.line.read() == []


@as_root
@pytest.mark.parametrize(
    ("script", "words"),
    [
        (HOLD, rf"GPU 0 is reserved by user nobody {SINCE}\. .* ask its user"),
        (WAIT, r"Others wait for these GPUs, first in line: user \w+ since"),
    ],
)
def test_a_start_is_refused_while_another_user_holds_its_gpu_or_waits_for_it(registry, monkeypatch, script, words):
    monkeypatch.setenv(LEASE_DIRECTORY_VARIABLE, str(registry.path))

    async def start():
        await ClusterProcess.start(ClusterSpec.parse({"gpus": 1}), environment=fake_gpu_environment(FAKE_GPUS="1"))

    with process_of(ANNA, registry, script) as other:
        assert other.stdout.readline() in ("held\n", "waits\n")
        with pytest.raises(GpuReservedError, match=words):
            asyncio.run(start())


def usage_records(registry, capsys):
    app = UsageApp()
    app.initialize([f"--lease-directory={registry.path}", "--json"])
    app.start()
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def usage_table(registry, since):
    command = [sys.executable, "-m", "jupyter", "gpudask", "usage", f"--lease-directory={registry.path}"]
    command += [f"--since={since}"]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=120).stdout.splitlines()


HOLD_TWICE = """
import time
for reason in ("idle", ""):
    with leases.lock():
        lease = leases.take([UUID], holder="secret.ipynb", kernel_id="k", share=False)
    if reason:
        time.sleep(0.2)
        lease.release(reason)
print("held", flush=True)
sys.stdin.read()
"""
ATTACK_ON_USAGE = """
def denied(action):
    try:
        action()
    except PermissionError:
        return True
[theirs] = registry.glob("65534-*.usage")
line = json.dumps({"gpus": [UUID], "since": 0, "until": 3600, "reason": "stopped", "uid": 65534})
(registry / "65534-forged.usage").write_text(line + "\\n" + "x" * 100_000 + '\\n[]\\n{"gpus": 3}\\n')
(registry / "65534-link.usage").symlink_to(theirs)
os.mkfifo(registry / "65534-pipe.usage")
print([denied(action) for action in (
    theirs.unlink, theirs.read_text, lambda: theirs.write_text(""), lambda: theirs.rename(registry / "moved"),
)])
"""


@as_root
def test_root_reads_who_reserved_gpus_and_why_it_ended_and_no_user_forges_the_record_of_another(registry, capsys):
    with process_of(ANNA, registry, HOLD_TWICE) as anna:
        assert anna.stdout.readline() == "held\n"
        with process_of(BERT, registry, ATTACK_ON_USAGE) as bert:
            assert bert.communicate(timeout=120)[0] == f"{[True] * 4}\n"
        records = usage_records(registry, capsys)
        assert [(each["user"], each["reason"]) for each in records] == [
            (str(BERT), "stopped"),
            ("nobody", "idle"),
            ("nobody", ""),
        ]
        assert records[1]["gpus"] == [UUID]
        assert 0.2 <= records[1]["until"] - records[1]["since"] < 60
        assert records[2]["until"] is None
        anna.kill()
        anna.wait()
        [ended] = [each for each in registry.usage() if each.reason == "process ended"]
        assert (ended.uid, ended.until - ended.since < 1) == (ANNA, True)  # when it was last seen alive
    with process_of(
        ANNA,
        registry,
        "with leases.lock(): pass\nprint([each.reason for each in registry_usage()])",
        imports="registry_usage = lambda: leases._registry.usage()\n",
    ) as anna:
        assert anna.communicate(timeout=120)[0] == "['idle', 'process ended']\n"
    assert list(registry.path.glob("*.lease")) == []
    assert ended in registry.usage()
    assert "secret" not in "".join(path.read_text() for path in registry.path.glob("6*.usage") if path.is_file())
    table = usage_table(registry, "1970-01-01T00:30")
    assert [line.split() for line in table[:2]] == [["User", "GPU", "hours", "Clusters"], [str(BERT), "0.50", "1"]]
    assert re.fullmatch(r"nobody +0\.00 +2", table[2])


def test_gpu_hours_count_a_gpu_once_that_clusters_of_one_user_share():
    records = [
        Usage(1, ("a", "b"), 0, 3600, "idle"),
        Usage(1, ("a",), 1800, 7200, ""),
        Usage(1, ("a",), 2000, 2500, ""),
        Usage(2, ("a",), 0, 3600, ""),
    ]
    assert gpu_hours(records) == {1: 3.0, 2: 1.0}
    assert gpu_hours(records, since=1800) == {1: 2.0, 2: 0.5}


def test_a_lease_shows_when_its_process_was_last_alive(registry, tmp_path, monkeypatch):
    monkeypatch.setattr(registry_module, "_INTERVAL", 0.05)
    folder = LeaseFolder(tmp_path, registry)
    with folder.lock():
        lease = folder.take([UUID], holder="a.ipynb", kernel_id="k", share=False)
    [path] = registry.path.glob("*.lease")
    os.utime(path, (0, 0))
    wait_until(lambda: time.time() - path.stat().st_mtime < 60, 60)
    lease.release()
    assert registry.usage() == []


def test_a_full_disk_does_not_keep_a_lease_from_being_released(registry, tmp_path, monkeypatch, caplog):
    def full(*_):
        raise OSError(28, "No space left on device")

    folder = LeaseFolder(tmp_path, registry)
    with folder.lock():
        lease = folder.take([UUID], holder="a.ipynb", kernel_id="k", share=False)
    monkeypatch.setattr("jupyter_gpudask.machine.lease_registry.append_usage", full)
    lease.release("stopped")
    assert folder.read() == []
    assert "The use of the GPUs cannot be recorded" in caplog.text


@pytest.mark.cluster
async def test_the_record_says_why_a_cluster_ended(registry):
    environment = fake_gpu_environment(FAKE_GPUS="1", **{LEASE_DIRECTORY_VARIABLE: str(registry.path)})

    async def start(**options):
        spec = ClusterSpec.parse({"gpus": 1} | options)
        return await ClusterProcess.start(spec, path=sys.path, environment=environment)

    cluster = await start()
    assert [each.reason for each in registry.usage()] == [""]
    await cluster.close("lifetime")
    cluster = await start()
    cluster._stream.close()  # as the end of the parent does
    await asyncio.wait_for(cluster._reading, 60)
    await cluster.close()
    with pytest.raises(ClusterStartError):
        await start(start_timeout=0.01)
    assert [each.reason for each in registry.usage()] == ["lifetime", "parent ended", "failed"]
    assert {each.uid for each in registry.usage()} == {os.geteuid()}
