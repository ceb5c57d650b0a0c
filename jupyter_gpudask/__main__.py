"""``python -m jupyter_gpudask script.py [arguments]``: run a script for NumPy and pandas on the GPUs, unchanged.

``python -m jupyter_gpudask cluster`` starts a cluster that notebooks share; see `jupyter_gpudask.session.command`.
``python -m jupyter_gpudask worker ADDRESS`` starts workers for a scheduler; see `jupyter_gpudask.worker.command`.

The script runs as with ``python script.py``: it is ``__main__``, and has its own ``sys.argv``, exit status and
tracebacks. All of it runs inside `jupyter_gpudask.gpu`.
"""

from __future__ import annotations

import argparse
import builtins
import os
import sys
from pathlib import Path
from types import ModuleType, TracebackType
from typing import Any

from .errors import GpuDaskError
from .session.gpu import gpu

_INTERRUPTED = 130  # as shells report a process that SIGINT has ended
_NO_FILE = 2  # as `python` itself


def parse_arguments(arguments: list[str]) -> tuple[str, list[str], dict[str, Any]]:
    """Parse the command line.

    `arguments`: those of ``python -m jupyter_gpudask``. Returns the script, its own arguments, and the arguments of
    `jupyter_gpudask.gpu`.
    """
    from .protocol.spec import start_options

    parser = argparse.ArgumentParser(
        "python -m jupyter_gpudask", description="Run a Python script that uses Dask on the GPUs of this machine."
    )
    parser.add_argument("--array", choices=("cupy", "numpy"), default="cupy")
    parser.add_argument("--dataframe", choices=("cudf", "pandas"), default="cudf")
    parser.add_argument("--results", choices=("host", "gpu"), help="where the results of compute() are")
    parser.add_argument("--fallback", choices=("error", "host", "strict"), help="for what CuPy or cuDF lack")
    for flag, option in start_options().items():
        if flag.startswith("--") and not option.value_is_optional and not option.is_repeatable:
            parser.add_argument(flag, dest=option.field, metavar=option.metavar, help=option.help.replace("%", "%%"))
    parser.add_argument("script")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="the arguments of the script")
    parser.allow_abbrev = False
    given = {name: value for name, value in vars(parser.parse_args(arguments)).items() if value is not None}
    return given.pop("script"), given.pop("arguments"), given


def run_script(file: str, arguments: list[str], options: dict[str, Any]) -> int:
    """Run a script as ``__main__`` inside `jupyter_gpudask.gpu`.

    `file`: the path of the script. `arguments`: its arguments. `options`: the arguments of `jupyter_gpudask.gpu`.
    Returns the exit status. Raises `SystemExit` if the script has called `sys.exit`.
    """
    path = os.path.abspath(file)  # noqa: PTH100 - as `python` itself: symbolic links are not followed
    try:
        source = Path(path).read_bytes()
    except OSError as error:
        sys.stderr.write(f"The script {file} cannot be read: {error.strerror}. Give the path of a Python file.\n")
        return _NO_FILE
    sys.argv = [file, *arguments]
    if not sys.flags.safe_path:
        sys.path[0] = os.path.dirname(path)  # noqa: PTH120
    switch = gpu(**options)
    try:
        switch.__enter__()
    except GpuDaskError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    try:
        _execute(path, source)
    except SystemExit:
        switch.__exit__(None, None, None)
        raise
    except BaseException as error:  # noqa: BLE001 - shown as Python itself shows it
        switch.__exit__(type(error), error, error.__traceback__)
        shown = error.with_traceback(_from_script(error.__traceback__, path))
        sys.excepthook(type(error), shown, shown.__traceback__)
        return _INTERRUPTED if isinstance(error, KeyboardInterrupt) else 1
    switch.__exit__(None, None, None)
    return 0


def _execute(path: str, source: bytes) -> None:
    main = ModuleType("__main__")
    vars(main).update(__file__=path, __cached__=None, __builtins__=builtins)
    sys.modules["__main__"] = main
    exec(compile(source, path, "exec", dont_inherit=True), vars(main))  # noqa: S102 - the user's script


def _from_script(traceback: TracebackType | None, path: str) -> TracebackType | None:
    while traceback is not None and traceback.tb_frame.f_code.co_filename != path:
        traceback = traceback.tb_next
    return traceback


if __name__ == "__main__":
    if sys.argv[1:2] == ["worker"]:
        from .worker.command import main

        main()
        sys.exit()
    if sys.argv[1:2] == ["cluster"]:
        from .session.command import main as run_cluster

        sys.exit(run_cluster(sys.argv[2:]))
    sys.exit(run_script(*parse_arguments(sys.argv[1:])))
