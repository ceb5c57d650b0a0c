"""Dask's configuration for one cell: the backends, the options of the cell, and its threads. Runs in the kernel.

Dask keeps its configuration in one dictionary for the whole process. In the sections ``array`` and ``dataframe`` the
entry ``backend`` is looked up in the running cell first. Other threads, cells and callbacks, and code that runs after
the cell, do not see it.
"""

from __future__ import annotations

import asyncio
from contextvars import ContextVar, copy_context
from dataclasses import dataclass, field
from multiprocessing.pool import ThreadPool
from threading import Thread
from typing import Any, Literal, Self
from uuid import uuid4

from .inspection.arguments import bind, first_argument

Fallback = Literal["error", "host", "strict"]
Results = Literal["host", "gpu"]

DEFAULT_FALLBACK: Fallback = "host"
"""What happens to an operation that CuPy or cuDF lack, unless the user has chosen."""

DEFAULT_RESULTS: Results = "host"
"""Where the results of ``compute()`` are, unless the user has chosen."""

_KEY = "backend"
_SECTIONS = ("array", "dataframe")
_overlay: ContextVar[Overlay | None] = ContextVar("jupyter_gpudask_overlay", default=None)
_outside: CellRecord | None = None
_settings: ContextVar[tuple[Overlay, dict[str, str]] | None] = ContextVar("jupyter_gpudask_settings", default=None)
"""Changes by `dask.config.set` in one context; Dask's CuPy backend makes them whenever it creates an array."""


@dataclass
class CellRecord:
    """The record of one GPU cell."""

    # where the results of ``compute()`` are: on the ``"host"``, as NumPy and pandas objects, or on the kernel's
    # ``"gpu"``, as CuPy and cuDF objects
    results: Results = "gpu"
    # collections that were computed on the CPU: name -> line that computed them
    on_host: dict[str, int] = field(default_factory=dict)
    # names of collections on GPUs whose blocks were converted only to return their results on the host
    moved_for_result: set[str] = field(default_factory=set)
    # what happens to an operation that CuPy or cuDF lack: ``"error"`` raises the library's error, ``"host"`` computes
    # it on the host, ``"strict"`` raises `jupyter_gpudask.errors.NotOnGpuError`
    fallback: Fallback = "error"
    id: str = field(default_factory=lambda: uuid4().hex)  # the id of the cell: what its tasks report has it
    polars_over_network: bool = False  # whether Polars' engine may listen on the network
    cancelled: int = 0  # the number of blocks of unfinished tasks that an interrupt has cancelled
    polars_queries: int = 0  # the number of queries of Polars, except those for which the user has named an engine
    # of each query on GPUs, the `RankStatistics` of each worker; `None` if the cell is not profiled
    polars_statistics: list[Any] | None = None

    @property
    def watches(self) -> bool:
        """Whether operations that CuPy or cuDF lack are noticed."""
        return self.fallback != "error"


class Overlay:
    """The backends of one cell or ``with`` block, by section, for code that runs in its context until it ends."""

    def __init__(self, backends: dict[str, str], record: CellRecord | None = None) -> None:
        self.active = True
        self.record = record
        self._outer = current_overlay()
        self._backends = {section: _Local(backend, self) for section, backend in backends.items()}

    def enter(self) -> None:
        """Activate the overlay in the current context, and in copies of it that are made later."""
        install_sections()
        _overlay.set(self)

    def leave(self) -> None:
        """Deactivate the overlay in every context."""
        self.active = False
        if _overlay.get() is self:
            _overlay.set(self._outer)

    def get(self, section: str) -> str:
        """The backend of `section`."""
        return _settings_of(self).get(section, self._backends[section])

    def set(self, section: str, backend: str) -> None:
        """Set a backend as `dask.config.set` in the cell does, for the current context only.

        Other threads or tasks may be creating arrays at the same time.
        """
        _settings.set((self, _settings_of(self) | {section: _Local(backend, self)}))

    @property
    def outer(self) -> Overlay | None:
        """The innermost active overlay around this one."""
        outer = self._outer
        while outer is not None and not outer.active:
            outer = outer._outer  # noqa: SLF001
        return outer


class _Local(str):
    """The name of a backend that was read inside a cell; writing it back after the cell has no effect."""

    __slots__ = ("overlay",)
    overlay: Overlay

    def __new__(cls, name: str, overlay: Overlay) -> Self:
        local = super().__new__(cls, name)
        local.overlay = overlay
        return local

    def __reduce__(self) -> tuple[Any, ...]:
        return str, (str(self),)


def _settings_of(overlay: Overlay) -> dict[str, str]:
    settings = _settings.get()
    return settings[1] if settings is not None and settings[0] is overlay else {}


def current_overlay() -> Overlay | None:
    """The innermost active overlay."""
    overlay = _overlay.get()
    return overlay if overlay is None or overlay.active else overlay.outer


