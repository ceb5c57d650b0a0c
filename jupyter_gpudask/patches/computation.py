"""Computations of a GPU cell: whether results fit on the kernel's GPU, and their conversion to the host by the workers.

CuPy and cuDF refuse ``np.asarray(x)``, an implicit conversion, which is slow in a loop. A Dask collection is computed
here, and its result is sent over the network in any case: each worker converts its blocks before it sends them.
"""

from __future__ import annotations

import asyncio
import dataclasses
import math
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from dask.array.backends import array_creation_dispatch
from dask.array.core import Array
from dask.base import get_scheduler, is_dask_collection, unpack_collections
from dask.tokenize import tokenize
from distributed import Client, Future, futures_of

from ..errors import ResultsLostError, ResultTooLargeError
from ..inspection.arguments import bind, calling_frame, first_argument
from ..inspection.placement import GPU_BACKENDS, can_move, is_type_of_gpu, kind_of, name_of, place_of, to_gpu, to_host
from ..inspection.results import in_containers, results_to_host
from ..inspection.user_code import description_of, names_of, user_line
from ..overlay import CellRecord, current_overlay, current_record
from ..quantities import format_bytes
from .mixed_operands import explain_mixed_blocks


def to_numpy(original: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """As ``Array.__array__``; the blocks are converted by the workers that hold them."""
    __tracebackhide__ = True
    call = bind(original, args, kwargs)
    collection = call.arguments["self"]
    on_host = to_host(collection)
    overlay = current_overlay()
    if on_host is not collection and overlay is not None and overlay.record is not None:
        overlay.record.moved_for_result.add(name_of(on_host))  # it did not stay on the CPU
    call.arguments["self"] = on_host
    return original(*call.args, **call.kwargs)


_awaited: ContextVar[tuple[Sequence[Any], Sequence[Future[Any]]]] = ContextVar(
    "jupyter_gpudask_awaited", default=((), ())
)
"""The collections of a computation, if their sizes are known only when they are computed; the futures of the user."""


@contextmanager
def refusing_what_does_not_fit(collections: Iterable[Any], kept: Sequence[Future[Any]] = ()) -> Iterator[None]:
    """Refuse results larger than the free memory of the kernel's GPU while `collections` are computed.

    Arrays of known size are refused at once; everything else by `check_what_was_computed`, which does not release
    the futures that are to be `kept`.

    Raises `ResultTooLargeError`: nothing of what was computed is left on the workers.
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


_RETURN_RESULTS = frozenset(
    {"compute", "head", "tail", "safe_head", "iterrows", "itertuples", "__array__", "__iter__", "__len__"}
    # Functions of NumPy that Dask has not, such as np.einsum_path, are called with results.
    | {"__array_function__", "handle_nonmatching_names"}
)
_SEVERAL = (list, tuple, set, frozenset)


def _convert(record: CellRecord, collection: Any) -> Any:
    """The collection with its blocks converted to NumPy or pandas."""
    on_host = to_host(collection)
    if on_host is not collection:
        record.moved_for_result.add(name_of(on_host))
    return on_host


def _unpack(values: Collection[Any], *, traverse: bool) -> tuple[list[Any], Callable[[Iterable[Any]], Any]]:
    """As `dask.base.unpack_collections`, which takes half a millisecond even for a single collection."""
    if len(values) == 1 and all(map(is_dask_collection, values)):
        return list(values), tuple
    unpacked: tuple[list[Any], Callable[[Iterable[Any]], Any]] = unpack_collections(*values, traverse=traverse)
    return unpacked


def compute(original: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """As `dask.compute`; results are converted for ``--results host``, or refused if they do not fit on the GPU."""
    __tracebackhide__ = True
    with explain_mixed_blocks(args, traverse=kwargs.get("traverse", True)), _explain_end(args):
        results = _compute(original, *args, **kwargs)
    return in_containers(_move_variables, results) if array_creation_dispatch.backend == "cupy" else results


@contextmanager
def _explain_end(collections: Iterable[Any]) -> Iterator[None]:
    """Inside, Dask's error for results that a cluster had, which has ended, says so."""
    try:
        yield
    except ValueError as error:
        futures = futures_of(collections) if str(error).startswith("Missing dependency") else []
        end = next((end for future in futures if (end := getattr(future.client, "end", ""))), "")
        if not end:
            raise
        raise ResultsLostError("results-lost", need="This needs", end=end) from None


def _compute(original: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    __tracebackhide__ = True
    record = current_record()
    if record is None:
        return original(*args, **kwargs)
    if not _is_called_by_user():
        with refusing_what_does_not_fit([]):
            return original(*args, **kwargs)
    collections, repack = _unpack(args, traverse=kwargs.get("traverse", True))
    if not collections:
        return original(*args, **kwargs)
    if record.results == "host":
        converted = [_convert(record, collection) for collection in collections]
        results = original(*converted, **kwargs)
        # Of arrays that are on the host by their metadata alone, as of `xarray.map_blocks`; and in a cell of
        # `dask.delayed`, which elsewhere returns what the function returns.
        in_cell = current_overlay() is not None
        pairs = zip(collections, converted, results, strict=True)
        return repack(
            [
                results_to_host(result) if new is old and (in_cell or isinstance(old, Array)) else result
                for old, new, result in pairs
            ]
        )
    if any(isinstance(arg, Iterator) for arg in args):
        args = repack(collections)  # the iterators are consumed
    schedule = get_scheduler(scheduler=kwargs.get("scheduler"), collections=collections)
    is_ours = isinstance(getattr(schedule, "__self__", None), Client)
    with refusing_what_does_not_fit(collections if is_ours else []):
        return original(*args, **kwargs)


def _move_variables(value: Any) -> Any:
    """A dataset that a delayed function has opened, as in ``xr.open_mfdataset(..., parallel=True)``, on the GPUs."""
    if type(value).__module__.startswith("xarray."):
        for variable in getattr(value, "variables", {}).values():
            if isinstance(variable._data, Array) and can_move(variable._data):  # noqa: SLF001 - `data` would read a file
                variable.data = to_gpu(variable._data)  # noqa: SLF001
    return value


def client_compute(original: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """As `distributed.Client.compute`, with the same changes as `compute`."""
    __tracebackhide__ = True
    record, call = current_record(), bind(original, args, kwargs)
    is_awaited = call.arguments.get("sync", False)
    if record is None or not (record.results == "host" or is_awaited):
        return original(*args, **kwargs)
    given, traverse = call.arguments["collections"], call.arguments.get("traverse", True)
    awaited: dict[str, Any] = {}

    def change(collection: Any) -> Any:
        if record.results == "host":
            return _convert(record, collection)
        return awaited.setdefault(tokenize(collection), collection)

    def change_value(value: Any) -> Any:
        is_looked_into = is_dask_collection(value) or (traverse and isinstance(value, (*_SEVERAL, dict, Iterator)))
        return _with_collections(change, value) if is_looked_into else value

    values = list(map(change_value, given)) if isinstance(given, _SEVERAL) else change_value(given)
    call.arguments["collections"] = values
    kept = [value for value in values if isinstance(value, Future)] if isinstance(values, list) else []
    with refusing_what_does_not_fit(awaited.values(), kept):
        return original(*call.args, **call.kwargs)


def _with_collections(change: Callable[[Any], Any], value: Any) -> Any:
    """The value with each Dask collection changed, in the containers that `dask.delayed` looks into; futures stay."""

    def change_part(part: Any) -> Any:
        if is_dask_collection(part):
            return change(part)
        if isinstance(part, Iterator):
            return in_containers(change_part, list(part))
        if dataclasses.is_dataclass(part) and not isinstance(part, type):
            fields = {field.name: getattr(part, field.name) for field in dataclasses.fields(part) if field.init}
            return dataclasses.replace(part, **in_containers(change_part, fields))
        return part

    return in_containers(change_part, value)


def collections_to_expr(original: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """As `dask.base.collections_to_expr`; records the collections that are computed on the CPU in a GPU cell."""
    __tracebackhide__ = True
    overlay = current_overlay()
    if overlay is not None and overlay.record is not None:
        collections = first_argument(original, args, kwargs)
        for collection in collections if isinstance(collections, _SEVERAL) else [collections]:
            kind = kind_of(collection)
            if overlay.get(kind) in GPU_BACKENDS and is_dask_collection(collection):
                _record_host_collection(overlay.record, collection)
    return original(*args, **kwargs)


def _record_host_collection(record: CellRecord, collection: Any) -> None:
    if place_of(collection) != "host" or name_of(collection) in record.moved_for_result:
        return
    for name in names_of(collection) or [description_of(collection)]:
        record.on_host.setdefault(name, user_line())


def _is_called_by_user() -> bool:
    """Whether the result is returned to the user's code, not to Dask's own code."""
    frame = calling_frame()
    while frame.f_globals.get("__name__", "").partition(".")[0] in ("dask", "dask_cudf"):
        if frame.f_code.co_name not in _RETURN_RESULTS or frame.f_back is None:
            return False
        frame = frame.f_back
    return True
