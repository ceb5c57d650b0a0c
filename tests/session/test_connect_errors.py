"""A connection that is not possible: one sentence each, within the start timeout, and nothing is left."""

import asyncio
import contextlib
import json
import socket
import struct
import subprocess
import sys
import threading

import dask.config
import psutil
import pytest
from distributed import Client, Security, get_worker
from helpers import command_line, fake_gpu_environment, wait_until
from others import OthersCluster
from users import ANNA, as_root

from jupyter_gpudask.errors import ConnectError, SpecError
from jupyter_gpudask.machine.unix_socket import short_name
from jupyter_gpudask.protocol.state import read_credentials
from jupyter_gpudask.session.joined_cluster import _dashboard
from jupyter_gpudask.session.joined_target import check_scheduler, locate, parse_target
from jupyter_gpudask.session.session import Session
from jupyter_gpudask.worker.command import main as start_workers


@contextlib.contextmanager
def listening(answer):
    """A server on a port of this machine that runs `answer` with each connection; its address."""
    server = socket.create_server(("127.0.0.1", 0))
    kept = []

    def serve():
        with contextlib.suppress(OSError):
            while True:
                connection, _ = server.accept()
                kept.append(connection)
                with contextlib.suppress(OSError):
                    answer(connection)

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield f"tcp://127.0.0.1:{server.getsockname()[1]}"
    finally:
        server.shutdown(socket.SHUT_RDWR)
        server.close()
        thread.join(30)
        for connection in kept:
            connection.close()


def check(**arguments):
    return asyncio.run(check_scheduler(parse_target(**arguments)))


@pytest.fixture(scope="module")
def credentials(tmp_path_factory):
    """Two sets of temporary credentials, as files of --security: with PEM texts, and with paths."""
    pytest.importorskip("cryptography")
    folder = tmp_path_factory.mktemp("credentials")
    for name in ("ours", "theirs"):
        security = Security.temporary()
        texts = {"ca": security.tls_ca_file, "certificate": security.tls_client_cert, "key": security.tls_client_key}
        (folder / f"{name}.json").write_text(json.dumps(texts))
        for key, text in texts.items():
            (folder / f"{name}-{key}.pem").write_text(text)
        paths = "".join(f"{key}: {name}-{key}.pem\n" for key in texts)
        (folder / f"{name}.yaml").write_text(paths)
    return folder


NOT_AN_ADDRESS = "'{}' is not the address of a scheduler. Type: %gpudask connect tcp://"


def test_arguments_that_are_wrong_are_one_sentence(tmp_path):
    for address in (
        "gpu-host", "tcp://gpu-host", "tcp://gpu-host:99999", "ucx://gpu-host:8786", "tcp://user:secret@host:1",
        "gateway://", "gateway://h/a/b", "unix://tmp/x:1", "unix:///tmp/x", "unix:///tmp/x:y",
    ):  # fmt: skip
        with pytest.raises(ConnectError) as raised:
            parse_target(address)
        assert str(raised.value).startswith(NOT_AN_ADDRESS.format(address))
    file = tmp_path / "scheduler.json"
    for content in ("", "[]", "{}", '{"address": 3}'):
        file.write_text(content)
        with pytest.raises(ConnectError, match="is not a scheduler file"):
            parse_target(scheduler_file=str(file))


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"address": "tcp://h:1", "start_timeout": "soon"}, "--start-timeout 'soon' is not allowed: give seconds"),
        ({"scheduler_file": "/no/file.json"}, "The scheduler file /no/file.json cannot be read: No such file"),
        (
            {"address": "gateway://name", "security": "file"},
            "gateway://name has credentials of its own. Leave out --security.",
        ),
        (
            {"address": "unix:///tmp/x:1", "security": "file"},
            "--security 'file' has credentials for TLS, and unix:///tmp/x:1 does not use TLS. Leave it out, or type: tls://H",
        ),
        ({"address": "tls://h:1"}, "A tls:// address needs credentials, and Dask's configuration has none."),
        ({"address": "tls://h:1", "security": "/no/file"}, "The file /no/file of --security cannot be read: No such"),
    ],
)
def test_options_that_do_not_fit_are_one_sentence(arguments, sentence):
    with pytest.raises((SpecError, ConnectError)) as raised:
        parse_target(**arguments)
    assert str(raised.value).startswith(sentence)


