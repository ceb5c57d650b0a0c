"""The forkserver of a cluster with GPUs: a process that has imported CuPy and cuDF, and of which workers are forks.

Otherwise each worker imports them when it starts, which takes seconds, and only after the supervisor has imported Dask.
The forkserver is that of `multiprocessing`, by which Dask starts its workers. It has no CUDA context, belongs to the
session of the supervisor, and ends with it.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dask.config
import psutil

from ..machine.plan import has_usable_gpus
from ..worker.preimport import PREIMPORT

if TYPE_CHECKING:
    from ..protocol import Start

_METHOD = "distributed.worker.multiprocessing-method"
_METHOD_VARIABLE = "DASK_DISTRIBUTED__WORKER__MULTIPROCESSING_METHOD"
_PRE_SPAWN = "distributed.nanny.pre-spawn-environ"
_HASH_SEED = "6640"  # of each worker of Dask, so that all put a text into the same partition


class Forkserver:
    """A forkserver that imports while this process does other things; to be created in the main thread.

    Parameters
    ----------
    variables
        Environment variables that the user has set for workers.
    """

    def __init__(self, variables: dict[str, str] | None = None) -> None:
        own = dict(os.environ)
        self._pre_spawn = _pre_spawn_variables() | (variables or {})
        self._environment = own | self._pre_spawn
        os.environ.update(self._pre_spawn)
        os.environ.update(
            {
                PREIMPORT: str(os.getpid()),
                "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
                "CUDA_VISIBLE_DEVICES": "",  # Dask sets it in each worker
                "RAPIDS_NO_INITIALIZE": "True",
            }
        )
        try:
            context = multiprocessing.get_context("forkserver")
            context.set_forkserver_preload(["jupyter_gpudask.worker.preimport"])
            from multiprocessing.forkserver import ensure_running

            ensure_running()
        finally:
            os.environ.clear()
            os.environ.update(own)

    @classmethod
    def if_useful(cls, request: Start) -> Forkserver | None:
        """The forkserver of a cluster that is requested, if it is one that will have forks as workers."""
        return cls(request.spec.environment) if _is_useful(request) and has_usable_gpus() else None

    def warm_up(self) -> None:
        """Import what Dask imports before it starts its first worker from a forkserver."""
        from distributed.utils import get_mp_context

        with dask.config.set({_METHOD: "forkserver"}):
            get_mp_context()

    def serve(self, request: Start, engine: str) -> None:
        """Let Dask start workers as forks of this process with the environment that this process has now.

        If that is not possible, it is ended, and each worker starts as a new process.

        Parameters
        ----------
        request
            The options of the cluster.
        engine
            The engine of its plan.
        """
        removed = self._environment.keys() - os.environ.keys() - self._pre_spawn.keys()
        variables = request.spec.environment.items()
        if engine != "cuda" or not _is_useful(request) or removed or not variables <= self._pre_spawn.items():
            _end_forkserver()
            return
        changed = {
            name: value
            for name, value in os.environ.items()
            if name not in self._pre_spawn and self._environment.get(name) != value
        }
        environ = dask.config.get("distributed.nanny.environ") | changed
        dask.config.set({_METHOD: "forkserver", "distributed.nanny.environ": environ})


def _is_useful(request: Start) -> bool:
    """Whether a cluster may have workers that are forks: not those of other classes, and not those with UCX."""
    spec = request.spec
    return (
        request.cluster_class is None
        and spec.engine != "cpu"
        and spec.protocol == "tcp"
        and os.environ.get(_METHOD_VARIABLE, "forkserver") == "forkserver"
    )


def _pre_spawn_variables() -> dict[str, str]:
    """The variables that Dask sets before it starts a worker, because libraries read them when they are loaded.

    `distributed` is not imported for them, because that takes as long as much of what the forkserver does meanwhile.
    Source: `distributed.nanny.Nanny`.
    """
    package = find_spec("distributed")
    assert package is not None
    assert package.origin is not None
    defaults = dask.config.collect_yaml([str(Path(package.origin).with_name("distributed.yaml"))])
    config: dict[str, Any] = dask.config.merge(*defaults, dask.config.config)
    wanted = dask.config.get(_PRE_SPAWN, {}, config=config)
    variables = {name: os.environ.get(name, str(value)) for name, value in wanted.items() if value is not None}
    if variables.get("PYTHONHASHSEED", "0") == "0":
        variables["PYTHONHASHSEED"] = _HASH_SEED
    return variables


def _end_forkserver() -> None:
    for process in psutil.Process().children():
        with contextlib.suppress(psutil.Error):
            if "multiprocessing.forkserver" in " ".join(process.cmdline()):
                process.kill()
                process.wait()
