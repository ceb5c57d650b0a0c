"""`jupyter_gpudask.gpu`: the switch of ``%%gpudask`` as a context manager and decorator for scripts."""

from __future__ import annotations

import asyncio
import inspect
import sys
import threading
import warnings
from contextlib import ContextDecorator, ExitStack
from functools import wraps
from typing import TYPE_CHECKING, Any, Literal, TypeVar, cast, overload

from ..errors import ClusterExistsError, SpecError, SwitchThreadError
from .session import process_session

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from types import TracebackType

    from distributed import Client

    from ..overlay import Fallback, Results

_NOTES = {
    "cupy": 'CuPy does not support everything that NumPy does. To compute arrays with NumPy, use gpu(array="numpy").',
    "cudf": "cuDF does not support everything that pandas does. To compute dataframes with pandas, "
    'use gpu(dataframe="pandas").',
    "result": "A result on the GPU is not converted to a NumPy array implicitly. To convert a CuPy array, use x.get(); "
    'to get all results as NumPy and pandas, use gpu(results="host").',
}
_GPU_LIBRARIES = frozenset({"cupy", "cudf"})
_CHOICES: dict[str, tuple[str | None, ...]] = {
    "array": ("cupy", "numpy"),
    "dataframe": ("cudf", "pandas"),
    "results": ("host", "gpu", None),
    "fallback": ("host", "strict", "error", None),
}
_F = TypeVar("_F", bound="Callable[..., Any]")
_Place = tuple[int, Any]


