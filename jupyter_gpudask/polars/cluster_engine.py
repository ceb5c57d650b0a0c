"""Polars' engine on the GPUs of a cluster: cudf-polars' ``DaskEngine``, one for each client.

An engine starts with the first query, and is kept until its workers are others or the cluster is left.
"""

from __future__ import annotations

import asyncio
import importlib
import sys
import threading
import time
import uuid
import weakref
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from functools import cache, partial
from importlib.metadata import PackageNotFoundError, requires, version
from typing import Any

import polars as pl
from distributed import Client, default_client
from polars.exceptions import ComputeError

from ..client.calls import prepare_workers
from ..device_errors import out_of_device_memory_in
from ..errors import BackendUnavailableError, NotOnGpuError, WorkersEndedError
from ..fallback.log import Place, fallback_log
from ..inspection.user_code import user_line
from ..installation import pip_install
from ..overlay import current_record
from ..quantities import format_bytes
from ..scheduler.cells import StuckWorker, describe_ending, restart_busy
from ..scheduler.results import report_held
from ..worker.polars_ports import PortsError, Ranks
from ..worker.polars_rank import call_rank, interrupt_rank
from ..worker.polars_statistics import begin_statistics, kept_bytes, take_statistics

_STOP_TIME = 0.6
"""Seconds for which an interrupted cell waits until its query has ended."""
_MORE_TIME = 10.0
"""Seconds after these in which a worker is restarted if it has not ended, and the next query waits for its thread."""
_LONGEST_TIME = 60.0
"""The same if the next query does not wait: hundreds of scans, each with actors, can end slowly beside it."""
_RESPONSE_MARGIN = 0.4
_STOP_TIMEOUT = 1.2
_NAMES = (
    ("anonymousfunction", "a Python function"),
    ("opaque python mapfunction", "map_batches"),
    ("apply inside GroupBy", "map_groups"),
)
_LONGEST = 60
_TRIES = 3
_RESTART_TIMEOUT = 10.0


class EngineLostError(Exception):
    """A worker has ended while a query ran, or the workers are others."""


