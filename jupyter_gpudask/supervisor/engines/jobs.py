"""Clusters whose workers are jobs of a batch system, such as SLURM, by a class of dask-jobqueue."""

from __future__ import annotations

import math
import os
import shlex
import sys
from typing import TYPE_CHECKING, Any

import dask.config
import psutil

from ...errors import ClusterStartError
from ...machine.directories import LOGS_VARIABLE
from ...worker.command import worker_options

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from ...protocol import ClusterSpec

_NOT_FOR_JOBS = frozenset(
    {
        "JUPYTERHUB_API_TOKEN",
        "JUPYTER_TOKEN",
        "JPY_API_TOKEN",
        "CUDA_VISIBLE_DEVICES",  # of this machine
        LOGS_VARIABLE,  # the output of a worker is the log of its job
    }
)
# The HTTP servers of workers, which have no access control, get no pages; what tasks print is in the log at once.
_ENVIRONMENT = ("export DASK_DISTRIBUTED__WORKER__HTTP__ROUTES='[]'", "export PYTHONUNBUFFERED=1")


def is_job_queue(class_: Any) -> bool:
    """Whether `class_` is one of dask-jobqueue's clusters."""
    module = sys.modules.get("dask_jobqueue")
    return module is not None and isinstance(class_, type) and issubclass(class_, module.JobQueueCluster)


def make_cluster(
    class_: Any,
    options: dict[str, Any],
    spec: ClusterSpec,
    common: dict[str, Any],
    shared_directory: Callable[[str], Path],
) -> Any:
    """A cluster of dask-jobqueue; see `create_cluster`.

    Its scheduler has TLS. dask-jobqueue writes the credentials of the workers to files that only the user can read, and
    names these files on the workers' command line.

    Parameters
    ----------
    class_
        The class, such as ``dask_jobqueue.SLURMCluster``.
    options
        The administrator's keyword arguments, which take precedence over `common`.
    spec
        The options of the cluster.
    common
        The options that all engines have in common.
    shared_directory
        Creates the directory of credentials and logs, which the machines of the jobs must share with this one.

    Raises
    ------
    ClusterStartError
        This machine has no such network interface.
    """
    section = options.get("config_name") or class_.job_cls.default_config_name()

    def setting(name: str, default: Any) -> Any:
        """The administrator's option, or else the value in Dask's configuration."""
        value = options.get(name, dask.config.get(f"jobqueue.{section}.{name.replace('_', '-')}", None))
        return default if value is None else value

    gpu = spec.engine == "cuda"
    folder = str(shared_directory(setting("shared_temp_directory", "")))
    ours: dict[str, Any] = {
        **{name: common[name] for name in ("asynchronous", "security")},
        "job_name": "jupyter-gpudask",
        "worker_command": "dask_cuda.cli" if gpu else "distributed.cli.dask_worker",
        "processes": setting("processes", 1),
        "log_directory": setting("log_directory", folder),
        # -P: do not import modules from the notebook's folder
        "python": setting("python", f"{shlex.quote(sys.executable)} -P"),
    }
    merged: dict[str, Any] = {
        "shared_temp_directory": folder,
        "scheduler_options": {
            "port": 0,
            "dashboard_address": common["dashboard_address"],
            **common["scheduler_kwargs"],
            **setting("scheduler_options", {}),
        },
        "worker_extra_args": [*worker_options(gpu=gpu), *setting("worker_extra_args", [])],
        "job_script_prologue": [*_ENVIRONMENT, *setting("job_script_prologue", [])],
    }
    scheduler = merged["scheduler_options"]
    if "host" not in scheduler:
        _check_interface(scheduler.get("interface", setting("interface", None)))
    for name in _NOT_FOR_JOBS.intersection(os.environ):  # batch systems copy the environment of whoever submits a job
        del os.environ[name]
    cluster = class_(**(ours | options | merged | {"n_workers": 0}))
    workers = spec.workers or options.get("n_workers", 1)
    for _ in range(math.ceil(workers / ours["processes"])):  # `scale` would submit jobs at once, and only log errors
        cluster.worker_spec.update(cluster.new_worker_spec())
    return cluster


def _check_interface(name: str | None) -> None:
    interfaces = psutil.net_if_addrs()
    if name is not None and name not in interfaces:
        raise ClusterStartError("no-interface", name=name, interfaces=", ".join(interfaces))
