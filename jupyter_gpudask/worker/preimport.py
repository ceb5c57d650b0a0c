"""What the forkserver of a cluster with GPUs imports, once for all workers.

See `jupyter_gpudask.supervisor.forkserver`. `multiprocessing` imports this module by its name when the forkserver
starts, which runs `preimport`.
"""

from __future__ import annotations

import importlib
import logging
import os
import sys

from ..machine.lifeline import die_with_parent

PREIMPORT = "JUPYTER_GPUDASK_PREIMPORT"
"""The environment variable with the pid of the supervisor, in a forkserver that it starts and in no other process."""

MODULES = (
    "dask.array",
    "dask.dataframe",
    "distributed.nanny",
    "distributed.http.worker",
    "cupy",
    "cudf",
    "dask_cudf",
    "rmm.statistics",
    "rmm.allocators.cupy",
    "dask_cuda.initialize",
    "dask_cuda.plugins",
    "dask_cuda.device_host_file",
    "jupyter_gpudask.patches.apply",
    "jupyter_gpudask.patches.table",
    "jupyter_gpudask.random_numbers.blocks",
    "jupyter_gpudask.worker.interruption",
    "jupyter_gpudask.worker.materialize",
    "jupyter_gpudask.worker.patch_plugin",
    "jupyter_gpudask.worker.preload",
    "jupyter_gpudask.worker.retention",
)
"""What a worker with a GPU imports until its first results."""

_log = logging.getLogger(__name__)


def preimport(supervisor: int) -> None:
    """Import `MODULES`, and end with the process `supervisor`.

    CUDA does not work in a fork of a process that has initialized its driver. If an import has done that, this process
    starts again without these imports, and so does the worker that is its fork.
    """
    die_with_parent()
    if os.getppid() != supervisor:  # it has ended already
        sys.exit()
    for name in MODULES:
        try:
            importlib.import_module(name)
        except Exception as error:  # noqa: BLE001 - the worker imports it again, and reports the error
            _log.info("%s cannot be imported: %s", name, error)
    if is_driver_initialized():
        _log.warning("An import has initialized the CUDA driver, so that each worker has to import cuDF itself.")
        os.execv(sys.executable, sys.orig_argv)  # noqa: S606 - the command with which this process was started


def is_driver_initialized() -> bool:
    """Whether this process has initialized the CUDA driver.

    Until then each function of the driver but a few fails with ``CUDA_ERROR_NOT_INITIALIZED``. Source: the CUDA driver
    API, "Initialization".
    """
    try:
        from cuda.bindings import driver

        error, _ = driver.cuCtxGetCurrent()
    except Exception:  # noqa: BLE001 - there is no driver, or its library lacks this function
        return False
    return bool(error != driver.CUresult.CUDA_ERROR_NOT_INITIALIZED)


if _supervisor := os.environ.pop(PREIMPORT, ""):
    preimport(int(_supervisor))