def test_the_files_of_credentials_are_checked_and_never_shown(tmp_path, credentials):
    file = tmp_path / "bad.yaml"
    for content, sentence in {
        "ca: [SECRET": "does not have the texts ca, certificate, key.",
        "ca: SECRET": "does not have the texts ca, certificate, key.",
        "ca: a.pem\ncertificate: b\nkey: c": "The file a.pem of --security cannot be read: No such file or directory.",
    }.items():
        file.write_text(content)
        with pytest.raises(ConnectError) as raised:
            parse_target("tls://h:1", security=str(file))
        assert sentence in str(raised.value)
        assert "SECRET" not in str(raised.value)
    with pytest.raises(ConnectError, match=r"does not use TLS\. Leave it out, or type: tls://h:1"):
        parse_target("tcp://h:1", security=str(credentials / "ours.json"))
    text = parse_target("tls://h:1", security=str(credentials / "ours.json"))
    assert "PRIVATE" in text.security.tls_client_key
    assert "PRIVATE" not in repr(text) + repr(text.security)
    path = parse_target("tls://h:1", security=str(credentials / "ours.yaml"))
    assert path.security.tls_client_key == text.security.tls_client_key


def test_the_dashboard_is_at_the_host_of_the_scheduler_and_nothing_but_a_port_is_taken_from_its_answer():
    target = parse_target("tcp://10.0.0.1:8786")
    assert _dashboard(target, 8787) == "http://10.0.0.1:8787/status"
    assert _dashboard(parse_target("tcp://[::1]:8786"), 8787) == "http://[::1]:8787/status"
    with dask.config.set({"distributed.scheduler.dashboard.tls.cert": "cert.pem"}):
        assert _dashboard(target, 8787) == "https://10.0.0.1:8787/status"
    assert {_dashboard(target, port) for port in (None, "8787", "8787@evil.example", ())} == {""}


def test_the_address_is_that_of_dasks_configuration_if_none_is_given():
    with dask.config.set({"scheduler-address": "tcp://10.0.0.1:8786"}):
        assert parse_target().address == "tcp://10.0.0.1:8786"
        assert parse_target("tcp://10.0.0.2:8786").address == "tcp://10.0.0.2:8786"
    with dask.config.set({"scheduler-address": "10.0.0.1"}), pytest.raises(ConnectError, match=r"'10.0.0.1' is not"):
        parse_target()
    with dask.config.set({"scheduler-address": None}), pytest.raises(ConnectError, match="There is no address"):
        parse_target()


def test_a_cluster_of_dask_gateway_without_its_package_is_a_sentence(monkeypatch):
    monkeypatch.setitem(sys.modules, "dask_gateway", None)
    with pytest.raises(ConnectError, match=r"gateway://a needs dask-gateway, .*Type: %pip install .*\[gateway\]"):
        asyncio.run(locate(parse_target("gateway://a")))


@pytest.mark.parametrize(
    ("arguments", "status", "sentence"),
    [
        ("--cpu --host 127.0.0.1", 2, "Give an address or --scheduler-file."),
        ("--cpu --scheduler-file a tcp://h:1", 2, "Give an address or --scheduler-file."),
        ("tls://h:1 --cpu --security /no/file", 1, "The file /no/file of --security cannot be read"),
    ],
)
def test_the_arguments_of_a_worker_that_are_wrong_are_one_sentence(arguments, status, sentence, capsys):
    with pytest.raises(SystemExit) as raised:
        start_workers(["worker", *arguments.split()])
    assert raised.value.code == status
    assert sentence in capsys.readouterr().err


