"""A class of clusters as an administrator may have one: its scheduler and its workers are processes of their own."""

import asyncio
import json
import sys
import tempfile
from pathlib import Path

from distributed.core import Status, rpc
from distributed.deploy import Cluster

DASK = str(Path(sys.executable).parent / "dask")


class ElsewhereCluster(Cluster):
    """A cluster of ``dask scheduler`` and ``dask worker``; `scale` is not asynchronous, as Dask's base class has it.

    The file `record` has the pid of the scheduler, until the cluster is closed.
    """

    def __init__(self, n_workers=0, record="", asynchronous=False):
        self.n_workers = n_workers
        self.record = record
        self.workers = []
        super().__init__(asynchronous=asynchronous, quiet=True)

    def __await__(self):
        return self._open().__await__()

    async def _open(self):
        self._folder = tempfile.TemporaryDirectory()
        file = Path(self._folder.name) / "scheduler.json"
        options = ("--host", "127.0.0.1", "--port", "0", "--dashboard-address", "127.0.0.1:0", "--no-show")
        self._scheduler = await self._run("scheduler", *options, "--scheduler-file", str(file))
        self._write_record()
        while not file.exists() or not file.read_text():
            await asyncio.sleep(0.1)
        self.scheduler_comm = rpc(json.loads(file.read_text())["address"])
        await self._start()
        for _ in range(self.n_workers):
            await self._add()
        return self

    def _write_record(self):
        if self.record:
            Path(self.record).write_text(str(self._scheduler.pid))

    def _remove_record(self):
        if self.record:
            Path(self.record).unlink()

    async def _run(self, *command):
        quiet = asyncio.subprocess.DEVNULL
        return await asyncio.create_subprocess_exec(DASK, *command, stdout=quiet, stderr=quiet)

    async def _add(self):
        options = ("--no-dashboard", "--nthreads", "1", "--name", str(len(self.workers)))
        self.workers.append(await self._run("worker", self.scheduler_address, *options))

    def scale(self, n):
        for worker in self.workers[n:]:
            worker.terminate()
        new = n - len(self.workers)
        del self.workers[n:]
        self._adding = asyncio.gather(*(self._add() for _ in range(new)))

    async def _close(self):
        self._remove_record()
        await super()._close()
        for process in (*self.workers, self._scheduler):
            process.terminate()
            await process.wait()
        self._folder.cleanup()
        self.status = Status.closed
