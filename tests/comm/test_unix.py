"""Dask's communication over Unix sockets."""

import asyncio
import errno
import os
import socket
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from distributed import Client, Nanny, Scheduler, Worker
from distributed.comm import connect, get_address_host, listen
from distributed.comm.core import CommClosedError

from jupyter_gpudask.comm.unix import can_listen, host_of

pytestmark = pytest.mark.filterwarnings("ignore:Port 8787 is already in use")


@pytest.fixture
def directory(tmp_path):
    """A directory whose name is longer than that of a socket may be."""
    path = tmp_path / ("long" * 30)
    path.mkdir(mode=0o700)
    return path


async def echo(comm):
    """Send back what comes, until the other end closes the connection."""
    try:
        while True:
            await comm.write(await comm.read())
    except CommClosedError:
        return


def test_messages_of_all_sizes_come_back(directory):
    async def main():
        listener = await listen(f"unix://{directory}:0", echo)
        comm = await connect(listener.contact_address)
        for size in (0, 1, 1000, 10**5, 10**7):
            await comm.write({"x": b"x" * size, "n": size})
            assert (await comm.read())["n"] == size
        await comm.close()
        assert get_address_host(listener.contact_address) == "127.0.0.1"
        modes = [path.stat().st_mode for path in directory.iterdir()]
        listener.stop()
        return modes

    assert asyncio.run(main()) == [stat.S_IFSOCK | 0o600]
    assert list(directory.iterdir()) == []


def test_scheduler_worker_and_client_work(directory):
    async def main():
        options = {"protocol": "unix", "host": str(directory), "dashboard_address": "127.0.0.1:0"}
        async with Scheduler(port=0, **options) as scheduler, Worker(scheduler.address, **options) as worker:
            assert worker.address.startswith(f"unix://{directory}:")
            async with Client(scheduler.address, asynchronous=True) as client:
                return await client.submit(sum, [1, 2])

    assert asyncio.run(main()) == 3


def test_names_of_directories_may_have_any_character(tmp_path):
    async def main(directory):
        options = {"protocol": "unix", "host": host_of(directory), "dashboard_address": "127.0.0.1:0"}
        async with (
            Scheduler(port=0, **options) as scheduler,
            Nanny(scheduler.address, **options, nthreads=1) as nanny,
            Client(scheduler.address, asynchronous=True) as client,
        ):
            assert len(list(directory.iterdir())) == 3
            return await client.submit(sum, [1, 2], workers=nanny.worker_address)

    directory = tmp_path / os.fsdecode(b"a:b %41 [#?] \xc3\xa9 \xff")
    directory.mkdir()
    assert asyncio.run(main(directory)) == 3
    assert list(directory.iterdir()) == []


def test_the_kernel_lists_sockets_by_their_path(short_directory):
    """Then systemd-tmpfiles does not take them for old files."""

    async def main():
        listener = await listen(f"unix://{short_directory}:7", echo)
        names = await asyncio.to_thread(Path("/proc/net/unix").read_text)
        listener.stop()
        return names

    assert f"{short_directory}/7" in asyncio.run(main())


async def test_many_connections_at_once_are_accepted(directory):
    listener = await listen(f"unix://{directory}:0", echo)
    comms = await asyncio.gather(*[connect(listener.contact_address) for _ in range(200)])
    for comm in comms:
        await comm.write(1)
    assert [await comm.read() for comm in comms] == [1] * 200
    for comm in comms:
        comm.abort()
    listener.stop()


async def test_a_number_that_is_taken_and_a_listener_that_is_gone_are_errors(directory):
    listener = await listen(f"unix://{directory}:7", echo)
    with pytest.raises(OSError, match="in use"):
        await listen(f"unix://{directory}:7", echo)
    listener.stop()
    with pytest.raises(OSError, match="Timed out") as raised:
        await connect(f"unix://{directory}:7", timeout=0.5)
    assert "No such file" in str(raised.value.__cause__)


AS_ANOTHER_USER = """
import os, socket, sys
if sys.argv[1] == "connect":
    os.setuid(65534)
    try:
        connection = socket.socket(socket.AF_UNIX)
        connection.connect(sys.argv[2])
        connection.settimeout(30)
        print("received", len(connection.recv(100)))
    except PermissionError:
        print("refused")
else:
    listener = socket.socket(socket.AF_UNIX)
    os.setuid(65534)
    listener.bind(sys.argv[2])
    listener.listen()
    os.chmod(sys.argv[2], 0o777)
    print("listening", flush=True)
    sys.stdin.read()
"""


def as_another_user(*arguments, **options):
    return subprocess.Popen(
        [sys.executable, "-c", AS_ANOTHER_USER, *arguments], stdout=subprocess.PIPE, text=True, **options
    )


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become another user")
@pytest.mark.parametrize(("mode", "answer"), [(0o700, "refused"), (0o755, "received 0")])
def test_another_user_is_refused_even_if_the_directory_is_open(short_directory, mode, answer):
    """With an open directory and an open socket the user at the other end decides."""

    async def main():
        listener = await listen(f"unix://{short_directory}:1", echo)
        short_directory.chmod(mode)
        (short_directory / "1").chmod(0o777)
        process = as_another_user("connect", str(short_directory / "1"))
        said, _ = await asyncio.to_thread(process.communicate)
        listener.stop()
        return said.strip()

    assert asyncio.run(main()) == answer


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become another user")
def test_a_socket_of_another_user_is_not_used(short_directory):
    short_directory.chmod(0o777)
    process = as_another_user("listen", str(short_directory / "1"), stdin=subprocess.PIPE)
    assert process.stdout.readline() == "listening\n"
    with pytest.raises(OSError, match="belongs to another user"):
        asyncio.run(connect(f"unix://{short_directory}:1", timeout=60))
    process.communicate()


def test_a_file_system_without_sockets_is_found_out(directory, monkeypatch):
    assert can_listen(directory)
    assert list(directory.iterdir()) == []

    class Socket(socket.socket):
        def bind(self, _):
            raise OSError(errno.EOPNOTSUPP, "Operation not supported")

    monkeypatch.setattr(socket, "socket", Socket)
    assert not can_listen(directory)
