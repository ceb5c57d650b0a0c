"""Create the Dask cluster of a plan: on GPUs, on the CPU, or by a class of the configuration, as of batch systems."""

from __future__ import annotations

import asyncio
import inspect
import json
import math
import os
import shlex
import sys
from collections.abc import Callable, Hashable
from importlib import import_module
from pathlib import Path
from typing import IO, Any

import dask.config
import psutil
from dask.system import CPU_COUNT
from distributed import LocalCluster, Scheduler, SpecCluster, SSHCluster
from distributed.core import Status
from distributed.deploy.cluster import Cluster
from distributed.deploy.ssh import Worker

from ..comm.unix import SCHEME, host_of
from ..errors import ClusterStartError, GpuDaskError, GpuUnavailableError, OptionConflictError, SpecError
from ..installation import pip_install
from ..machine.directories import LOGS_VARIABLE, worker_log
from ..machine.plan import Plan, has_usable_gpus
from ..protocol.engines import ENGINES, Engine
from ..protocol.spec import ClusterClass, ClusterSpec
from ..worker.command import worker_options
from .dashboard import routes_without_proxy

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


def make_job_queue(
    class_: Any,
    options: dict[str, Any],
    spec: ClusterSpec,
    common: dict[str, Any],
    shared_directory: Callable[[str], Path],
) -> Any:
    """A cluster of dask-jobqueue; see `create_cluster`.

    Its scheduler has TLS. dask-jobqueue writes the credentials of the workers to files that only the user can read, and
    names these files on the workers' command line.

    - `class_`: the class, such as ``dask_jobqueue.SLURMCluster``.
    - `options`: the administrator's keyword arguments, which take precedence over `common`.
    - `shared_directory`: creates the directory of credentials and logs, which the machines of the jobs must share with
      this one.

    Raises `ClusterStartError` if this machine has no such network interface.
    """
    section = options.get("config_name") or class_.job_cls.default_config_name()

    def setting(name: str, default: Any) -> Any:
        """The administrator's option, or else the value in Dask's configuration."""
        value = options.get(name, dask.config.get(f"jobqueue.{section}.{name.replace('_', '-')}", None))
        return default if value is None else value

    engine = ENGINES[spec.class_engine]
    folder = str(shared_directory(setting("shared_temp_directory", "")))
    ours: dict[str, Any] = {
        **{name: common[name] for name in ("asynchronous", "security")},
        "job_name": "jupyter-gpudask",
        "worker_command": engine.worker_command,
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
        "worker_extra_args": [*worker_options(gpu=engine.has_gpus), *setting("worker_extra_args", [])],
        "job_script_prologue": [*_ENVIRONMENT, *setting("job_script_prologue", [])],
    }
    scheduler = merged["scheduler_options"]
    name, interfaces = scheduler.get("interface", setting("interface", None)), psutil.net_if_addrs()
    if "host" not in scheduler and name is not None and name not in interfaces:
        raise ClusterStartError("no-interface", name=name, interfaces=", ".join(interfaces))
    for variable in _NOT_FOR_JOBS.intersection(os.environ):  # batch systems copy the environment of who submits a job
        del os.environ[variable]
    cluster = class_(**(ours | options | merged | {"n_workers": 0}))
    workers = spec.workers or options.get("n_workers", 1)
    for _ in range(math.ceil(workers / ours["processes"])):  # `scale` would submit jobs at once, and only log errors
        cluster.worker_spec.update(cluster.new_worker_spec())
    return cluster


_EXTRAS = {"dask_jobqueue": "slurm", "dask_gateway": "gateway", "dask_kubernetes": "kubernetes"}
"""The extra of this package that installs a package of cluster classes."""

GATEWAY_CLUSTER = "dask_gateway.GatewayCluster"


def has_remote_scheduler(cluster_class: ClusterClass) -> bool:
    """Whether the scheduler of the clusters of a class runs elsewhere; see `RemoteCluster`.

    That is so for Dask's base class of clusters, except for `distributed.SpecCluster`, which mostly starts its
    scheduler in this process; and for dask-gateway, whose class has no base class.
    """
    if cluster_class.path == GATEWAY_CLUSTER:
        return True
    try:
        class_ = import_class(cluster_class)
    except Exception:  # noqa: BLE001 - the start imports it again, and reports it
        return False
    return isinstance(class_, type) and issubclass(class_, Cluster) and not issubclass(class_, SpecCluster)


