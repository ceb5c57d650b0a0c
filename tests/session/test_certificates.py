"""The commands of the documentation that make certificates and start a cluster with them."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from helpers import fake_gpu_environment, wait_until
from others import OthersCluster

from jupyter_gpudask.errors import ConnectError
from jupyter_gpudask.session.session import Session

PAGE = Path(__file__).parents[2] / "docs" / "many-machines.md"


def blocks(title):
    """The blocks of code of a section of the page."""
    section = PAGE.read_text().partition(f"\n## {title}\n")[2].partition("\n## ")[0]
    found = re.findall(r"^```\w*\n(.*?)^```$", section, flags=re.MULTILINE | re.DOTALL)
    return [block.replace("\\\n", "") for block in found]


def connected(session, target):
    try:
        session.connect(target, lambda: None)
    except ConnectError as error:
        if "has no workers" not in error.reason:
            raise
        return False
    return True


@pytest.mark.cluster
def test_the_commands_of_the_documentation_make_a_cluster_with_tls_whose_workers_listen_where_they_are_told(tmp_path):
    certificates, files, commands, connect = blocks("TLS")
    subprocess.run(["sh", "-ec", certificates], check=True, capture_output=True, cwd=tmp_path)
    assert {path.name for path in tmp_path.glob("*key.pem") if path.stat().st_mode & 0o77} == set()
    (tmp_path / "security.yaml").write_text(files)
    scheduler = shlex.split(commands.splitlines()[0])
    cluster = OthersCluster(tmp_path, *scheduler[2 : scheduler.index("--host")])
    session = Session()
    try:
        (worker, *_) = blocks("Ports and interfaces")
        assert shlex.split(commands.splitlines()[1]) == shlex.split(worker)[:7]
        local = worker.replace("tls://10.0.0.1:8786", cluster.address).replace("10.0.0.2", "127.0.0.2")
        log = cluster.run(sys.executable, *shlex.split(local)[1:], environment=fake_gpu_environment(FAKE_GPUS="2"))
        address, option, file = connect.split()[2:]
        assert (address, option) == ("tls://10.0.0.1:8786", "--security")
        target = {"address": cluster.address, "security": str(tmp_path / file)}
        wait_until(lambda: log.poll() is not None or connected(session, target), 120)
        assert log.poll() is None, cluster.logs()
        wait_until(lambda: len(session.state().workers) == 2, 60)
        workers = session.cluster.client.scheduler_info()["workers"]
        assert sorted(workers) == ["tls://127.0.0.2:9000", "tls://127.0.0.2:9001"]
        assert session.cluster.client.submit(sum, (1, 2)).result(timeout=60) == 3
    finally:
        session.disconnect()
        cluster.close()
