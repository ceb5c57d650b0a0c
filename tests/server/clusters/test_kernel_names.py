"""The paths under which the notebooks and consoles of a kernel are displayed."""

import asyncio

from jupyter_gpudask.server.clusters.kernels import ServerKernels


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