def import_class(cluster_class: ClusterClass) -> Any:
    """The class, or the function, that a cluster preset names; raises `ClusterStartError` if it cannot be imported."""
    module, _, name = cluster_class.path.rpartition(".")
    try:
        return getattr(import_module(module), name)
    except (ImportError, AttributeError) as error:
        extra = _EXTRAS.get((getattr(error, "name", None) or "").partition(".")[0])
        raise ClusterStartError(
            "class-installable" if extra else "class-missing",
            class_=cluster_class.path,
            error=error,
            install=pip_install(extra or ""),
        ) from None


def make_cluster(
    cluster_class: ClusterClass,
    spec: ClusterSpec,
    common: dict[str, Any],
    shared_directory: Callable[[str], Path],
    logs: Path,
) -> Any:
    """Create a cluster of `cluster_class`; see `create_cluster`.

    The configured options take precedence over those that are `common` to all engines. A class without an argument
    ``security`` has no TLS, except by its own options.

    Raises `ClusterStartError` if the class cannot be imported, fails, or does not create a suitable cluster.
    """
    class_, options = import_class(cluster_class), cluster_class.options
    try:
        if is_job_queue(class_):
            return make_job_queue(class_, options, spec, common, shared_directory)
        if class_ is SSHCluster:  # which is a function
            return make_ssh_cluster(options, spec, common, logs)
        cluster = _make_other(class_, options, spec, common)
    except GpuDaskError:
        raise
    except Exception as error:  # noqa: BLE001 - the class can raise anything
        raise ClusterStartError(
            "class-failed", class_=cluster_class.path, error=f"{type(error).__name__}: {first_line(error)}"
        ) from None
    scheduler = (cluster.scheduler_spec or {}).get("cls") if isinstance(cluster, SpecCluster) else None
    if not (isinstance(scheduler, type) and issubclass(scheduler, Scheduler)):
        raise ClusterStartError("scheduler-elsewhere", class_=cluster_class.path, known=GATEWAY_CLUSTER)
    return cluster


def first_line(error: BaseException) -> str:
    """The first line of the message of an error of a class; the others may list all its options, with secrets."""
    lines = str(error).strip().splitlines()
    return lines[0].rstrip(" .:") if lines else type(error).__name__


def _make_other(class_: Any, options: dict[str, Any], spec: ClusterSpec, common: dict[str, Any]) -> Any:
    is_local = isinstance(class_, type) and issubclass(class_, LocalCluster)
    # Options for this machine would prevent workers on other machines from reaching their scheduler.
    ours = common.keys() if is_local else ("asynchronous", "security", "dashboard_address")
    parameters = parameters_of(class_)
    taken = common.keys() if is_local else parameters
    defaults = {name: common[name] for name in ours if name in taken}
    if options.get("processes") is False:  # else the preload would run in this process
        defaults.pop("preload", None)
    if spec.workers is None:
        return class_(**(defaults | options))
    if "n_workers" not in parameters:
        raise OptionConflictError("with-preset", option="--workers", preset=spec.preset, field="workers")
    return class_(**(defaults | options | {"n_workers": spec.workers}))


def parameters_of(class_: Any) -> set[str]:
    """The names of the arguments that a class accepts, including those that it passes on to its bases."""
    names: set[str] = set()
    for base in inspect.getmro(class_) if isinstance(class_, type) else (class_,):
        parameters = inspect.signature(base).parameters.values()
        names |= {parameter.name for parameter in parameters}
        if all(parameter.kind is not parameter.VAR_KEYWORD for parameter in parameters):
            break
    return names


