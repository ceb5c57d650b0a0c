"""The fallback to the host in the kernel: reductions, local schedulers, and the lines of the user's code."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dask._expr import Expr
from dask.base import is_dask_collection
from pandas.api.types import is_object_dtype

from ..errors import NotOnGpuError
from ..fallback.graph import with_fallback
from ..fallback.log import Place, fallback_log
from ..fallback.missing import words_behind, words_of_lack
from ..fallback.values import has_function_of_user, operation_of
from ..inspection.arguments import bind, first_argument
from ..inspection.placement import name_of, place_of, place_of_partitions, to_gpu, to_host
from ..inspection.results import results_to_host
from ..inspection.user_code import user_line
from ..overlay.config_overlay import current_record
from .frames.differences import is_of_python_objects, words_of_difference

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..overlay.cell_record import CellRecord


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
        words = words_of_lack(error)
        if not words:
            raise
    if record.fallback == "strict":
        raise NotOnGpuError(operation_of(call.arguments["func"]), "", words, user_line())
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


def note_array(original: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """As `dask.array.Array`; remembers which line of the user's code made the array."""
    __tracebackhide__ = True
    array = original(*args, **kwargs)
    record = current_record()
    if record is not None and record.watches:
        _note_line(array.name, record)
    return array


def build_frame(original: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """As ``new_collection``; if cuDF lacks the metadata of an expression, its input dataframes are moved to the host.

    Each worker moves the partitions that it has, and the result of each back to its GPU. It also remembers which line
    of the user's code made the dataframe.
    """
    __tracebackhide__ = True
    record = current_record()
    if record is None or not record.watches:
        return original(*args, **kwargs)
    expression = first_argument(original, args, kwargs)
    words = words_of_difference(expression) if place_of_inputs(expression) == "gpu" else ""
    failure: Exception | None = None
    if not words:
        try:
            collection = original(*args, **kwargs)
        except Exception as error:
            words = words_behind(error)
            if not words:
                raise
            failure = error
        else:
            _note_line(name_of(collection), record)  # an array, for `values`
            return collection
    operation = type(expression).__name__.removesuffix("AsPandas")  # those of `frames.as_pandas`
    refuse_if_strict(operation, expression._name, words)  # noqa: SLF001
    try:
        on_host = expression_on_host(expression, original)
        if on_host is None and failure is not None:
            raise failure
    finally:
        del failure
    collection = original(on_host)
    note_on_host(operation, words, collection.npartitions)
    return collection if is_of_python_objects(expression) else frame_to_gpu(collection)


def refuse_if_strict(operation: str, name: str, words: str) -> None:
    """Refuse an operation that would run on the host, if the cell has ``--strict``.

    Parameters
    ----------
    operation, name
        The names of the operation and of its collection.
    words
        Why it would run on the host.

    Raises
    ------
    NotOnGpuError
        The cell has ``--strict``.
    """
    __tracebackhide__ = True
    record = current_record()
    if record is not None and record.fallback == "strict":
        raise NotOnGpuError(operation, name, words, user_line()) from None


def note_on_host(operation: str, words: str, blocks: int) -> None:
    """Note an operation of the user's line that runs on the host as a whole, for that reason."""
    record = current_record()
    if record is not None:
        fallback_log.note_cell(record.id)
        fallback_log.add_collection(Place(operation, user_line(), words), record.id, blocks)


def expression_on_host(expression: Any, make_collection: Callable[..., Any]) -> Any:
    """The expression with its input dataframes moved to the host; `None` if none of them is on the GPU.

    Parameters
    ----------
    expression
        An expression of dataframes.
    make_collection
        Dask's ``new_collection``.
    """
    if place_of_inputs(expression) != "gpu":
        return None

    def moved(operand: Any) -> Any:
        if not isinstance(operand, Expr):
            return results_to_host(operand)
        return to_host(make_collection(operand)).expr if place_of_partitions(operand) == "gpu" else operand

    return type(expression)(*map(moved, expression.operands))


def place_of_inputs(expression: Any) -> str | None:
    """The device of an expression's input dataframes: ``"gpu"`` if one of them is there."""
    places = set(map(place_of_partitions, expression.dependencies()))
    return "gpu" if "gpu" in places else "host" if "host" in places else None


def frame_to_gpu(collection: Any, move: Callable[[Any], Any] | None = None) -> Any:
    """A collection on the GPU, unless cuDF cannot hold it; anything else, such as a number, as it is.

    Parameters
    ----------
    collection
        The collection.
    move
        How it is moved, if not by `to_gpu`.
    """
    if not is_dask_collection(collection) or place_of(collection) != "host":
        return collection
    if hasattr(collection, "expr") and place_of_partitions(collection.expr) is None:
        return collection
    try:
        moved = (move or to_gpu)(collection)
        _check_metadata(moved, collection)
    except Exception as error:
        if not words_behind(error):
            raise
        return collection
    return moved


def _check_metadata(moved: Any, collection: Any) -> None:
    """Raise cuDF's error if it cannot hold the metadata that Dask reads when it optimizes a collection on the GPU.

    Where columns of Python objects are expected, that includes the lowered expression: its metadata may have values.
    """
    if not hasattr(moved, "expr"):
        return
    expression = moved.expr.simplify()
    _ = expression._meta  # noqa: SLF001
    meta = collection._meta  # noqa: SLF001
    if any(map(is_object_dtype, meta.dtypes if hasattr(meta, "columns") else [meta.dtype])):
        _ = expression.lower_completely()._meta  # noqa: SLF001


def _note_line(name: str, record: CellRecord) -> None:
    fallback_log.note_line(name, user_line(), record.id)
