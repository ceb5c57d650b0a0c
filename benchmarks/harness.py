"""What the benchmarks have in common: clusters of both sides, processes of their own, command lines and reports."""

from __future__ import annotations

import argparse
import importlib
import inspect
import json
import os
import platform
import subprocess
import sys
import time
import warnings
from contextlib import ExitStack, contextmanager
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from jupyter_gpudask.protocol.state import GpuState

BY_HAND, OURS, NO_DASK, PLAIN = "by hand", "jupyter_gpudask", "no Dask", "plain cell"
MARK = "measured: "
_PACKAGES = (
    *("jupyter_gpudask", "dask", "distributed", "dask-cuda", "cupy-cuda12x", "cupy-cuda13x", "cudf-cu12", "cudf-cu13"),
    *("numpy", "pandas", "ipython", "ipykernel", "jupyterlab"),
)


def parser(description: str | None, *, engine: str = "cpu") -> argparse.ArgumentParser:
    """The options that most benchmarks have."""
    made = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--engine", choices=["cpu", "cuda"], default=engine)
    made.add_argument("--only", default="", help="parts of the names of rows, separated by ;")
    made.add_argument("--out", type=Path, help="the JSON file to write")
    return made


def chosen(names: Iterable[str], only: str) -> list[str]:
    """The names that `only` selects: whole names, or parts of names, with ``;`` between; all if it is empty."""
    names = list(names)
    wanted = [part for part in only.split(";") if part]
    found = [name for name in names if any(part == name or (part not in names and part in name) for part in wanted)]
    if wanted and not found:
        raise SystemExit(f"--only {only!r} names no row. The rows are:\n" + "\n".join(names))
    return found if wanted else names


def header() -> dict[str, Any]:
    """The command, date, GPUs, CPU cores, Python and versions of the installed packages."""
    script = "/".join(Path(sys.argv[0]).resolve().parts[-2:])
    return {
        "command": " ".join(["python", script, *sys.argv[1:]]),
        "date": time.strftime("%Y-%m-%d"),
        "gpus": gpu_names(),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "versions": {name: found for name in _PACKAGES if (found := _version(name))},
    }


def gpus() -> list[GpuState]:
    """The GPUs that are visible to this process; none without a driver."""
    from jupyter_gpudask.errors import GpuUnavailableError
    from jupyter_gpudask.machine.gpus import visible_gpus

    try:
        return visible_gpus()
    except GpuUnavailableError:
        return []


def gpu_names() -> list[str]:
    """Their names."""
    return [gpu.name for gpu in gpus()]


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def publish(report: dict[str, Any], out: Path | None, *, hide: str = "") -> None:
    """Print a report, without its part `hide`, and write all of it to the file `out` if there is one."""
    if out:
        out.write_text(json.dumps(report, indent=1) + "\n")
    print(json.dumps({name: part for name, part in report.items() if name != hide}, indent=1))


class Process:
    """Runs a generator of a benchmark in a process of its own; iterating gives the JSON values that it yields."""

    def __init__(self, function: Callable[..., Iterator[Any]], variables: Mapping[str, str], **arguments: Any) -> None:
        file = Path(inspect.getfile(function)).with_suffix("").relative_to(Path(__file__).parent)
        place = f"{'.'.join(file.parts)}:{function.__name__}"
        # No entry of PYTHONPATH is empty or relative: the process has a folder of its own.
        path = [str(Path(entry).resolve()) for entry in os.environ.get("PYTHONPATH", "").split(os.pathsep) if entry]
        self.process = subprocess.Popen(
            [sys.executable, __file__, place, json.dumps(arguments)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(path)} | variables,
        )

    def __iter__(self) -> Process:
        return self

    def __next__(self) -> Any:
        for line in self.process.stdout or ():
            if line.startswith(MARK):
                return json.loads(line.removeprefix(MARK))
        raise StopIteration

    def ask(self, line: str) -> Any:
        """The next value, which the generator yields when it has read a line from its standard input."""
        print(line, file=self.process.stdin, flush=True)
        return next(self)

    def end(self) -> int:
        """Wait until it ends; its exit status."""
        self.process.communicate()
        return self.process.returncode


