"""The fork server: a process that imports the modules of workers once, and from which workers are forked.

This is the fork server of `multiprocessing`. Dask uses it with ``distributed.worker.multiprocessing-method:
forkserver``, and this package uses it by default for workers with GPUs. Without it, each worker imports the same
modules again, after the supervisor has imported them.
"""

from __future__ import annotations

import asyncio
import logging
import multiprocessing
import os
import signal
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from multiprocessing import forkserver
from typing import TYPE_CHECKING, Any

from ..machine.directories import LOGS_VARIABLE, ClusterDirectory
from ..machine.lifeline import on_forced_exit
from ..machine.nvml import count_gpus
from ..protocol.engines import ENGINES, Engine, engine_with
from . import fork_preload

if TYPE_CHECKING:
    from ..protocol.verbs import Start

logger = logging.getLogger(__name__)

METHOD = "distributed.worker.multiprocessing-method"
"""Dask's setting of how workers start: spawned, if it is not set."""

_WORKER = ("distributed.nanny", "jupyter_gpudask.worker.preload")
# The defaults of `_PRE_SPAWN`, which are only known after an import of distributed.
_DEFAULTS = {"MALLOC_TRIM_THRESHOLD_": 65536, "OMP_NUM_THREADS": 1, "MKL_NUM_THREADS": 1, "OPENBLAS_NUM_THREADS": 1}
_PRE_SPAWN = "distributed.nanny.pre-spawn-environ"
_AFTER_FORK = "distributed.nanny.environ"


class ForkServer:
    """The fork server of this process.

    Workers are forked only if it can be forked safely and has the environment variables that workers would be started
    with, and only as long as it runs. Otherwise Dask starts them as usual.

    - `engine`: the engine for whose workers it imports modules.
    - `refusal`: why it is not used; empty if it is.
    """

    def __init__(self, engine: Engine, environment: dict[str, str]) -> None:
        self.refusal = ""
        self.engine = engine
        self._environment = environment
        self._pid = 0
        self._pidfd = -1

    @classmethod
    def start(
        cls,
        engine: Engine,
        environment: Mapping[str, str],
        directory: ClusterDirectory,
        configured: Mapping[str, Any] | None = None,
    ) -> ForkServer | None:
        """Start it; `None` if there is no room for its socket.

        Call it in the main thread, because the fork server ends with the thread that has started it.

        - `engine`: the engine of the cluster: `engine_of_forks`.
        - `environment`: the ``--environment`` of the cluster.
        - `directory`: the directory of the cluster, for its socket.
        - `configured`: the variables of workers in Dask's configuration, by default none.
        """
        variables = {**os.environ, **environment, **ENGINES[engine].variables}
        modules = (*_WORKER, *ENGINES[engine].modules)
        server = cls(engine, _environment_of_workers(variables, {**_DEFAULTS, **(configured or {}), **environment}))
        # Else `multiprocessing` would create its socket where nobody removes it after this process is killed.
        multiprocessing.current_process()._config["tempdir"] = str(directory.path)  # type: ignore[attr-defined] # noqa: SLF001
        multiprocessing.set_forkserver_preload([fork_preload.__name__])
        try:
            with _as_own_environment({**server._environment, fork_preload.MODULES_VARIABLE: ",".join(modules)}):
                forkserver.ensure_running()
        except OSError as error:  # such as a path that is too long for a socket
            logger.warning("There is no fork server: %s", error)
            return None
        server._pid = _pid_of_fork_server()
        return server

    def suits(self, engine: str | None, environment: Mapping[str, str]) -> bool:
        """Whether workers of that engine can be forked, with these variables besides those of this process."""
        return engine == self.engine and not _variables_of_imports(environment)

    def has(self, configured: Mapping[str, Any]) -> bool:
        """Whether it has these variables of Dask's configuration."""
        variables = {**os.environ, **ENGINES[self.engine].variables}
        return self._environment == _environment_of_workers(variables, {**_DEFAULTS, **configured})

    async def check(self, engine: str, limit: float) -> None:
        """Wait for the imports, at most `limit` seconds, and find out whether it can be forked."""
        try:
            async with asyncio.timeout(limit):
                refusal = await asyncio.to_thread(_ask)
            self._pid = _pid_of_fork_server()  # if it had ended, `multiprocessing` has started another one
            self._pidfd = os.pidfd_open(self._pid)
        except (OSError, EOFError, TimeoutError) as error:
            refusal = f"it does not answer ({type(error).__name__})"
        if engine != self.engine:
            refusal = f"it was started for the engine {self.engine}"
        self.refusal = "it was not prepared" if refusal is None else refusal

    def use(self) -> None:
        """Let Dask fork the next workers, if that is possible, and spawn them once the fork server has ended."""
        import dask.config

        environment = _environment_of_workers(os.environ, dask.config.get(_PRE_SPAWN))
        both = _variables_of_imports(environment).items() ^ _variables_of_imports(self._environment).items()
        if not self.refusal and both:
            self.refusal = f"environment variables have changed: {', '.join(sorted({name for name, _ in both}))}"
        if self.refusal:
            logger.warning("Workers are not forked from the fork server, because %s", self.refusal)
            dask.config.set({METHOD: "spawn"})
            self.close()
            return
        late = {name: value for name, value in environment.items() if name == LOGS_VARIABLE}
        dask.config.set({METHOD: "forkserver", _AFTER_FORK: late | dask.config.get(_AFTER_FORK)})
        asyncio.get_running_loop().add_reader(self._pidfd, self._on_exit)

    def close(self) -> None:
        """Kill it, and with it all workers that were forked from it."""
        self._stop_watching()
        pid, self._pid = self._pid, 0
        if pid:
            with suppress(ProcessLookupError, ChildProcessError):
                os.kill(pid, signal.SIGKILL)
                # `multiprocessing` takes one that is still ending for one that runs, and reads its status itself.
                os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)

    def _on_exit(self) -> None:
        import dask.config

        logger.warning("The fork server has ended, and its workers with it; they are started again without it")
        dask.config.set({METHOD: "spawn"})
        self._pid = 0
        self._stop_watching()

    def _stop_watching(self) -> None:
        pidfd, self._pidfd = self._pidfd, -1
        if pidfd >= 0:
            asyncio.get_running_loop().remove_reader(pidfd)
            os.close(pidfd)


