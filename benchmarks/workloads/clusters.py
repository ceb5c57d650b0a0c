"""The clusters of both sides, and the GPUs and folders of a run."""

from __future__ import annotations

import os
import subprocess
import sys
import warnings
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .table import BY_HAND, OURS

if TYPE_CHECKING:
    from collections.abc import Iterator

_DEVICE_MEMORY = 20 * 10**9
_OTHER_MEMORY = 4 * 10**9  # CUDA contexts of the worker and of the client

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


@dataclass(frozen=True)
class Setting:
    """A cluster: the options of `LocalCUDACluster`, of ours with GPUs, and of both without.

    Attributes
    ----------
    device_memory
        Bytes of each GPU's memory that are left free for the cluster; `None` for all.
    """

    by_hand: dict[str, Any] = field(default_factory=dict)
    ours: dict[str, Any] = field(default_factory=dict)
    cpu: dict[str, Any] = field(default_factory=dict)
    device_memory: int | None = None


SETTINGS = {
    "whole": Setting(),
    # CUDA's own pool, on both sides: unlike a fixed pool of RMM it is not fragmented by blocks of different sizes.
    "small memory": Setting(
        by_hand={"device_memory_limit": "16GB", "rmm_async": True, "rmm_allocator_external_lib_list": "cupy"},
        ours={"spill_threshold": "16GB"},
        cpu={"memory_limit": "800MB"},
        device_memory=_DEVICE_MEMORY + _OTHER_MEMORY,
    ),
}


@contextmanager
def cluster(side: str, setting: str | None, engine: str, protocol: str | None = None) -> Iterator[None]:
    """A cluster on which the code in this context runs; none for other sides than the two."""
    with ExitStack() as stack:
        if setting is not None and side in (BY_HAND, OURS):
            chosen = SETTINGS[setting]
            if engine == "cuda" and chosen.device_memory is not None:
                stack.enter_context(_held_memory(chosen.device_memory))
            start = _by_hand if side == BY_HAND else _ours
            stack.enter_context(start(chosen, engine, protocol))
        yield


@contextmanager
def _by_hand(setting: Setting, engine: str, protocol: str | None) -> Iterator[None]:
    import dask
    from distributed import Client

    with ExitStack() as stack:
        if engine == "cuda":
            from dask_cuda import LocalCUDACluster

            options: dict[str, Any] = {"pre_import": "cudf,cupy", "protocol": protocol, "dashboard_address": ":0"}
            made = stack.enter_context(LocalCUDACluster(**options | setting.by_hand))
            stack.enter_context(dask.config.set({"array.backend": "cupy", "dataframe.backend": "cudf"}))
        else:
            from distributed import LocalCluster

            options = {"n_workers": 1, "threads_per_worker": 1, "dashboard_address": ":0"}
            made = stack.enter_context(LocalCluster(**options | setting.cpu))
        client = stack.enter_context(Client(made))
        client.wait_for_workers(len(made.worker_spec))
        yield


@contextmanager
def _ours(setting: Setting, engine: str, protocol: str | None) -> Iterator[None]:
    import jupyter_gpudask

    warnings.filterwarnings("ignore", message=".*CPU stand-in")
    if engine == "cuda":
        options = {"engine": "cuda"} | ({"protocol": protocol} if protocol else {}) | setting.ours
    else:
        options = {"engine": "cpu", "workers": 1, "threads": 1} | setting.cpu
    with jupyter_gpudask.gpu(**options):
        yield


@contextmanager
def _held_memory(free: int) -> Iterator[None]:
    """Hold the memory of the visible GPUs in another process, except for `free` bytes of each."""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    process = subprocess.Popen([sys.executable, "-P", "-c", _HOLD, str(free)], text=True, **pipes)
    assert process.stdout is not None
    try:
        if process.stdout.readline() != "held\n":
            raise RuntimeError("The memory of the GPUs could not be held.")
        yield
    finally:
        process.communicate()


def environment(folder: Path, gpus: int | None) -> dict[str, str]:
    """The environment variables of a run whose files and GPUs no other run uses.

    Parameters
    ----------
    folder
        The folder of its files.
    gpus
        How many of the visible GPUs it uses, the first ones; `None` for all.
    """
    private = {"TMPDIR": "tmp", "JUPYTER_RUNTIME_DIR": "runtime", "IPYTHONDIR": "ipython"}
    variables = dict(os.environ) | {name: str(folder / place) for name, place in private.items()}
    for name in private:
        Path(variables[name]).mkdir()
    variables.setdefault("SPEED_DATA", str(folder / "data"))
    variables["CUDA_DEVICE_ORDER"] = "PCI_BUS_ID"
    if gpus is not None:
        visible = os.environ.get("CUDA_VISIBLE_DEVICES", "")
        names = visible.split(",") if visible else [str(index) for index in range(gpus)]
        if len(names) < gpus:
            raise SystemExit(f"--gpus {gpus}: CUDA_VISIBLE_DEVICES is {visible}. Use at most {len(names)}.")
        variables["CUDA_VISIBLE_DEVICES"] = ",".join(names[:gpus])
    return variables