def current_record() -> CellRecord | None:
    """The `CellRecord` of the running GPU cell; outside of one, that of `set_outside`."""
    overlay = current_overlay()
    return _outside if overlay is None else overlay.record


def set_outside(record: CellRecord | None) -> CellRecord | None:
    """Compute collections on GPUs as `record` says outside of GPU cells too; returns the record that did before.

    The switch decides where a collection is created, the collection how it is computed: in an ordinary cell, in a
    callback, or by a library.
    """
    global _outside
    before, _outside = _outside, record
    return before


class _Section(dict[str, Any]):
    """A section whose entry ``backend`` is that of the running cell, if there is one."""

    def __init__(self, name: str, content: dict[str, Any]) -> None:
        super().__init__(content)
        self._name = name

    def __getitem__(self, key: str) -> Any:
        overlay = current_overlay() if key == _KEY else None
        return super().__getitem__(key) if overlay is None else overlay.get(self._name)

    def get(self, key: str, default: Any = None) -> Any:
        try:
            return self[key]
        except KeyError:
            return default

    def __contains__(self, key: object) -> bool:
        return super().__contains__(key) or (key == _KEY and current_overlay() is not None)

    def __setitem__(self, key: str, value: Any) -> None:
        overlay = current_overlay() if key == _KEY else None
        if isinstance(value, _Local) and value.overlay is not overlay:
            return  # `dask.config.set` restores what it found in a cell that has ended
        if overlay is None:
            super().__setitem__(key, value)
        else:
            overlay.set(self._name, value)

    def __reduce__(self) -> tuple[Any, ...]:  # a copy is a plain dictionary with the current values
        return dict, ({key: self[key] for key in self},)

    def pop(self, key: str, *default: Any) -> Any:
        if key == _KEY and current_overlay() is not None:
            return self[key]
        return super().pop(key, *default)


def install_sections() -> None:
    """Make the two sections of Dask's configuration look up their backend in the running cell first."""
    import dask.config  # here, because the magics import this module at once

    for section in _SECTIONS:
        if isinstance(dask.config.config.get(section), _Section):
            continue
        with dask.config.config_lock:  # else a second thread would discard what was set in between
            content = dask.config.config.get(section, {})
            if not isinstance(content, _Section):
                dask.config.config[section] = _Section(section, content)


def remove_sections() -> None:
    """Replace the two sections by plain dictionaries."""
    import dask.config

    with dask.config.config_lock:
        for section in _SECTIONS:
            content = dask.config.config.get(section)
            if isinstance(content, _Section):
                dask.config.config[section] = dict(content.items())


def refresh(original: Any, /, *args: Any, **kwargs: Any) -> None:
    """As `dask.config.refresh`, which empties the configuration; the sections stay."""
    original(*args, **kwargs)
    install_sections()


def start(original: Any, /, *args: Any, **kwargs: Any) -> None:
    """As `threading.Thread.start`; in a cell the thread runs in a copy of the current context."""
    if current_overlay() is not None:
        thread: Thread = first_argument(original, args, kwargs)
        context, run = copy_context(), thread.run
        thread.run = lambda: context.run(run)  # type: ignore[method-assign]
    original(*args, **kwargs)


def submit(original: Any, /, *args: Any, **kwargs: Any) -> Any:
    """As `ThreadPoolExecutor.submit`; in a cell the function runs in a copy of the current context."""
    if current_overlay() is None or len(args) < 2:
        return original(*args, **kwargs)
    pool, *call = args
    return original(pool, copy_context().run, *call, **kwargs)


def submit_to_pool(original: Any, /, *args: Any, **kwargs: Any) -> Any:
    """As a method of ``multiprocessing``'s `ThreadPool`; in a cell the function runs in copies of the context."""
    if current_overlay() is None or not isinstance(first_argument(original, args, kwargs), ThreadPool):
        return original(*args, **kwargs)
    call = bind(original, args, kwargs)
    context, function = copy_context(), call.arguments["func"]
    call.arguments["func"] = lambda *values, **named: context.copy().run(function, *values, **named)
    return original(*call.args, **call.kwargs)


def in_context_of_cell(function: Any) -> Any:
    """A coroutine function for ``Client.sync``; in a cell, it runs in the current context unless it is Dask's own."""
    is_of_dask = getattr(function, "__module__", "").partition(".")[0] == "distributed"
    return function if is_of_dask or current_overlay() is None else _in_context(function)


def _in_context(function: Any) -> Any:
    """A coroutine function that runs in a copy of the current context."""
    context = copy_context()

    async def call(*args: Any, **kwargs: Any) -> Any:
        return await function(*args, **kwargs)

    async def call_in_context(*args: Any, **kwargs: Any) -> Any:
        return await asyncio.get_running_loop().create_task(call(*args, **kwargs), context=context)

    return call_in_context
