"""Two users of a JupyterHub share the GPUs of a machine, and neither reaches what the other has."""

import os
import re
import shutil
import stat
import tempfile
from pathlib import Path

import psutil
import pytest
from helpers import command_line, thread_for_cells, wait_until
from hub import PROGRAMS, USERS, Hub

from jupyter_gpudask.comm.unix import path_of

pytestmark = [pytest.mark.cluster, pytest.mark.engines, pytest.mark.timeout(900)]

LIMIT = 120.0
CELL = "%%gpudask --dataframe pandas\nimport dask.array as da\nfloat(da.ones((40, 40), chunks=10).sum().compute())"


@pytest.fixture(scope="module")
def hub():
    pytest.importorskip("jupyterhub", reason="run make test-engines")
    if not (PROGRAMS / "configurable-http-proxy").exists():
        pytest.skip("configurable-http-proxy is missing: run make test-engines")
    if os.geteuid() != 0:
        pytest.skip("only root can start servers of several users")
    folder = Path(tempfile.mkdtemp(prefix="hub-", dir="/tmp"))
    folder.chmod(0o755)
    try:
        hub = Hub(folder)
        try:
            yield hub
        finally:
            hub.stop()
        wait_until(lambda: not processes_of(*USERS), 60)
    finally:
        shutil.rmtree(folder)


def processes_of(*users):
    """The processes of these users, by command line."""
    numbers = [USERS[user] for user in users]
    found = {}
    for process in psutil.process_iter():
        try:
            if process.uids().real in numbers and process.status() != psutil.STATUS_ZOMBIE:
                found[process.pid] = " ".join(command_line(process))
        except psutil.NoSuchProcess:
            pass
    return found


def supervisors_of(user):
    return [pid for pid, line in processes_of(user).items() if "-m jupyter_gpudask.supervisor" in line]


# Run by a user, with what belongs to another one.
ATTACK = """
import os, pathlib, signal, socket
def refused(action):
    try:
        action()
    except PermissionError:
        return True
    return False
def connects(path):
    with socket.socket(socket.AF_UNIX) as attempt:
        attempt.connect(path)
[refused(lambda: connects({scheduler!r})), refused(lambda: os.listdir({directory!r})),
 refused(lambda: os.listdir({home!r})), refused(lambda: os.kill({supervisor}, signal.SIGTERM)),
 refused(lambda: pathlib.Path({lease!r}).unlink())]
"""


def test_each_user_has_an_own_server_and_cluster_and_none_reaches_that_of_the_other(hub):
    anna, bert = (hub.server_of(user) for user in USERS)
    mine, second, theirs = anna.kernel(), anna.kernel(), bert.kernel()
    held = []
    for server, kernel in ((anna, mine), (bert, theirs)):
        kernel.ok("%load_ext jupyter_gpudask")
        kernel.ok("started = %gpudask start --gpus 1", timeout=LIMIT)
        assert kernel.ok(CELL, timeout=LIMIT).value == "1600.0"
        held += server.cluster(kernel)["gpus"]
    assert len(set(held)) == 2
    [theirs_pid] = supervisors_of("bert")
    assert theirs_pid == bert.cluster(theirs)["pid"]
    assert len(supervisors_of("anna")) == 1

    since = r"since \d\d:\d\d( of [\d-]+)?"
    second.ok("%load_ext jupyter_gpudask")
    refused = second.run("%gpudask start --gpus 1", timeout=LIMIT)
    assert re.search(f"is reserved by user bert {since}", refused.error_value)
    holders = {holder["name"] for gpu in anna.fetch("gpus").body["gpus"] for holder in gpu["holders"]}
    assert any(re.fullmatch(f"user bert {since}", holder) for holder in holders)
    assert {each["kernel_id"] for each in anna.fetch("clusters").body["clusters"]} == {mine.id, second.id}

    as_anna = {"Authorization": f"token {anna.token}"}
    for path in ("gpus", "clusters", f"clusters/{theirs.id}", f"clusters/{theirs.id}/logs"):
        assert bert.fetch(path).status == 200
        assert bert.fetch(path, headers=as_anna).status == 403
    assert bert.fetch(f"clusters/{theirs.id}", "DELETE", headers=as_anna).status == 403
    assert bert.fetch(f"dashboard/{theirs.id}/status", prefix="gpudask/").status == 200
    assert bert.fetch(f"dashboard/{theirs.id}/status", prefix="gpudask/", headers=as_anna).status == 403

    address = theirs.ok("started.client.scheduler.address").value.strip("'")
    assert address.startswith("unix://")
    scheduler = str(path_of(address.removeprefix("unix://")))
    assert stat.S_ISSOCK(Path(scheduler).stat().st_mode)
    [lease] = [path for path in (hub.folder / "leases").glob("*.lease") if path.stat().st_uid == USERS["bert"]]
    attack = ATTACK.format(
        scheduler=scheduler,
        directory=str(Path(scheduler).parent),
        home=str(bert.home),
        supervisor=theirs_pid,
        lease=str(lease),
    )
    assert mine.ok(attack).value == str([True] * 5)
    assert theirs.ok(CELL, timeout=LIMIT).value == "1600.0"

    # Anna stands in the line, which Bert sees, until he gives his GPU back.
    def in_line(server):
        return [(start["user"], start["own"], start["count"]) for start in server.fetch("gpus").body["waiting"]]

    with thread_for_cells() as thread:
        waiting = thread.submit(second.ok, "%gpudask start --gpus 1 --wait", timeout=2 * LIMIT)
        wait_until(lambda: in_line(bert) or waiting.done(), LIMIT)
        [(user, is_own, count)] = in_line(bert)
        assert re.fullmatch(f"user anna {since}", user)
        assert (is_own, count) == (False, 1)
        [(own, *rest)] = in_line(anna)
        assert (bool(re.fullmatch(f"kernel python3 {since}", own)), *rest) == (True, True, 1)
        assert not waiting.done()
        theirs.disconnect()
        hub.stop_server_of("bert")
        said = str(waiting.result().displayed)
    assert "Waiting for GPUs at place 1 in line. " in said
    wait_until(lambda: not processes_of("bert"), 60)
    assert in_line(anna) == []
    assert set(anna.cluster(second)["gpus"]) | set(anna.cluster(mine)["gpus"]) == set(held)
    for kernel in (mine, second):
        kernel.disconnect()
