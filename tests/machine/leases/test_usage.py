"""The record of who held which GPUs: what users write, cannot forge, and what root reads."""

import asyncio
import json
import os
import re
import subprocess
import sys
import time

import pytest
from helpers import fake_gpu_environment, wait_until
from users import ANNA, BERT, UUID, as_root, lease_registry, process_of

from jupyter_gpudask.errors import ClusterStartError
from jupyter_gpudask.launcher.cluster_process import ClusterProcess
from jupyter_gpudask.machine import lease_registry as usage
from jupyter_gpudask.machine.lease_registry import LEASE_DIRECTORY_VARIABLE, Usage, gpu_hours
from jupyter_gpudask.machine.leases import LeaseFolder
from jupyter_gpudask.protocol import ClusterSpec


@pytest.fixture
def registry():
    with lease_registry() as registry:
        yield registry


def run_usage(registry, *arguments):
    command = [sys.executable, "-m", "jupyter", "gpudask", "usage", f"--lease-directory={registry.path}", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=120).stdout


HOLD_TWICE = """
import time
for reason in ("idle", ""):
    with leases.locked():
        lease = leases.take([UUID], holder="secret.ipynb", kernel_id="k", share=False)
    if reason:
        time.sleep(0.2)
        lease.release(reason)
print("held", flush=True)
sys.stdin.read()
"""
ATTACK = """
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
def test_root_reads_who_held_gpus_and_why_it_ended_and_no_user_forges_the_record_of_another(registry):
    with process_of(ANNA, registry, HOLD_TWICE) as anna:
        assert anna.stdout.readline() == "held\n"
        with process_of(BERT, registry, ATTACK) as bert:
            assert bert.communicate(timeout=120)[0] == f"{[True] * 4}\n"
        records = [json.loads(line) for line in run_usage(registry, "--json").splitlines()]
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
        "with leases.locked(): pass\nprint([each.reason for each in registry_usage()])",
        imports="registry_usage = lambda: leases._registry.usage()\n",
    ) as anna:
        assert anna.communicate(timeout=120)[0] == "['idle', 'process ended']\n"
    assert list(registry.path.glob("*.lease")) == []
    assert ended in registry.usage()
    assert "secret" not in "".join(path.read_text() for path in registry.path.glob("6*.usage") if path.is_file())
    table = run_usage(registry, "--since=1970-01-01T00:30").splitlines()
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
    monkeypatch.setattr(usage, "_INTERVAL", 0.05)
    folder = LeaseFolder(tmp_path, registry)
    with folder.locked():
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
    with folder.locked():
        lease = folder.take([UUID], holder="a.ipynb", kernel_id="k", share=False)
    monkeypatch.setattr("jupyter_gpudask.machine.lease_registry.append_usage", full)
    lease.release("stopped")
    assert folder.read() == []
    assert "The use of the GPUs cannot be recorded" in caplog.text


@pytest.mark.cluster
def test_the_record_says_why_a_cluster_ended(registry):
    environment = fake_gpu_environment(FAKE_GPUS="1", **{LEASE_DIRECTORY_VARIABLE: str(registry.path)})

    async def start(**settings):
        spec = ClusterSpec.parse({"gpus": 1})
        return await ClusterProcess.start(spec, path=sys.path, environment=environment | settings)

    async def run():
        cluster = await start()
        assert [each.reason for each in registry.usage()] == [""]
        await cluster.close("lifetime")
        cluster = await start()
        cluster._stream.close()  # as the end of the parent does
        await asyncio.wait_for(cluster._reading, 60)
        await cluster.close()
        with pytest.raises(ClusterStartError):
            await start(FAKE_BROKEN_PACKAGE="cudf")

    asyncio.run(run())
    assert [each.reason for each in registry.usage()] == ["lifetime", "parent ended", "failed"]
    assert {each.uid for each in registry.usage()} == {os.geteuid()}
