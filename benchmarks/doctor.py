"""How long ``%gpudask doctor`` takes: without a cluster, with one that is new, and with one that has computed.

Run it where there is a GPU: ``python benchmarks/doctor.py``.
"""

from __future__ import annotations

import time

from IPython.core.interactiveshell import InteractiveShell

CELL = "import dask.array as da\nda.ones(4).sum().compute()"


def main() -> None:
    """Print the seconds of each examination, and what it found."""
    shell = InteractiveShell.instance()
    shell.run_line_magic("load_ext", "jupyter_gpudask")
    for title, prepare in (
        ("without a cluster", lambda: None),
        ("with a new cluster", lambda: shell.run_line_magic("gpudask", "start")),
        ("after a cell", lambda: shell.run_cell(f"%%gpudask\n{CELL}")),
    ):
        prepare()
        began = time.perf_counter()
        found = shell.run_line_magic("gpudask", "doctor")
        print(f"{time.perf_counter() - began:6.2f} s {title}\n{found}\n")
    shell.run_line_magic("gpudask", "stop")


if __name__ == "__main__":
    main()
