"""Refuse results that do not fit on the kernel's GPU before they are moved there."""

from __future__ import annotations

import asyncio
import math
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from dask.array.core import Array
from distributed import futures_of

from ..errors import ResultTooLargeError
from ..inspection.arguments import bind
from ..inspection.placement import is_type_of_gpu, place_of
from ..inspection.user_code import names_of
from ..quantities import format_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from distributed import Client, Future

_awaited: ContextVar[tuple[Sequence[Any], Sequence[Future[Any]]]] = ContextVar(
    "jupyter_gpudask_awaited", default=((), ())
)
"""The collections of a computation, if their sizes are known only when they are computed; the futures of the user."""


@contextmanager
def refusing_what_does_not_fit(collections: Iterable[Any], kept: Sequence[Future[Any]] = ()) -> Iterator[None]:
    """Refuse results larger than the free memory of the kernel's GPU while `collections` are computed.

    Arrays of known size are refused at once; everything else by `check_what_was_computed`, which does not release
    the futures that are to be `kept`.

    Raises
    ------
    ResultTooLargeError
        Nothing of what was computed is left on the workers.
    """
    __tracebackhide__ = True
    on_gpu = [each for each in collections if place_of(each) == "gpu" and getattr(each, "ndim", None)]
    known = [each for each in on_gpu if isinstance(each, Array) and not math.isnan(each.nbytes)]
    # Several blocks of an array are concatenated, which needs memory for both the blocks and the array.
    _refuse(known, sum(int(array.nbytes) * (2 if array.npartitions > 1 else 1) for array in known))
    token = _awaited.set((on_gpu if len(known) < len(on_gpu) else (), kept))
    try:
        yield
    finally:
        _awaited.reset(token)


def check_what_was_computed(original: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """As `distributed.Client.gather`, the last step of a computation; first checks the size of the results.

    Dask has submitted one graph before, with the user's options.
    """
    __tracebackhide__ = True
    collections, kept = _awaited.get()
    if collections:
        call = bind(original, args, kwargs).arguments
        client: Client = call["self"]
        if not client.asynchronous and not call.get("asynchronous"):
            futures = list({future.key: future for future in futures_of(call["futures"])}.values())
            try:
                _refuse(collections, client.sync(_bytes_on_gpus, client, futures))
            except ResultTooLargeError:
                for future in futures:  # the traceback holds them
                    if not any(future is each for each in kept):
                        future.release()
                raise
    return original(*args, **kwargs)


async def _bytes_on_gpus(client: Client, futures: Sequence[Future[Any]]) -> int:
    """The bytes of all results on GPUs when they are finished; 0 after an error, which `gather` then raises."""

    async def is_finished(future: Future[Any]) -> bool:
        state: Any = future._state  # noqa: SLF001 - `distributed.wait` waits for the others of a failed one
        await state.wait()
        return bool(future.status == "finished")

    waiting = [asyncio.ensure_future(is_finished(future)) for future in futures]
    try:
        for done in asyncio.as_completed(waiting):
            if not await done:
                return 0
    finally:
        for task in waiting:
            task.cancel()
    keys = [future.key for future in futures if not isinstance(future.type, type) or is_type_of_gpu(future.type)]
    scheduler: Any = client.scheduler
    try:
        sizes: dict[Any, int] = await scheduler.nbytes(keys=keys, summary=False)
    except KeyError:  # the scheduler has lost one meanwhile
        return 0
    return sum(sizes.values())


def _refuse(collections: Sequence[Any], needed: int) -> None:
    __tracebackhide__ = True
    if needed and needed > (free := _free_memory()):
        names = [name for collection in collections for name in names_of(collection)]
        raise ResultTooLargeError(
            names=" and ".join(names) or "of this line", needed=format_bytes(needed), free=format_bytes(free)
        )


def _free_memory() -> int:
    """Bytes that the kernel can still allocate on its GPU."""
    import cupy

    free, _ = cupy.cuda.runtime.memGetInfo()
    return int(free + cupy.get_default_memory_pool().free_bytes())