@contextmanager
def cluster(side: str, engine: str, *, protocol: str | None = None, little_memory: bool = False) -> Iterator[Any]:
    """The client of a cluster of one of the two sides, with Dask's backends set around the code.

    `BY_HAND` is a `dask_cuda.LocalCUDACluster` with ``pre_import="cudf,cupy"``, or without a GPU a
    `distributed.LocalCluster` with one worker of one thread. With `little_memory`, each worker has 20 GB of device
    memory, or 800 MB on the CPU.
    """
    import dask
    from distributed import Client

    import jupyter_gpudask

    warnings.filterwarnings("ignore", message=".*CPU cluster")
    options: dict[str, Any] = {"protocol": protocol} if protocol else {}
    of_cpu = {"memory_limit": "800MB"} if little_memory else {}
    with ExitStack() as stack:
        if engine == "cuda" and little_memory:
            stack.enter_context(_held_memory(24 * 10**9))  # with the CUDA contexts of the worker and of the client
        if side == OURS:
            options |= {"spill_threshold": "16GB"} if little_memory else {}
            options = options if engine == "cuda" else {"workers": 1, "threads": 1} | of_cpu
            yield stack.enter_context(jupyter_gpudask.gpu(engine=engine, **options))
            return
        if engine == "cuda":
            from dask_cuda import LocalCUDACluster as Cluster

            # CUDA's own pool: unlike a fixed pool of RMM it is not fragmented by blocks of different sizes.
            pool = {"rmm_async": True, "rmm_allocator_external_lib_list": "cupy", "device_memory_limit": "16GB"}
            options |= {"pre_import": "cudf,cupy"} | (pool if little_memory else {})
            stack.enter_context(dask.config.set({"array.backend": "cupy", "dataframe.backend": "cudf"}))
        else:
            from distributed import LocalCluster as Cluster

            options = {"n_workers": 1, "threads_per_worker": 1} | of_cpu
        made = stack.enter_context(Cluster(dashboard_address="127.0.0.1:0", **options))
        client = stack.enter_context(Client(made))
        client.wait_for_workers(len(made.worker_spec))
        yield client


_HOLD = """
import sys, cupy
held = []
for device in range(cupy.cuda.runtime.getDeviceCount()):
    with cupy.cuda.Device(device):
        free, _ = cupy.cuda.runtime.memGetInfo()
        held.append(cupy.cuda.runtime.malloc(max(0, free - int(sys.argv[1]))))
print("held", flush=True)
sys.stdin.read()
"""


@contextmanager
def _held_memory(free: int) -> Iterator[None]:
    """Hold the memory of the visible GPUs in another process, except for `free` bytes of each."""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    process = subprocess.Popen([sys.executable, "-P", "-c", _HOLD, str(free)], text=True, **pipes)
    try:
        if process.stdout is None or process.stdout.readline() != "held\n":
            raise RuntimeError("The memory of the GPUs could not be held.")
        yield
    finally:
        process.communicate()


def private_environment(folder: Path, gpus: int | None = None) -> dict[str, str]:
    """Environment variables of a run whose files, and whose first `gpus` visible GPUs, no other run uses."""
    variables = {"TMPDIR": "tmp", "JUPYTER_RUNTIME_DIR": "runtime", "IPYTHONDIR": "ipython"}
    variables = {name: str(folder / place) for name, place in variables.items()}
    for place in variables.values():
        Path(place).mkdir()
    variables |= {"SPEED_DATA": os.environ.get("SPEED_DATA", str(folder / "data")), "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
    if gpus is not None:
        visible = os.environ.get("CUDA_VISIBLE_DEVICES", "")
        names = visible.split(",") if visible else [str(index) for index in range(gpus)]
        if len(names) < gpus:
            raise SystemExit(f"--gpus {gpus}: CUDA_VISIBLE_DEVICES is {visible}. Use at most {len(names)}.")
        variables["CUDA_VISIBLE_DEVICES"] = ",".join(names[:gpus])
    return variables


def main() -> None:
    """Run the generator that the command line names, and print what it yields."""
    place, arguments = sys.argv[1:]
    module, _, name = place.partition(":")
    for value in getattr(importlib.import_module(module), name)(**json.loads(arguments)):
        print(MARK + json.dumps(value), flush=True)


if __name__ == "__main__":
    main()