class ClusterClient:
    """The part of a `distributed.Client` that ``DaskEngine`` uses, for the workers that there are now.

    A function runs in the workers at the same time, in a thread of its own in each. If it fails in one of them, or the
    cell is interrupted, it is stopped in the others, which would wait for that one.

    Raises `BackendUnavailableError`: the workers are on several machines, and the user has not allowed them to listen
    on the network.
    """

    def __init__(self, client: Client) -> None:
        self._client = client
        info = self.scheduler_info()
        self._workers = _by_address(info)
        self._checking: Future[dict[str, Any]] | None = None
        record = current_record()
        may_listen = record is not None and record.polars_over_network
        machines = {worker["host"] for worker in info["workers"].values()}
        if len(machines) > 1 and not may_listen:
            raise BackendUnavailableError("polars-network", machines=len(machines))
        self._ranks = Ranks(len(self._workers), len(machines) == 1, may_listen)
        self.is_lost = False
        self._is_outdated = False
        self._ending: asyncio.Future[Any] | None = None

    def scheduler_info(self, n_workers: int = -1) -> dict[str, Any]:
        """As Dask's, which for a moment can have none of the workers: another thread updates it without them."""
        scheduler: Any = self._client.scheduler
        try:
            return dict(self._client.sync(scheduler.identity, n_workers=n_workers))
        except OSError:  # the connection was lost
            raise EngineLostError from None

    @property
    def size(self) -> int:
        """The number of workers on which the engine was started."""
        return len(self._workers)

    def check(self) -> bool:
        """Whether the workers are those on which the engine was started, as far as it is known.

        The next call of `run` knows it for certain; the scheduler is asked while the query is translated.
        """
        if self.is_lost or self._is_outdated or self._client.status != "running":
            return False
        scheduler: Any = self._client.scheduler
        loop: Any = self._client.loop
        self._checking = asyncio.run_coroutine_threadsafe(scheduler.identity(n_workers=-1), loop.asyncio_loop)
        return True

    def run(self, function: Callable[..., Any], *args: Any, workers: Sequence[str] | None = None, **kwargs: Any) -> Any:
        """As Dask's ``run``; the results by the address of the worker.

        Raises `EngineLostError`: the connection is lost, or the workers are not those of the engine. Without a `check`,
        those that have ended are left out.
        """
        __tracebackhide__ = True
        is_checked = self._checking is not None
        present = self._checked_workers()
        self._is_outdated = is_checked and present != self._workers
        if self._is_outdated:
            raise EngineLostError
        addresses = [address for address, _ in self._workers.items() & present.items()]
        addresses = addresses if workers is None else list(workers)
        id_ = uuid.uuid4().hex
        try:
            return self._client.sync(self._run, id_, partial(function, *args, **kwargs), addresses)
        except BaseException as error:
            if not self.is_lost:  # else the engine is being ended, for which no worker waits for the others
                self.is_lost = True
                self.stop(id_, addresses)
            if isinstance(error, OSError):  # the connection to a worker was lost
                raise EngineLostError from None
            if isinstance(error, PortsError):
                raise BackendUnavailableError("polars-ports", error=error) from None
            raise

    async def _run(self, id_: str, function: Callable[..., Any], addresses: list[str]) -> dict[str, Any]:
        run = partial(self._client._run, call_rank, id_, function, self._ranks)  # noqa: SLF001
        calls = [asyncio.ensure_future(run(workers=[address])) for address in addresses]
        try:
            await asyncio.wait(calls, return_when=asyncio.FIRST_EXCEPTION)
            results: dict[str, Any] = {}
            for call in calls:
                if call.done():  # else another one has failed, whose error this raises
                    results |= call.result()
            return results
        finally:
            for call in calls:
                call.cancel()

    def stop(self, id_: str, addresses: Sequence[str]) -> None:
        """Interrupt a call in the workers. One in which it does not end is restarted, for which this does not wait."""
        with suppress(Exception):  # an error here must not hide the first one
            stuck = self._client.sync(self._stop, id_, addresses, callback_timeout=_STOP_TIMEOUT)
            getattr(self._client, "stuck_workers", []).extend(stuck)

    async def _stop(self, id_: str, addresses: Sequence[str]) -> list[StuckWorker]:
        answers = await self._interrupt(id_, addresses, _STOP_TIME)
        if all(answers.values()) or getattr(self._client, "is_joined", False):
            return []
        silent = [address for address, ended in answers.items() if ended is None]
        ending = [address for address, ended in answers.items() if ended is False]
        restarts = (self._restart_later(id_, silent), self._restart_later(id_, ending, _LONGEST_TIME))
        self._ending = asyncio.gather(*restarts)
        report = self._client._run_on_scheduler(describe_ending, [*silent, *ending])  # noqa: SLF001
        stuck: list[StuckWorker] = await report
        return stuck

    async def _interrupt(
        self, id_: str, addresses: Sequence[str], limit: float, longest: float = 0
    ) -> dict[str, bool | None]:
        """Whether a call has ended in each worker; `None` if one does not respond, since the call holds the GIL."""
        ask = partial(self._client._run, interrupt_rank, id_, limit, longest, on_error="ignore")  # noqa: SLF001
        end = max(limit, longest) + _RESPONSE_MARGIN
        asking = (asyncio.wait_for(ask(workers=[address]), end) for address in addresses)
        answers = await asyncio.gather(*asking, return_exceptions=True)
        return {
            address: None if isinstance(answer, BaseException) else answer.get(address, True)
            for address, answer in zip(addresses, answers, strict=True)
        }

    async def _restart_later(self, id_: str, addresses: Sequence[str], longest: float = 0) -> None:
        """A large query ends slowly, because each of its actors has to: that is no reason to lose what Dask holds.

        Nor is it that a machine is so busy that a worker does not respond.
        """
        with suppress(OSError):  # the connection was lost
            answers = await self._interrupt(id_, addresses, _MORE_TIME, longest)
            busy = [address for address, ended in answers.items() if not ended]
            if busy and self._client.status == "running":  # else the client was closed meanwhile
                await self._client._run_on_scheduler(restart_busy, busy)  # noqa: SLF001

    def forget_check(self) -> None:
        """Let `run` leave out workers that have ended since the last query."""
        self._checking = None

    def _checked_workers(self) -> dict[str, str]:
        checking, self._checking = self._checking, None
        if checking is not None:
            with suppress(OSError):  # the connection was lost
                return _by_address(checking.result())
        return _by_address(self.scheduler_info())


