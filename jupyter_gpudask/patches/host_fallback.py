"""The fallback to the host in the kernel: reductions, local schedulers, and the lines of the user's code."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dask._expr import Expr
from dask.dataframe.dask_expr._expr import Index, UFuncElemwise

from ..errors import NotOnGpuError
from ..fallback.log import Place, fallback_log
from ..fallback.missing import reason_to_fall_back
from ..fallback.tasks import with_fallback
from ..fallback.values import has_function_of_user, operation_of
from ..inspection.arguments import bind
from ..inspection.placement import place_of, place_of_partitions, to_gpu, to_host
from ..inspection.results import results_to_host
from ..inspection.user_code import user_line
from ..overlay import CellRecord, current_record


def reduce_blocks(original: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """As ``partial_reduce``; if the function cannot be called with metadata, the result has that of the blocks.

    A function of the user is not called with metadata on a GPU.
    """
    __tracebackhide__ = True
    call = bind(original, args, kwargs)
    if has_function_of_user(call.arguments["func"]) and place_of(call.arguments["x"]) == "gpu":
        call.arguments["reduced_meta"] = None
        return original(*call.args, **call.kwargs)
    record = current_record()
    if record is None or not record.watches:
        return original(*args, **kwargs)
    try:
        return original(*args, **kwargs)
    except Exception as error:
        reason = reason_to_fall_back(error)
        if not reason:
            raise
    if record.fallback == "strict":
        raise NotOnGpuError(operation_of(call.arguments["func"]), "", reason, user_line())
    call.arguments["reduced_meta"] = None
    return original(*call.args, **call.kwargs)


def run_locally(original: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """As `dask.local.get_async`, which the synchronous and the threaded scheduler call."""
    __tracebackhide__ = True
    record = current_record()
    if record is None or not record.watches:
        return original(*args, **kwargs)
    call = bind(original, args, kwargs)
    graph = call.arguments["dsk"]
    graph = graph.__dask_graph__() if hasattr(graph, "__dask_graph__") else graph
    fallback_log.note_cell(record.id)
    call.arguments["dsk"] = with_fallback(graph, cell=record.id, refuse=record.fallback == "strict")
    return original(*call.args, **call.kwargs)


def refuse_if_strict(operation: str, name: str, reason: str) -> None:
    """Refuse an operation that would run on the host, if the cell has ``--strict``.

    - `operation`, `name`: the names of the operation and of its collection.
    - `reason`: why it would run on the host.

    Raises `NotOnGpuError`: the cell has ``--strict``.
    """
    __tracebackhide__ = True
    record = current_record()
    if record is not None and record.fallback == "strict":
        raise NotOnGpuError(operation, name, reason, user_line()) from None


def note_on_host(operation: str, reason: str, blocks: int) -> None:
    """Note an operation of the user's line that runs on the host as a whole, for that reason."""
    record = current_record()
    if record is not None:
        fallback_log.note_cell(record.id)
        fallback_log.add_blocks(Place(operation, user_line(), reason), record.id, blocks)


def on_host(expression: Any, make_collection: Callable[..., Any]) -> Any:
    """The expression with its input dataframes moved to the host.

    - `expression`: an expression of dataframes.
    - `make_collection`: Dask's ``new_collection``.
    """

    def move(operand: Any) -> Any:
        if not isinstance(operand, Expr):
            return results_to_host(operand)
        if isinstance(expression, UFuncElemwise) and isinstance(operand, Index):
            return Index(move(operand.frame))  # of nothing else Dask computes the divisions
        return to_host(make_collection(operand)).expr if place_of_partitions(operand) == "gpu" else operand

    return type(expression)(*map(move, expression.operands))


def place_of_inputs(expression: Any) -> str | None:
    """The device of an expression's input dataframes: ``"gpu"`` if one of them is there."""
    places = set(map(place_of_partitions, expression.dependencies()))
    return "gpu" if "gpu" in places else "host" if "host" in places else None


def frame_to_gpu(collection: Any) -> Any:
    """A dataframe on GPUs; anything else, such as a number, as it is."""
    is_frame = hasattr(collection, "expr") and place_of_partitions(collection.expr) == "host"
    return to_gpu(collection) if is_frame else collection


def note_line(name: str, record: CellRecord) -> None:
    """Remember which line of the user's code made a collection."""
    fallback_log.note_line(name, user_line(), record.id)