def make_cuda_cluster(spec: ClusterSpec, plan: Plan, common: dict[str, Any]) -> Any:
    """A `dask_cuda.LocalCUDACluster` for `plan`; see `create_cluster`."""
    class_ = import_dask_cuda() if spec.spilling == "cudf" else _without_cudf(import_dask_cuda())
    if spec.protocol != "ucx":  # UCX does not start without a device
        # Without a visible device this process cannot create a CUDA context; dask-cuda gives each worker its device.
        os.environ["CUDA_VISIBLE_DEVICES"] = ""
    return class_(
        CUDA_VISIBLE_DEVICES=[gpu.uuid for gpu in plan.gpus],
        n_workers=plan.workers,
        threads_per_worker=spec.threads or 1,
        device_memory_limit=plan.spill_threshold or 0,
        enable_cudf_spill=spec.spilling == "cudf",
        # One allocator for CuPy and cuDF: RMM's pool of the requested size, or CUDA's own: see `worker.memory`.
        rmm_pool_size=plan.pool,
        rmm_allocator_external_lib_list=["cupy"],
        pre_import="cupy,dask.dataframe" + ",cudf,dask_cudf" * (spec.spilling == "cudf"),
        **common,
    )


def _without_cudf(class_: Any) -> Any:
    """The class without the plugin of workers that imports cuDF to switch its spilling off; see `worker.imports`."""

    class Cluster(class_):  # type: ignore[misc]
        def new_worker_spec(self) -> dict[str, Any]:
            workers: dict[str, Any] = super().new_worker_spec()
            for worker in workers.values():
                options = worker["options"]
                options["plugins"] = {each for each in options["plugins"] if type(each).__name__ != "CUDFSetup"}
                options["env"]["CUDF_SPILL"] = "off"
            return workers

    return Cluster


def import_dask_cuda() -> Any:
    """Import the class `dask_cuda.LocalCUDACluster`."""
    os.environ |= {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "RAPIDS_NO_INITIALIZE": "True"}
    from dask_cuda import LocalCUDACluster

    return LocalCUDACluster


_NEVER = "10000 days"


def import_what_clusters_need(*, dashboard: bool) -> None:
    """Import the modules of a scheduler and its nannies early: half a second, and as much for the dashboard."""
    from distributed.utils import get_mp_context

    if has_usable_gpus():
        import_dask_cuda()
    for name in (*routes_without_proxy(), *(["distributed.dashboard.scheduler"] if dashboard else [])):
        import_module(name)
    with dask.config.set({"distributed.worker.multiprocessing-method": "forkserver"}):
        get_mp_context()  # imports pandas and others the first time


def create_cluster(
    spec: ClusterSpec,
    plan: Plan,
    security: Any,
    directory: Path,
    cluster_class: ClusterClass | None = None,
    *,
    sockets: Path | None,
    shared_directory: Callable[[str], Path],
    logs: Path,
    dashboard: bool = True,
) -> Any:
    """Create the cluster of `plan`.

    - `spec`, `plan`: the options of the cluster, and what they mean on this machine.
    - `security`: a `distributed.Security`, or `None` for a protocol without TLS.
    - `directory`: the directory of the workers' scratch space.
    - `cluster_class`: a cluster class of the administrator; used instead of an engine.
    - `sockets`: the directory of the Unix sockets; `None` for the other protocols.
    - `shared_directory`: creates a directory for files that jobs on other machines read, in the given directory or a
      default one.
    - `dashboard`: whether to load Dask's dashboard, which takes half a second.

    The cluster is asynchronous; awaiting it starts it.
    """
    common: dict[str, Any] = {
        "asynchronous": True,
        "security": security,
        "host": "127.0.0.1",
        "scheduler_port": 0,
        "dashboard_address": "127.0.0.1:0",
        "scheduler_kwargs": {"dashboard": dashboard},
        "worker_dashboard_address": None,
        "local_directory": str(directory),
        "preload": ["jupyter_gpudask.worker.preload"],
        # Tasks that request a GPU as a Dask resource run one at a time on each worker, on the CPU too.
        "resources": {"GPU": 1} | spec.resources,
        "memory_limit": "auto" if spec.memory_limit == "auto" else spec.memory_limit or 0,
    }
    if sockets is not None:
        common |= {"protocol": SCHEME, "host": host_of(sockets)}
    elif spec.protocol == "ucx" and plan.has_gpus and cluster_class is None:
        common["protocol"] = "ucx"
    if not plan.has_gpus:
        # Dask would report metrics of the first GPU, which is not the workers', and would fail if CUDA_VISIBLE_DEVICES
        # has a value that CUDA accepts and NVML does not, such as -1.
        dask.config.set({"distributed.diagnostics.nvml": False})
    if cluster_class is not None:
        cluster = make_cluster(cluster_class, spec, common, shared_directory, logs)
    else:
        cluster = _MAKE[plan.engine](spec, plan, common)
    if isinstance(cluster, LocalCluster | HostsCluster) or is_job_queue(type(cluster)):
        # Let nannies restart their workers however often they die, and `JobQueue` decide about jobs that have ended.
        # Dask gives up a worker that is missing 15 s after an exit, even if it is being restarted after another exit.
        dask.config.set({"distributed.deploy.lost-worker-timeout": _NEVER})
    return cluster


