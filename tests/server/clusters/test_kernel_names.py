"""The paths under which the notebooks and consoles of a kernel are displayed."""

import asyncio
from types import SimpleNamespace

from jupyter_gpudask.server.kernels import ServerKernels


class Sessions:
    """A session manager that lists these sessions."""

    def __init__(self, *sessions):
        self.sessions = sessions

    async def list_sessions(self):
        return list(self.sessions)


def test_a_console_has_the_name_of_its_tab_and_a_notebook_its_path():
    sessions = Sessions(
        {"kernel": {"id": "a"}, "type": "notebook", "path": "work/one.ipynb", "name": "old.ipynb"},
        {"kernel": {"id": "b"}, "type": "console", "path": "work/console-1-5f2c", "name": "Console 1"},
        {"kernel": {"id": "a"}, "type": "console", "path": "console-2-77aa", "name": ""},
        {"kernel": None, "type": "notebook", "path": "work/two.ipynb", "name": "two.ipynb"},
    )
    assert asyncio.run(ServerKernels(None, sessions).notebooks()) == {
        "a": ("work/one.ipynb", "console-2-77aa"),
        "b": ("work/Console 1",),
    }


class KernelManager:
    """A kernel manager whose kernels have these processes."""

    def __init__(self, **pids):
        self.pids = pids

    def __contains__(self, kernel_id):
        return kernel_id in self.pids

    def list_kernel_ids(self):
        return list(self.pids)

    def get_kernel(self, kernel_id):
        return SimpleNamespace(kernel_name="python3", provisioner=SimpleNamespace(pid=self.pids[kernel_id]))


def test_processes_of_notebooks_with_the_same_name_are_named_by_their_paths():
    notebooks = {"a": ("one/train.ipynb",), "b": ("two/train.ipynb",), "c": ("one/other.ipynb",)}
    kernels = ServerKernels(KernelManager(a=1, b=2, c=3, d=4), None)
    assert {pid: kernel.notebook for pid, kernel in kernels.processes(notebooks).items()} == {
        1: "one/train.ipynb",
        2: "two/train.ipynb",
        3: "other.ipynb",
        4: "python3",
    }