def _by_address(info: dict[str, Any]) -> dict[str, str]:
    """The addresses of the workers, with what is different when a worker was restarted at the same address."""
    return {address: worker["local_directory"] for address, worker in info["workers"].items()}


class _Engines:
    """The engines of this process, by their clients."""

    def __init__(self) -> None:
        self._engines: weakref.WeakKeyDictionary[Client, Any] = weakref.WeakKeyDictionary()
        self._lock = threading.Lock()

    def current(self) -> Any:
        """The engine on the cluster of the running cell; a new one if there is none, or the workers are others.

        Raises `BackendUnavailableError`: this process has no cudf-polars, or one that does not support this Polars.
        """
        client = default_client()
        if client not in self._engines:
            prepare_workers(client)
        engine_class = _engine_class()
        with self._lock:
            engine = self._engines.get(client)
            if engine is not None and not engine.client.check():
                del self._engines[client]
                _shut_down(engine)
                if engine.client.is_lost:  # workers may be starting again
                    _wait_for_workers(client, engine.client.size)
                engine = None
            if engine is None:
                _wait_for_workers(client, 1)
                engine = self._engines[client] = engine_class(ClusterClient(client))
            return engine

    def run(self, method: str, *args: Any, **kwargs: Any) -> Any:
        """Call a method of the current engine; again with a new one, if a worker has ended meanwhile.

        Raises `WorkersEndedError`: a worker has ended each time.
        """
        __tracebackhide__ = True
        for _ in range(_TRIES):
            try:
                engine = self.current()
                with _measured(engine):
                    return getattr(engine, method)(*args, **kwargs)
            except EngineLostError:
                continue
            except Exception as error:
                refused = out_of_device_memory_in(error)
                if refused is None:
                    raise
            refused.add_note(_describe_memory(default_client()))
            refused.__context__ = None
            raise refused from None  # without the groups of the engine's actors, for which IPython shows no note
        raise WorkersEndedError("polars-query", tries=_TRIES)

    def shut_down(self, client: Client) -> None:
        """End the engine of a client whose cluster is left or released, and free its memory."""
        with self._lock:
            engine = self._engines.pop(client, None)
        if engine is not None:
            _shut_down(engine)

    def kept_bytes(self, client: Client) -> int | None:
        """The device memory that the engine of a client keeps between queries; `None` without one."""
        engine = self._engines.get(client)
        if engine is None or not engine.client.check():
            return None
        kept: dict[str, int] = {}
        with suppress(Exception):  # its workers may have ended
            kept = engine.client.run(partial(kept_bytes, _id_of(engine)))
        return sum(kept.values()) if kept else None

    def note_on_cpu(self, operation: str, reason: str, seconds: float = 0.0) -> None:
        """Note that an operation of the running cell runs on the CPU."""
        record, line = current_record(), user_line()
        fallback_log.add_blocks(Place(operation, line, reason), "", 1, seconds)
        if record is not None:
            record.on_host[operation] = line


@contextmanager
def _measured(engine: Any) -> Iterator[None]:
    """Note what the workers do for a query in this context, if the cell is profiled."""
    record = current_record()
    if record is None or record.polars_statistics is None:
        yield
        return
    uid = _id_of(engine)
    engine.client.run(partial(begin_statistics, uid))
    yield
    record.polars_statistics += engine.client.run(partial(take_statistics, uid)).values()


def _id_of(engine: Any) -> str:
    return str(engine._dask_ctx.rapidsmpf_id)  # noqa: SLF001


def _describe_memory(client: Client) -> str:
    """Say what holds the device memory of the workers besides a query that has no more of it."""
    only_client = client.id if getattr(client, "is_joined", False) else None
    total = client.sync(client._run_on_scheduler, report_held, {}, only_client).total  # noqa: SLF001
    if not total:
        return "The workers hold no results of Dask: the query itself needs more device memory than there is."
    return (
        f"The workers hold {format_bytes(total)} of results of Dask. "
        "To see which variables hold them, type: %gpudask held"
    )


def _wait_for_workers(client: Client, number: int) -> None:
    with suppress(TimeoutError):  # a cluster may be smaller now
        client.wait_for_workers(number, timeout=_RESTART_TIMEOUT)