class GpuSwitch(ContextDecorator):
    """The value of `jupyter_gpudask.gpu`."""

    def __init__(
        self,
        array: Literal["cupy", "numpy"],
        dataframe: Literal["cudf", "pandas"],
        results: Results | None,
        fallback: Fallback | None,
        options: dict[str, Any],
    ) -> None:
        self._array, self._dataframe, self._results, self._options = array, dataframe, results, options
        self._fallback = fallback
        self._entered: list[tuple[_Place, ExitStack]] = []  # several threads and tasks may use the same object

    def __enter__(self) -> Client:
        session = process_session()
        session.require_connection()
        try:
            cluster, new = session.start(self._options, lambda _: None, lambda: None)
        except ClusterExistsError as error:
            if _has_magics():
                raise
            raise ClusterExistsError("other-options-in-script", **error.fields) from None
        from ..overlay import DEFAULT_FALLBACK, DEFAULT_RESULTS, CellRecord, current_record, set_outside
        from ..switch.context import default_client, switched_to

        on_gpus = cluster.ready.has_gpus
        if on_gpus:
            cluster.check_libraries([name for name in (self._array, self._dataframe) if name in _GPU_LIBRARIES])
        if new and not on_gpus:
            why = cluster.ready.cpu_reason or "The CPU cluster was requested."
            warnings.warn(f"{why} This runs on the CPU cluster, with NumPy and pandas.", stacklevel=3)
        backends = (self._array, self._dataframe) if on_gpus else ("numpy", "pandas")
        record = CellRecord(results=self._results or DEFAULT_RESULTS)
        if on_gpus:
            record.fallback = self._fallback or DEFAULT_FALLBACK
            if current_record() is None:
                set_outside(CellRecord(results=DEFAULT_RESULTS, fallback=DEFAULT_FALLBACK))
        with ExitStack() as stack:
            stack.enter_context(default_client.computing_on(cluster.client))
            stack.enter_context(switched_to(*backends, record))
            self._entered.append((_place(), stack.pop_all()))
        return cluster.client

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        from ..inspection.user_code import library_behind

        here = _place()
        of_this_thread = [entry for entry in self._entered if entry[0][0] == here[0]]
        of_this_task = [entry for entry in of_this_thread if entry[0] == here]
        entry = (of_this_task or of_this_thread or self._entered)[-1]
        self._entered.remove(entry)
        entry[1].close()
        if error is None and not of_this_thread:
            raise SwitchThreadError
        library = library_behind(error)
        if error is not None and library is not None and not hasattr(error, "__notes__"):
            error.add_note(_NOTES[library])

    def __call__(self, function: _F) -> _F:
        """Run `function` in this context; a coroutine function until it has finished."""
        if isinstance(function, type):
            raise TypeError(f"gpu() cannot decorate the class {function.__name__}. Decorate its methods.")
        if not callable(function):
            raise TypeError(f"gpu() decorates functions, and {function!r} is none. Give its options by their names.")
        if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
            raise _of_generator(function)
        if inspect.iscoroutinefunction(function):

            @wraps(function)
            async def run_coroutine(*args: Any, **kwargs: Any) -> Any:
                return await self._await_switched(function(*args, **kwargs))

            return cast("_F", run_coroutine)

        @wraps(function)
        def run(*args: Any, **kwargs: Any) -> Any:
            with self._recreate_cm():
                result = function(*args, **kwargs)
                if inspect.isgenerator(result) or inspect.isasyncgen(result):
                    raise _of_generator(function)
            return self._await_switched(result) if inspect.iscoroutine(result) else result

        return cast("_F", run)

    async def _await_switched(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        with self._recreate_cm():
            return await coroutine

    def _recreate_cm(self) -> GpuSwitch:
        return GpuSwitch(self._array, self._dataframe, self._results, self._fallback, self._options)


def _place() -> _Place:
    """The thread and the task of asyncio that run this."""
    try:
        return threading.get_ident(), asyncio.current_task()
    except RuntimeError:  # no event loop runs
        return threading.get_ident(), None


def _of_generator(function: Callable[..., Any]) -> TypeError:
    name = getattr(function, "__name__", repr(function))
    return TypeError(
        f"gpu() cannot decorate {name}: the body of a generator runs after the call. Use `with gpu():` inside it, with "
        "no yield in the block, because until it ends the code that takes the values would be on the GPUs, too."
    )


def _has_magics() -> bool:
    ipython = sys.modules.get("IPython")
    return ipython is not None and ipython.get_ipython() is not None


@overload
def gpu(function: _F, /) -> _F: ...


@overload
def gpu(
    *,
    array: Literal["cupy", "numpy"] = "cupy",
    dataframe: Literal["cudf", "pandas"] = "cudf",
    results: Results | None = None,
    fallback: Fallback | None = None,
    **options: Any,
) -> GpuSwitch: ...


def gpu(
    function: Any = None,
    /,
    *,
    array: Literal["cupy", "numpy"] = "cupy",
    dataframe: Literal["cudf", "pandas"] = "cudf",
    results: Results | None = None,
    fallback: Fallback | None = None,
    **options: Any,
) -> Any:
    """Run Dask code for NumPy and pandas on the GPUs: what ``%%gpudask`` does, for scripts.

    ::

        with jupyter_gpudask.gpu():
            x = da.random.random((100_000, 100_000))
            x.mean().compute()

        @jupyter_gpudask.gpu(results="gpu")
        def mean(path):
            return dd.read_parquet(path).mean().compute()

    The first use starts a cluster on the GPUs of this machine, which runs until the process exits; in a notebook it is
    the cluster of ``%gpudask start``. Without a GPU the code runs on the CPU cluster, with a warning. Threads and
    tasks that are started in the context are part of it until it ends; no other code is.

    Parameters
    ----------
    function
        Of ``@gpu`` without parentheses: the decorated function.
    array
        The library for new Dask arrays.
    dataframe
        The library for new Dask dataframes.
    results
        Where the results of ``compute()`` are: on the ``"host"``, as NumPy and pandas objects, or on the first GPU of
        the cluster (``"gpu"``), as CuPy and cuDF objects. `None` is the default, ``"host"``.
    fallback
        What happens to an operation that CuPy or cuDF lack: ``"error"`` raises the library's error, ``"host"`` computes
        it on the host, ``"strict"`` raises `jupyter_gpudask.errors.NotOnGpuError`. `None` is the default,
        ``"host"``.
    options
        Options of the cluster: the fields of `jupyter_gpudask.protocol.spec.ClusterSpec`, such as ``gpus=2`` or
        ``pool="0.8"``.

    Returns
    -------
    context manager and decorator
        ``with gpu() as client`` binds the Dask client.

    Raises
    ------
    jupyter_gpudask.errors.SpecError
        `array`, `dataframe`, `results` or `fallback` has another value than those above.
    jupyter_gpudask.errors.GpuDaskError
        On entry: the cluster did not start, or runs with other options, or a backend is not available. At the end of
        the block: it was entered in another thread.
    """
    given = {"array": array, "dataframe": dataframe, "results": results, "fallback": fallback}
    for name, value in given.items():
        if value not in _CHOICES[name]:
            raise SpecError(
                "not-allowed",
                option=f"gpu({name}=...)",
                value=repr(value),
                allowed=" or ".join(map(repr, filter(None, _CHOICES[name]))),
            )
    switch = GpuSwitch(array, dataframe, results, fallback, options)
    return switch if function is None else switch(function)
