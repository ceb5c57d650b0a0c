"""A running cluster, as the kernel sees it: start it or attach to it, import libraries meanwhile, connect a client."""

from __future__ import annotations

import asyncio
import ctypes
import gc
import importlib
import json
import os
import re
import sys
import threading
import warnings
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from ..errors import ClusterLostError, ClusterStartError, GpuUnavailableError, ResultsLostError

if TYPE_CHECKING:
    from ..client.kernel_client import KernelClient
    from ..launcher.cluster import Cluster, LostCallback, ProgressCallback
    from ..protocol.messages import Action, Progress, Ready
    from ..protocol.spec import ClusterSpec
    from ..protocol.state import ClusterState

_POLL_INTERVAL = 0.1
_CANCEL_TIMEOUT = 6.0
_NOT_INITIALIZED = 3  # CUDA_ERROR_NOT_INITIALIZED

_P = ParamSpec("_P")
_T = TypeVar("_T")


@dataclass
class RunningCluster:
    """A running cluster and this kernel's client of it; all methods block."""

    loop: EventLoopThread  # runs the coroutines of `process`
    process: Cluster  # the cluster: over its supervisor, or over the client of a scheduler that somebody else started
    client: KernelClient  # the Dask client
    cpu_announced: bool = False  # whether a cell has said that the cluster is the CPU cluster

    @property
    def ready(self) -> Ready:
        """What was reported when the cluster was up."""
        return self.process.ready

    def can(self, action: Action) -> bool:
        """Whether an action is possible with this cluster."""
        return action not in self.ready.limits

    @property
    def is_owned(self) -> bool:
        """Whether this kernel or its server started the cluster; other clusters are left as they were."""
        return self.ready.is_owned

    @property
    def is_server_owned(self) -> bool:
        """Whether the Jupyter server holds the cluster, which then outlives the kernel's process."""
        return self.ready.spec is not None

    @property
    def spec(self) -> ClusterSpec:
        """The options of the cluster."""
        return self.process.spec

    def ask(self, verb: Callable[_P, Awaitable[_T]], *arguments: _P.args, **named: _P.kwargs) -> _T:
        """Call a method of `process` in the event loop, and wait for its result."""

        async def ask() -> _T:
            return await verb(*arguments, **named)

        return self.loop.run(ask())

    def notify(self, verb: Callable[_P, Awaitable[None]], *arguments: _P.args, **named: _P.kwargs) -> None:
        """Call a method of `process` without waiting; if the cluster is lost, its next use reports that."""

        async def notify() -> None:
            with suppress(ClusterLostError):
                await verb(*arguments, **named)

        self.loop.start(notify())

    def state(self) -> ClusterState:
        """The current state; raises `ClusterLostError` if the cluster does not respond."""
        return self.ask(self.process.state)

    def scale(self, workers: int) -> ClusterState:
        """Scale to `workers` workers, and wait until they are up, or are jobs of a batch system that wait."""

        async def scale() -> ClusterState:
            state = await self.process.scale(workers)
            async with asyncio.timeout(self.spec.start_timeout):
                while not has_workers_wanted(state):
                    await asyncio.sleep(_POLL_INTERVAL)
                    state = await self.process.state()
            return state

        def has_workers_wanted(state: ClusterState) -> bool:
            # More than `workers` where a job or a host has several.
            wanted = state.workers_wanted or workers
            return len(state.workers) == wanted or (len(state.workers) < wanted and bool(state.jobs))

        try:
            return self.loop.run(scale())
        except TimeoutError:
            raise ClusterStartError("scale-late", workers=workers, limit=self.spec.start_timeout) from None

    def log(self, lines: int) -> dict[str, str]:
        """The last `lines` lines of the logs of the scheduler's process and of each worker, by their titles."""
        from ..protocol.state import names_of
        from ..protocol.verbs import SUPERVISOR

        logs = self.ask(self.process.logs, lines)
        state = self.state()
        titles = {worker.name: title for worker, title in zip(state.workers, names_of(state.workers), strict=True)}
        return {titles.get(name, name): text for name, text in ({"Scheduler": logs.pop(SUPERVISOR)} | logs).items()}

    def check_libraries(self, names: Sequence[str]) -> None:
        """Check that the workers have these libraries in the kernel's versions; raises `BackendUnavailableError`."""
        self.ask(self.process.check_libraries, names)

    def disconnect(self, end: str, timeout: float) -> None:
        """Close the client after the cluster was closed or lost; code that waits for results raises `end`."""
        from ..polars.choice import leave
        from ..switch.context import default_client

        if not self.is_owned:
            leave(self.client)
        if default_client.refuse(self.client, partial(ResultsLostError, "cluster-ended", end=end)):
            # Else closing it would set Dask's scheduler back, and the running cell could compute in this process.
            self.client._set_as_default = False  # noqa: SLF001
        self.client.end = end
        self.client.close(timeout=timeout)

    def begin_cell(self) -> bool:
        """Begin to count the tasks of a cell; returns whether its device memory and energy are measured, too.

        Nothing is measured without GPUs, nor on a cluster of somebody else: RMM's statistics would change the allocator
        of its workers, and the energy is that of all its users.
        """
        if self.client.status != "running":
            return False
        self.client.begin_cell()
        return self.is_owned and self.ready.has_gpus


