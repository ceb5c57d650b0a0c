"""The switch for scripts: a context manager, and a decorator."""

from __future__ import annotations

import inspect
import threading
import warnings
from contextlib import ContextDecorator, ExitStack
from functools import wraps
from typing import TYPE_CHECKING, Any, Literal, TypeVar, cast

from .session import process_session

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from types import TracebackType

    from distributed import Client

_NOTES = {
    "cupy": 'CuPy does not do all that NumPy does; to compute arrays with NumPy, write gpu(array="numpy").',
    "cudf": 'cuDF does not do all that pandas does; to compute frames with pandas, write gpu(dataframe="pandas").',
    "result": "A result on the GPU does not become a NumPy array by itself: for a CuPy array, write x.get(); "
    "for all results as NumPy and pandas, gpu(to_host=True).",
}
_F = TypeVar("_F", bound="Callable[..., Any]")


class GpuSwitch(ContextDecorator):
    """See `jupyter_gpudask.gpu`, which makes it."""

    def __init__(
        self,
        array: Literal["cupy", "numpy"],
        dataframe: Literal["cudf", "pandas"],
        to_host: bool,
        options: dict[str, Any],
    ) -> None:
        self._array, self._dataframe, self._to_host, self._options = array, dataframe, to_host, options
        self._entered = threading.local()  # several threads may use one

    def __enter__(self) -> Client:
        cluster, new = process_session().start(self._options, lambda _: None, lambda: None)
        from ..overlay.cell_record import Watch
        from ..switch.context import switched_to
        from ..switch.default_client import default_client

        on_gpus = cluster.ready.engine == "cuda"
        if new and not on_gpus:
            why = cluster.ready.stand_in or "The CPU stand-in was asked for."
            warnings.warn(f"{why} This runs on the CPU stand-in, with NumPy and pandas.", stacklevel=3)
        backends = (self._array, self._dataframe) if on_gpus else ("numpy", "pandas")
        with ExitStack() as stack:
            stack.enter_context(default_client.computing_on(cluster.client))
            stack.enter_context(switched_to(*backends, Watch(to_host=self._to_host)))
            self._entered.__dict__.setdefault("stacks", []).append(stack.pop_all())
        return cluster.client

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        from ..inspection.error_origin import library_behind

        self._entered.stacks.pop().close()
        library = library_behind(error)
        if error is not None and library is not None and not hasattr(error, "__notes__"):
            error.add_note(_NOTES[library])

    def __call__(self, function: _F) -> _F:
        """Have `function` run inside it; a coroutine function until it has been awaited.

        Raises
        ------
        TypeError
            It is a generator function, which runs on after its call, when the switch is off.
        """
        if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
            raise TypeError(f"gpu() cannot decorate the generator {function.__name__}: use `with gpu():` inside it.")
        if inspect.iscoroutinefunction(function):

            @wraps(function)
            async def run_coroutine(*args: Any, **kwargs: Any) -> Any:
                return await self._awaited(function(*args, **kwargs))

            return cast("_F", run_coroutine)

        @wraps(function)
        def run(*args: Any, **kwargs: Any) -> Any:
            with self._recreate_cm():
                result = function(*args, **kwargs)
            return self._awaited(result) if inspect.iscoroutine(result) else result

        return cast("_F", run)

    async def _awaited(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        with self._recreate_cm():
            return await coroutine

    def _recreate_cm(self) -> GpuSwitch:
        return GpuSwitch(self._array, self._dataframe, self._to_host, self._options)


def gpu(
    *,
    array: Literal["cupy", "numpy"] = "cupy",
    dataframe: Literal["cudf", "pandas"] = "cudf",
    to_host: bool = False,
    **options: Any,
) -> GpuSwitch:
    """Run Dask code that was written for NumPy and pandas on the GPUs: what ``%%gpudask`` does, for scripts.

    ::

        with jupyter_gpudask.gpu():
            x = da.random.random((100_000, 100_000))
            x.mean().compute()

        @jupyter_gpudask.gpu(to_host=True)
        def mean(path):
            return dd.read_parquet(path).mean().compute()

    The first use starts a cluster on the GPUs of this machine, which lives until the process ends; in a notebook it is
    that of ``%gpudask start``. Where there is no GPU the CPU stands in, with a warning. Threads and tasks that are
    started inside see the switch as long as it is on, and nobody else does.

    Parameters
    ----------
    array
        What new Dask arrays are made of.
    dataframe
        What new Dask dataframes are made of.
    to_host
        Whether results come as NumPy and pandas.
    options
        Of the cluster, by the names of `jupyter_gpudask.protocol.ClusterSpec`: ``gpus=2``, ``pool="0.8"``, ...

    Returns
    -------
    context manager and decorator
        Entering it gives the Dask client.

    Raises
    ------
    jupyter_gpudask.errors.GpuDaskError
        When it is entered: a cluster could not be started, or runs with other options, or a backend is missing.
    """
    return GpuSwitch(array, dataframe, to_host, options)