def test_an_address_where_nothing_listens_is_one_sentence(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    with pytest.raises(ConnectError, match=f"tcp://127.0.0.1:{port} cannot be reached: .*refused"):
        check(address=f"tcp://127.0.0.1:{port}")
    file = tmp_path / "scheduler.json"
    file.write_text(json.dumps({"address": f"tcp://127.0.0.1:{port}", "id": "Scheduler-1"}))
    with pytest.raises(ConnectError, match=r"refused\. Check the address, .* a scheduler file may be stale\."):
        check(scheduler_file=str(file))


def test_a_socket_where_nothing_listens_is_one_sentence(tmp_path):
    address = f"unix://{tmp_path}:1"
    gone = f"No cluster listens at {address}: it has ended, or runs on another machine."
    with pytest.raises(ConnectError, match=gone):
        check(address=address)
    with socket.socket(socket.AF_UNIX) as left, short_name(tmp_path / "1") as name:
        left.bind(name)  # as of a scheduler that was killed
    with pytest.raises(ConnectError, match=gone):
        check(address=address)


OF_ANOTHER_USER = """
import asyncio, os
from jupyter_gpudask.errors import ConnectError
from jupyter_gpudask.session.joined_target import check_scheduler, parse_target
def check(folder):
    try:
        asyncio.run(check_scheduler(parse_target(f"unix://{{folder}}:1")))
    except ConnectError as error:
        return error
check("/nowhere")  # imports what another user could not
if {is_client}:
    os.setresuid({user}, {user}, {user})
print(check("{folder}"))
"""


@as_root
@pytest.mark.parametrize("is_client", [True, False], ids=["directory", "listener"])
def test_a_socket_of_another_user_is_one_sentence(short_directory, run_python, is_client):
    short_directory.chmod(0o700 if is_client else 0o777)
    script = OF_ANOTHER_USER.format(is_client=is_client, user=ANNA, folder=short_directory)
    listen = f"import os, socket; os.setresuid(*3 * [{0 if is_client else ANNA}]); s = socket.socket(socket.AF_UNIX)\n"
    listen += f"s.bind('{short_directory}/1'); s.listen(); print(flush=True); input()"
    command = [sys.executable, "-c", listen]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as listener:
        listener.stdout.readline()
        said = run_python(script)
        listener.communicate("\n")
    assert said.startswith(f"The cluster at unix://{short_directory}:1 belongs to another user. Start your own")


SILENT = r"The scheduler at tcp://\S+, or one of its workers, did not respond within 2 s\."
NO_SCHEDULER = r"What listens at tcp://\S+ does not answer as a Dask scheduler does\."


@pytest.mark.parametrize(
    ("said", "seconds", "sentence"),
    [
        (struct.pack("<Q", 100), 2, SILENT),
        (bytes(8), 60, NO_SCHEDULER),
        (b"SSH-2.0-OpenSSH_9.2p1\r\n", 60, NO_SCHEDULER),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", 60, NO_SCHEDULER),
    ],
    ids=["part of a message", "no message", "SSH", "HTTP"],
)
def test_what_hangs_or_is_no_scheduler_is_one_sentence(said, seconds, sentence):
    with listening(lambda connection: connection.sendall(said)) as address, pytest.raises(ConnectError, match=sentence):
        check(address=address, start_timeout=seconds)


HOSTILE = """
import os
from distributed.comm.tcp import TCP
from distributed.protocol import ToPickle

class Payload:
    def __reduce__(self):
        return os.mkdir, ({folder!r},)

def hostile(answer):
    def give(*arguments, **options):
        given = answer(*arguments, **options)
        packages = {{**given.get("packages", {{}}), "distributed": "2025.1.0"}}
        return {{**given, "packages": packages, "extra": ToPickle(Payload())}}
    return give

def dask_setup(scheduler):
    TCP.handshake_info = hostile(TCP.handshake_info)
    for operation in ("identity", "versions"):
        scheduler.handlers[operation] = hostile(scheduler.handlers[operation])
"""


@pytest.mark.cluster
def test_a_scheduler_cannot_run_code_in_the_kernel_before_its_id_its_versions_and_its_tls_are_checked(
    tmp_path, credentials
):
    folder, preload = tmp_path / "written by the scheduler", tmp_path / "hostile.py"
    preload.write_text(HOSTILE.format(folder=str(folder)))
    cluster = OthersCluster(tmp_path, "--preload", str(preload))
    stale = tmp_path / "stale.json"
    stale.write_text(json.dumps({"address": cluster.address, "id": "Scheduler-of-yesterday"}))
    secure = cluster.address.replace("tcp://", "tls://")
    try:
        for arguments, sentence in (
            ({"scheduler_file": str(cluster.file)}, r"and the scheduler has distributed 2025\.1\.0"),
            ({"scheduler_file": str(stale)}, "The scheduler file is stale: another scheduler now listens at tcp://"),
            (
                {"address": secure, "security": str(credentials / "ours.json")},
                f"^The scheduler at {secure} does not use TLS. Type: %gpudask connect tcp://",
            ),
        ):
            with pytest.raises(ConnectError, match=sentence):
                check(**arguments)
        assert not folder.exists(), "the kernel has unpickled something"
    finally:
        cluster.close()


@pytest.fixture(scope="module")
def tls(credentials, tmp_path_factory):
    """A scheduler with TLS and our credentials, with one worker on the CPU."""
    ca, certificate, key = (str(credentials / f"ours-{name}.pem") for name in ("ca", "certificate", "key"))
    options = ("--tls-ca-file", ca, "--tls-cert", certificate, "--tls-key", key)
    cluster = OthersCluster(tmp_path_factory.mktemp("tls"), "--protocol", "tls", *options)
    yield cluster
    cluster.close()


@pytest.mark.cluster
def test_credentials_that_do_not_fit_are_one_sentence(tls, credentials):
    plain = tls.address.replace("tls://", "tcp://")
    with pytest.raises(ConnectError) as raised:
        check(address=plain)
    assert (
        str(raised.value) == f"The scheduler at {plain} uses TLS. Type: %gpudask connect {tls.address} --security FILE"
    )
    with pytest.raises(ConnectError) as raised:
        check(address=tls.address, security=str(credentials / "theirs.json"))
    assert f"The scheduler at {tls.address} does not accept the certificates of " in str(raised.value)
    with pytest.raises(ConnectError, match=r"has no workers\. .*python -m jupyter_gpudask worker tls://"):
        check(address=tls.address, security=str(credentials / "ours.yaml"))


@pytest.mark.cluster
def test_workers_that_our_command_starts_are_joined_over_tls_and_left(tls, credentials):
    options = ("--security", str(credentials / "ours.json"), "--name", "one")
    command = (sys.executable, "-m", "jupyter_gpudask", "worker", tls.address, *options)
    worker = tls.run(*command, environment=fake_gpu_environment(FAKE_GPUS="1"))
    wait_until(lambda: worker.poll() is not None or has_workers(tls.address, credentials), 60)
    session = Session()
    cluster = session.connect({"address": tls.address, "security": str(credentials / "ours.yaml")}, lambda: None)
    try:
        assert cluster.ready.engine == "cuda"
        assert cluster.client.submit(sum, (1, 2)).result(timeout=30) == 3
        (worker,) = session.state().workers
        assert (worker.utilization, worker.device_memory_total, worker.host) == (37.0, 140 * 2**30, "127.0.0.1")
        assert worker.pool_used is not None, "a worker with our preload reports its pool"
        commands = [" ".join(command_line(process)) for process in psutil.process_iter()]
        secrets = read_credentials(str(credentials / "ours.json"))
        assert not [line for line in commands if any(text in line for text in (secrets.ca, secrets.key))]
        assert "PRIVATE" not in "".join(path.read_text() for path in tls.folder.glob("*.log"))
        assert "PRIVATE" not in repr(cluster.ready) + repr(vars(session))
    finally:
        assert session.disconnect() == tls.address
    assert session.cluster is None


def has_workers(address, credentials):
    with contextlib.suppress(ConnectError):
        return bool(check(address=address, security=str(credentials / "ours.json")))
    return False


def refuse(side, *operations, client):
    """Have the scheduler or its worker refuse operations, as by the setting `blocked-handlers`."""

    def block(dask_scheduler=None):
        server = dask_scheduler or get_worker()
        server.blocked_handlers = operations

    if side == "scheduler":
        client.run_on_scheduler(block)
    else:  # by a task, as the worker may refuse to run functions
        client.submit(block, pure=False).result(timeout=30)


@pytest.mark.cluster
def added_plugins(client):
    names = client.run_on_scheduler(
        lambda dask_scheduler: [*dask_scheduler.plugins, *dask_scheduler.worker_plugins],
    )
    return [name for name in names if "gpudask" in name]


def test_a_cluster_that_refuses_plugins_or_functions_is_not_joined_and_stays_as_it_was(tmp_path):
    environment = fake_gpu_environment(CUDA_VISIBLE_DEVICES="0")
    cluster = OthersCluster(tmp_path, environment=environment)
    session = Session()
    try:
        cluster.add_worker("refusing", environment=environment)
        with Client(cluster.address, set_as_default=False) as other:
            other.wait_for_workers(1, timeout=60)
            for side, operation in (
                ("scheduler", "register_scheduler_plugin"),
                ("scheduler", "broadcast"),
                ("worker", "plugin-add"),
                ("worker", "run"),
                ("scheduler", "run_function"),  # after which this test cannot change the scheduler any more
            ):
                refuse(side, operation, client=other)
                with pytest.raises(ConnectError) as refused:
                    session.connect({"address": cluster.address}, lambda: None)
                assert refused.value.reason.startswith(
                    f"At {cluster.address}, the {side} refuses the operation {operation}, "
                )
                assert refused.value.fix.endswith(f"remove it from distributed.{side}.blocked-handlers there.")
                assert session.cluster is None
                assert other.submit(sum, (1, 2)).result(timeout=30) == 3
                if operation != "run_function":
                    wait_until(lambda: not added_plugins(other))  # they go when the scheduler sees the client leave
                    refuse(side, client=other)
    finally:
        cluster.close()