def _make_cpu_cluster(spec: ClusterSpec, plan: Plan, common: dict[str, Any]) -> Any:
    if common["memory_limit"] == "auto":  # given explicitly, it would be a share for each thread of a worker
        common = {name: value for name, value in common.items() if name != "memory_limit"}
    threads = spec.threads or max(1, CPU_COUNT // plan.workers)
    return LocalCluster(n_workers=plan.workers, threads_per_worker=threads, processes=True, **common)


_MAKE: dict[Engine, Callable[..., Any]] = {"cuda": make_cuda_cluster, "cpu": _make_cpu_cluster}


def worker_names(cluster: Any, entry: Hashable) -> list[str]:
    """The names of the workers of an entry of the specification of a `distributed.SpecCluster`.

    An entry is a worker, or a job or a host with a group of workers, whose names end differently.
    """
    return [f"{entry}{suffix}" for suffix in cluster.worker_spec.get(entry, {}).get("group", ("",))]


_SSH_ENVIRONMENT = ("PYTHONUNBUFFERED=1",)  # what tasks print is in the log at once
# After this part of the start timeout the start fails because of the host that does not respond, which it names.
_PART_OF_START = 0.5


def make_ssh_cluster(options: dict[str, Any], spec: ClusterSpec, common: dict[str, Any], logs: Path) -> Any:
    """A cluster with workers on other hosts; see `create_cluster`.

    The options are those of `distributed.SSHCluster`. The first host is this machine, where the scheduler runs, as the
    others reach it.

    Raises `SpecError` if the option ``worker_class`` is not that of the engine, or ``hosts`` has no host for workers.
    """
    engine = ENGINES[spec.class_engine]
    worker_class = engine.worker_class
    if options.get("worker_class", worker_class) != worker_class:
        raise SpecError("worker-class", value=options["worker_class"], engine=spec.engine, allowed=worker_class)
    defined = SSHCluster(**options, asynchronous=True)  # it checks the options, and gives each worker its own
    here, *others = options["hosts"]
    if not others:
        raise SpecError("hosts", value=", ".join(options["hosts"]))
    per_host = (options.get("worker_options") or {}).get("n_workers", 1)
    names = others if len(set(others)) == len(others) else [f"{host}-{number}" for number, host in enumerate(others)]
    hosts = {}
    for name, remote in zip(names, defined.worker_spec.values(), strict=True):
        given = remote["options"] | {"gpu": engine.has_gpus, "security": common["security"], "logs": logs}
        given["limit"] = _PART_OF_START * spec.start_timeout
        hosts[name] = {"cls": RemoteWorkers, "options": given}
        if per_host > 1:
            hosts[name]["group"] = [f"-{number}" for number in range(per_host)]
    scheduler = {
        "host": here,
        "port": 0,
        "protocol": "tls://",
        "security": common["security"],
        "dashboard_address": common["dashboard_address"],
        **common["scheduler_kwargs"],
        **(options.get("scheduler_options") or {}),
    }
    return HostsCluster(hosts, per_host, spec.workers or len(hosts) * per_host, scheduler, security=common["security"])


class HostsCluster(SpecCluster):
    """A cluster on given hosts, with a fixed number of workers on each that is used.

    - `workers`: the number of workers at first.

    - `capacity`: the number of workers on all hosts.
    """

    def __init__(
        self, hosts: dict[str, Any], per_host: int, workers: int, scheduler: dict[str, Any], security: Any
    ) -> None:
        self._hosts, self._per_host = hosts, per_host
        self.capacity = len(hosts) * per_host
        check_capacity(workers, self.capacity)
        used = dict(list(hosts.items())[: math.ceil(workers / per_host)])
        super().__init__(used, {"cls": Scheduler, "options": scheduler}, asynchronous=True, security=security)

    def scale(self, n: int = 0, memory: Any = None, cores: Any = None) -> Any:
        """Scale to the hosts that `n` workers need."""
        return super().scale(math.ceil(n / self._per_host), memory=memory, cores=cores)

    def new_worker_spec(self) -> dict[str, Any]:
        """A host that is not used."""
        return dict([next(host for host in self._hosts.items() if host[0] not in self.worker_spec)])


def check_capacity(workers: int, capacity: int) -> None:
    """Raise `GpuUnavailableError` if the hosts of a cluster preset have fewer workers."""
    if workers > capacity:
        raise GpuUnavailableError("too-few-hosts", workers=workers, capacity=capacity)


class RemoteWorkers(Worker):
    """The workers of one host: ``python -m jupyter_gpudask worker``, started over SSH.

    The credentials go to its standard input, and so neither to a command line nor to a file. The workers end with this
    input, and so with the connection: SSH servers do not pass on signals to processes of root.
    """

    def __init__(self, *arguments: Any, gpu: bool, security: Any, logs: Path, limit: float, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._limit = limit
        self._gpu, self._security, self._logs = gpu, security, logs
        self._log: IO[bytes] | None = None
        self._watching: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Connect and start the process; the workers register with the scheduler by themselves."""
        try:
            import asyncssh
        except ImportError:
            raise ClusterStartError("no-asyncssh", install=pip_install("ssh")) from None
        try:
            async with asyncio.timeout(self._limit):
                self.connection = await asyncssh.connect(self.address, **self.connect_options)
        except TimeoutError:
            raise ClusterStartError("ssh-timeout", host=self.address, limit=self._limit) from None
        except (OSError, asyncssh.Error, TypeError, ValueError) as error:  # the last two for invalid options and keys
            if isinstance(error, OSError) and error.filename:
                raise ClusterStartError("ssh-file", file=error.filename, error=error.strerror) from None
            raise ClusterStartError(
                "ssh-failed", host=self.address, error=str(error).rstrip(".") or type(error).__name__
            ) from None
        self._log = worker_log(self._logs, self.name).open("ab", buffering=0)
        self.proc = await self.connection.create_process(
            self.command(), stdout=self._log, stderr=asyncssh.STDOUT, encoding=None
        )
        keys = self._security.get_tls_config_for_role("worker")
        credentials = {"ca": keys["ca_file"], "certificate": keys["cert"], "key": keys["key"]}
        self.proc.stdin.write(json.dumps(credentials).encode() + b"\n")
        self._watching = asyncio.create_task(self._watch(self.proc))
        await super(Worker, self).start()

    async def _watch(self, process: Any) -> None:
        await process.wait()
        if self.status == Status.running:  # it was not closed
            self.status = Status.failed

    def command(self) -> str:
        """The command line of the workers, for the shell of the host."""
        environment = [*_SSH_ENVIRONMENT]
        if self._gpu:
            environment.append("CUDA_VISIBLE_DEVICES=" + ",".join(map(str, range(self.n_workers))))
        words = ["env", *environment, self.remote_python or sys.executable, "-P", "-m", "jupyter_gpudask", "worker"]
        words += [self.scheduler, "--security", "-", "--name", str(self.name)]
        words += [] if self._gpu else ["--cpu", "--nworkers", str(self.n_workers)]
        for option, value in self.kwargs.items():
            words += [f"--{option.replace('_', '-')}", str(value)]
        return shlex.join(words)

    async def close(self) -> None:
        """End the process and the connection."""
        if self._watching is not None:
            self._watching.cancel()
        await super().close()
        if self._log is not None:
            self._log.close()