def engine_of_forks(request: Start, *, default: str = "spawn") -> Engine | None:
    """The engine of the cluster, if its workers are to be forked; else `None`, and Dask does not fork them either.

    `request`: the options of the cluster. `default`: Dask's setting of how workers start, if it is not set.
    """
    import dask.config

    from ..machine.plan import engine_of

    spec = request.spec
    of_environment = dask.config.collect_env(spec.environment)
    config = dask.config.merge(dask.config.collect(), request.settings, of_environment)
    method = dask.config.get(METHOD, default, config=config)
    others = request.cluster_class is not None or bool(spec.preset) or spec.protocol == "ucx"
    # Variables of Python may let it import other modules.
    own_python = any(name.startswith("PYTHON") for name in spec.environment)
    if method == "forkserver" and hasattr(os, "pidfd_open") and not others and not own_python:
        return engine_of(spec)
    if dask.config.get(METHOD, None) == "forkserver":  # Dask would fork them without what is checked here
        dask.config.set({METHOD: "spawn"})
    return None


def _variables_of_imports(environment: Mapping[str, str]) -> dict[str, str]:
    """The variables that the imports of workers may read: all but one, which is set later."""
    return {name: value for name, value in environment.items() if name != LOGS_VARIABLE}


def _environment_of_workers(environment: Mapping[str, str], pre_spawn: Mapping[str, Any]) -> dict[str, str]:
    """The variables with which Dask starts workers. Source: `distributed.nanny.Nanny` and `distributed.proctitle`."""
    added = {name: environment.get(name, str(value)) for name, value in pre_spawn.items() if value is not None}
    if added.get("PYTHONHASHSEED") in (None, "0"):
        added["PYTHONHASHSEED"] = "6640"
    return {**environment, **added, fork_preload.PARENT_VARIABLE: str(os.getpid())}


@contextmanager
def _as_own_environment(environment: Mapping[str, str]) -> Iterator[None]:
    """Processes that are started within have these variables."""
    before = dict(os.environ)
    os.environ.clear()
    os.environ.update(environment)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def _pid_of_fork_server() -> int:
    pid: int = forkserver._forkserver._forkserver_pid  # type: ignore[attr-defined] # noqa: SLF001
    return pid


def _ask() -> str | None:
    """Why the fork server must not be forked, as a process that was forked from it knows it."""
    context = multiprocessing.get_context("forkserver")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=fork_preload.send_refusal, args=(sender,), daemon=True)
    with receiver:
        with sender:
            process.start()
        answer: str | None = receiver.recv()
    process.join()
    return answer


class Preparation:
    """The directory of the cluster, and the process from which its workers can be forked."""

    def __init__(self) -> None:
        self._directory: ClusterDirectory | None = None
        self._fork_server: ForkServer | None = None

    def prepare_gpu_workers(self) -> None:
        """Let the fork server import CuPy and others now, if there are GPUs: before this process imports Dask.

        In the main thread, see `ForkServer.start`. On the CPU workers import little, and are forked only if Dask is
        configured so.
        """
        if hasattr(os, "pidfd_open") and os.environ.get("CUDA_VISIBLE_DEVICES") not in ("", "-1") and count_gpus():
            with suppress(OSError):  # which the start of the cluster raises, too
                self._directory = _new_directory()
                self._fork_server = ForkServer.start(engine_with(gpus=True), {}, self._directory)

    def take_directory(self) -> ClusterDirectory:
        """The directory of the cluster; removed if this process is ended by force."""
        directory, self._directory = self._directory, None
        return directory or _new_directory()

    def take_fork_server(self, request: Start, directory: ClusterDirectory) -> ForkServer | None:
        """The fork server of a cluster in that directory; `None` if its workers are not forked."""
        import dask.config

        server, self._fork_server = self._fork_server, None
        environment = request.spec.environment
        configured = dask.config.get(_PRE_SPAWN, {})
        engine = engine_of_forks(request)
        if server is not None:
            suits = server.suits(engine_of_forks(request, default="forkserver"), environment)
            if suits and server.has(configured):
                return server
            server.close()
            engine = server.engine if suits else engine
        return None if engine is None else ForkServer.start(engine, environment, directory, configured)

    def close(self) -> None:
        """Remove what no cluster has taken."""
        if self._fork_server is not None:
            self._fork_server.close()
        if self._directory is not None:
            self._directory.remove()


def _new_directory() -> ClusterDirectory:
    directory = ClusterDirectory()
    on_forced_exit(directory.remove)
    return directory