class EventLoopThread:
    """Runs coroutines for blocking code."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, name="gpudask-loop", daemon=True).start()

    def start(self, coroutine: Coroutine[Any, Any, object]) -> None:
        """Run `coroutine`, which handles its errors itself, and do not wait for it."""
        asyncio.run_coroutine_threadsafe(coroutine, self._loop)

    def run(self, coroutine: Coroutine[Any, Any, _T], while_waiting: Callable[[], None] | None = None) -> _T:
        """Wait for `coroutine` and return its result; ten times a second, call `while_waiting` in this thread.

        If this thread is interrupted, the coroutine is cancelled; its clean-up has finished when this raises.
        """
        done = threading.Event()

        async def run_and_signal() -> _T:
            try:
                return await coroutine
            finally:
                done.set()

        future = asyncio.run_coroutine_threadsafe(run_and_signal(), self._loop)
        try:
            while not done.wait(_POLL_INTERVAL):
                if while_waiting is not None:
                    while_waiting()
            return future.result()
        except BaseException:
            if not done.is_set():
                future.cancel()
                done.wait(_CANCEL_TIMEOUT)
            raise


# Credentials, what a Dask client sets itself, and what a cell for GPUs changes.
_CREDENTIAL = re.compile(
    r"(?<![a-z])(tls|ca|auth|authorization|password|passphrase|passwd|token|secret|credentials?|cookie|"
    r"(api|access|private|account|ssh)[-_]?key)s?(?![a-z])",
    re.IGNORECASE,
)
_KEPT = frozenset({("scheduler",), ("shuffle",), ("array", "backend"), ("dataframe", "backend")})


def launch(
    loop: EventLoopThread,
    spec: ClusterSpec,
    on_progress: ProgressCallback,
    while_waiting: Callable[[], None],
    on_lost: LostCallback | None,
) -> RunningCluster:
    """Start a cluster with the options `spec`, or attach to the one that the Jupyter server holds for this kernel.

    `on_progress`: called in another thread for each worker that is up. `while_waiting`: called in this thread ten times
    a second. `on_lost`: called in another thread if the cluster is lost; `None` for a temporary cluster, whose client
    does not become Dask's default.
    """
    from ..protocol.messages import Progress
    from .server_connection import start_cluster

    started: list[Cluster] = []
    settings, left_out = changed_settings()
    for name in left_out:
        warnings.warn(
            f"Dask's setting {name} of this kernel does not reach the cluster: JSON does not represent its value.",
            stacklevel=2,
        )
    imports = BackgroundImports(spec)

    def report_progress(progress: Progress) -> None:
        imports.on_progress(progress)
        on_progress(progress)

    async def start() -> None:
        cluster = await start_cluster(
            spec, path=import_path(), settings=settings, on_progress=report_progress, on_lost=on_lost
        )
        started.append(cluster)

    try:
        loop.run(start(), while_waiting)
        ready = started[0].ready
        on_progress(Progress(engine=ready.engine, ready=ready.workers, total=ready.workers))
        return _connect_and_import(loop, started[0], imports, while_waiting, set_as_default=on_lost is not None)
    except BaseException:
        imports.cancel()
        for process in started:
            loop.run(process.close())
        raise


@contextmanager
def temporary_cluster(loop: EventLoopThread, spec: ClusterSpec) -> Iterator[RunningCluster]:
    """A second cluster beside the kernel's own; its client is not Dask's default."""
    cluster = launch(loop, spec, lambda _: None, lambda: None, None)
    try:
        yield cluster
    finally:
        cluster.client.close(timeout=2)
        loop.run(cluster.process.close())


def attach(loop: EventLoopThread, on_lost: LostCallback) -> RunningCluster | None:
    """Attach to the cluster that the Jupyter server holds for this kernel; `None` if there is none."""
    from .server_connection import attach_cluster, has_server

    if not has_server():
        return None
    process = loop.run(attach_cluster(on_lost))
    if process is None:
        return None
    try:
        return _connect_and_import(loop, process, BackgroundImports(process.spec), lambda: None)
    except BaseException:
        loop.run(process.detach())
        raise


def _connect_and_import(
    loop: EventLoopThread,
    process: Cluster,
    imports: BackgroundImports,
    while_waiting: Callable[[], None],
    *,
    set_as_default: bool = True,
) -> RunningCluster:
    imports.on_progress(process.ready)
    imports.wait(while_waiting, for_client=True)
    from ..client.calls import prepare_workers
    from ..client.connect import connect

    client = connect(process.ready, set_as_default=set_as_default)
    try:
        if process.ready.has_gpus:
            prepare_workers(client)
        imports.wait(while_waiting)
    except BaseException:
        client.close(timeout=1)
        raise
    return RunningCluster(loop, process, client)


def import_path() -> list[str]:
    """The absolute folders of ``sys.path``, which workers import from, too."""
    return [os.path.abspath(folder) for folder in sys.path]  # noqa: PTH100 - an entry may be empty


def options_after(options: Mapping[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """The options of a cluster, some of which the user has given again as `changes`."""
    from ..protocol.spec import DEVICES

    if "preset" in changes:
        return dict(changes)
    changes_devices = "gpus" in changes or "engine" in changes
    kept = {name: value for name, value in options.items() if not (changes_devices and name in DEVICES)}
    return kept | changes


def spec_on_this_machine(options: dict[str, Any], running: Ready | None) -> ClusterSpec:
    """The options as a `ClusterSpec`, checked as far as possible while the cluster that will be replaced still runs."""
    from ..machine.plan import check_replacement, make_plan
    from ..protocol.spec import ClusterSpec

    spec = ClusterSpec.parse(options)
    if not spec.preset:  # only the server knows the cluster presets
        make_plan(spec)
    if running is not None:
        check_replacement(spec, running.pid)
    return spec


class BackgroundImports:
    """Imports Dask and, for GPUs, CuPy early, so that the first cell does not wait for these imports.

    It imports cudf-polars, too, if the user has imported Polars.

    The kernel runs no user code meanwhile, so no import meets another one that is half done.
    """

    def __init__(self, spec: ClusterSpec) -> None:
        self._spec = spec
        self._error: BaseException | None = None
        self._has_client = threading.Event()
        self._gpus_known = threading.Event()
        self._gpus: tuple[str, ...] | None = None
        self._thread = threading.Thread(target=self._run, name="gpudask-imports", daemon=True)
        self._thread.start()

    def on_progress(self, progress: Progress | Ready) -> None:
        """Read from the first message of the supervisor which GPUs the cluster will have; later ones are ignored.

        A start that waits for GPUs reports no number of workers.
        """
        is_waiting = getattr(progress, "total", 1) == 0
        if not self._gpus_known.is_set() and not is_waiting:
            uuids = tuple(gpu if isinstance(gpu, str) else gpu.uuid for gpu in progress.gpus)
            self._gpus = uuids if progress.has_gpus else None
            self._gpus_known.set()

    def cancel(self) -> None:
        """Let the thread end without CUDA: the cluster did not start."""
        self._gpus_known.set()

    def wait(self, while_waiting: Callable[[], None], *, for_client: bool = False) -> None:
        """Wait for the imports, and call `while_waiting` ten times a second; raises what an import of Dask raised.

        `for_client`: wait only for those that a client needs. It imports nothing that the thread imports after these.
        """
        while self._thread.is_alive() and not (for_client and self._has_client.is_set()):
            self._thread.join(_POLL_INTERVAL)
            while_waiting()
        if self._error is not None:
            raise self._error

    def _run(self) -> None:
        collects = gc.isenabled()
        gc.disable()  # it takes a tenth of the time of imports
        try:
            from ..client import connect  # noqa: F401

            self._has_client.set()
            if not self._will_use_gpus():
                return
            for name in ("dask.dataframe", "cupy"):  # these do not initialize CUDA when they are imported
                with suppress(Exception):  # a cell that needs the library shows the error
                    importlib.import_module(name)
            self._gpus_known.wait()
            if self._gpus is not None:
                set_first_device(self._gpus)
                if self._spec.spilling == "cudf":  # for a kernel that imports cuDF, as results on GPUs do
                    os.environ.setdefault("CUDF_SPILL", "on")
                if "polars" in sys.modules:
                    with suppress(Exception):  # the first query shows the error
                        importlib.import_module("cudf_polars.engine.dask")
        except BaseException as error:  # noqa: BLE001 - raised by `wait`
            self._error = error
        finally:
            if collects:
                gc.enable()

    def _will_use_gpus(self) -> bool:
        from ..machine.gpus import visible_gpus

        try:
            return self._spec.may_use_gpus and bool(visible_gpus())
        except GpuUnavailableError:
            return False


def set_first_device(gpus: Sequence[str]) -> None:
    """Make the first of `gpus`, by UUID, device 0 of this process, unless CUDA is initialized already.

    Results that are moved to the kernel are then on a GPU that its cluster has reserved, and not on that of another
    cluster. All other GPUs stay visible.
    """
    if not gpus:
        return
    from ..machine.gpus import visible_gpus

    visible = [gpu.uuid for gpu in visible_gpus()]
    first = [uuid for uuid in gpus if uuid in visible][:1]
    if first and first != visible[:1] and not _is_initialized():
        os.environ["CUDA_VISIBLE_DEVICES"] = ",".join([*first, *(uuid for uuid in visible if uuid not in first)])


def _is_initialized() -> bool:
    """Whether CUDA is initialized in this process; from then on it ignores changes of ``CUDA_VISIBLE_DEVICES``.

    Source: CUDA Driver API, "Initialization": before, all other functions return ``CUDA_ERROR_NOT_INITIALIZED``.
    """
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return False
    return int(driver.cuDeviceGetCount(ctypes.byref(ctypes.c_int()))) != _NOT_INITIALIZED


def changed_settings() -> tuple[dict[str, Any], list[str]]:
    """The settings that differ from Dask's defaults, without credentials.

    Returns the settings, nested as in `dask.config.config`, and the names of those whose values JSON does not
    represent, which are left out. Both are empty if this kernel has not imported Dask: each process reads Dask's files
    and environment variables itself.
    """
    if "dask.config" not in sys.modules:
        return {}, []
    from dask import config  # waits for another thread that imports it

    left_out: list[str] = []
    with config.config_lock:
        defaults = config.merge(*reversed(config.defaults))
        return _changes(config.config, defaults, (), left_out), left_out


def _changes(
    settings: Mapping[str, Any], defaults: Mapping[str, Any], section: tuple[str, ...], left_out: list[str]
) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in settings.items():
        path, default = (*section, str(name)), defaults.get(name)
        if path in _KEPT or _CREDENTIAL.search(path[-1]):
            continue
        if isinstance(value, Mapping):
            if changed := _changes(value, default if isinstance(default, Mapping) else {}, path, left_out):
                found[name] = changed
        elif value is default:
            continue
        elif not _is_json({name: value}):
            left_out.append(".".join(path))
        elif name not in defaults or value != default:
            found[name] = value
    return found


def _is_json(value: object) -> bool:
    try:
        return bool(json.loads(json.dumps(value, ensure_ascii=False).encode()) == value)
    except (TypeError, ValueError, RecursionError):
        return False