def _shut_down(engine: Any) -> None:
    engine.client.forget_check()
    with suppress(Exception):  # its workers may have ended
        engine.shutdown()


@cache
def _engine_class() -> Callable[[ClusterClient], Any]:
    """The class of engines; imports cudf-polars, which takes seconds."""
    try:
        _check_version()
        dask_engine = importlib.import_module("cudf_polars.engine.dask").DaskEngine
        execute = importlib.import_module("cudf_polars").execute_with_cudf
    except (ImportError, AttributeError) as error:
        reason, install = str(error).rstrip(". "), pip_install("polars-cu13")
        raise BackendUnavailableError("polars-missing", version=pl.__version__, error=reason, install=install) from None

    class ClusterEngine(dask_engine):  # type: ignore[misc, valid-type]
        """``DaskEngine`` on the kernel's cluster; what it lacks runs on Polars' CPU engine and is noted."""

        def __init__(self, client: ClusterClient) -> None:
            self.client = client
            super().__init__(dask_client=client, engine_options=_engine_options())

        def collect(self, lf: Any, *, post_opt_callback: Any = None, **kwargs: Any) -> Any:
            __tracebackhide__ = True
            translation = _Translation(partial(execute, config=self))
            began = time.monotonic()
            try:
                result = super().collect(lf, post_opt_callback=post_opt_callback or translation, **kwargs)
            except ComputeError:
                if translation.error is not None:
                    raise translation.error from None
                raise
            for operation, reason in translation.lacking:
                engines.note_on_cpu(operation, reason, time.monotonic() - began)
            return result

        def execute(self, lf: Any, *, optimizations: Any) -> Any:
            __tracebackhide__ = True
            return pl.GPUEngine.execute(self, lf, optimizations=optimizations)

        def collect_all(self, lfs: Any, *, optimizations: Any) -> list[Any]:
            __tracebackhide__ = True
            return [self.collect(lf, optimizations=optimizations) for lf in lfs]

    return ClusterEngine


def _check_version() -> None:
    """Raise `ImportError` if the installed cudf-polars does not support the installed Polars."""
    from packaging.requirements import Requirement

    for name in ("cudf-polars-cu13", "cudf-polars-cu12"):
        with suppress(PackageNotFoundError):
            for requirement in map(Requirement, requires(name) or ()):
                if requirement.name == "polars" and not requirement.specifier.contains(pl.__version__):
                    raise ImportError(f"{name} {version(name)} needs polars{requirement.specifier}")


def _engine_options() -> dict[str, Any]:
    """Options of ``DaskEngine``: the workers' own allocator, and the cores that Dask has bound them to."""
    options: dict[str, Any] = {"raise_on_fail": True}
    if "cudf_polars.utils.config" in sys.modules:
        config = importlib.import_module("cudf_polars.utils.config")
        binding = importlib.import_module("cudf_polars.engine.hardware_binding")
        options["memory_resource_config"] = config.MemoryResourceConfig("rmm.mr.get_current_device_resource")
        options["hardware_binding"] = binding.HardwareBindingPolicy(enabled=False)
    return options


class _Translation:
    """Translates the plan of a query for GPUs; what cudf-polars lacks is handled as the cell says."""

    def __init__(self, execute: Callable[..., None]) -> None:
        self._execute = execute
        self.error: BaseException | None = None  # that is raised in the place of Polars', which has only the text
        self.lacking: list[tuple[str, str]] = []

    def __call__(self, plan: Any, started: int | None) -> None:
        try:
            self._execute(plan, started)
        except NotImplementedError as error:
            record = current_record()
            reasons = [str(each) for each in error.args[1]] if len(error.args) > 1 else [str(error)]
            self.lacking = [(_operation_of(reason), reason) for reason in reasons]
            if record is None or record.fallback == "host":
                return
            operation, reason = self.lacking[0]
            self.error = NotOnGpuError(operation, "", reason, user_line()) if record.fallback == "strict" else error
            raise
        except KeyboardInterrupt as error:
            self.error = error
            raise


def _operation_of(reason: str) -> str:
    """A short name of what cudf-polars lacks, as its error says it."""
    name = next((name for text, name in _NAMES if text in reason), reason.partition("\n")[0])
    return name if len(name) <= _LONGEST else f"{name[:_LONGEST]}..."


engines = _Engines()
"""The instance of this process."""
