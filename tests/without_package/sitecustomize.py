"""The environment of a kernel that lacks jupyter_gpudask, for processes with this folder on PYTHONPATH."""

import sys


class Absence:
    """Finds that there is none."""

    @staticmethod
    def find_spec(name, *_):
        if name == "jupyter_gpudask":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


sys.meta_path.insert(0, Absence)
