"""Conversions of dataframes under the cuDF backend: bags, records, rows, times, texts, and files that are written."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dask._collections import new_collection
from dask._expr import Expr
from dask.dataframe.dask_expr._expr import ToDatetime
from dask.utils import typename

from ...inspection.arguments import bind, first_argument
from ...inspection.placement import is_type_of_gpu, name_of, place_of, to_host
from ...overlay.config_overlay import current_record
from ..host_fallback import note_on_host, refuse_if_strict
from .readers import ARROW, words_of_parquet_writer

if TYPE_CHECKING:
    from collections.abc import Callable


def from_host(original: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """As a function that converts a dataframe to Python objects or NumPy records; it gets pandas partitions."""
    __tracebackhide__ = True
    call = bind(original, args, kwargs)
    call.arguments["df"] = to_host(call.arguments["df"])
    return original(*call.args, **call.kwargs)


def rows_from_host(original: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """As a method that iterates over rows or values; with results on the GPU, it gets pandas partitions."""
    record = current_record()
    if record is None or record.results == "host":  # the results of each partition are converted
        return original(*args, **kwargs)
    call = bind(original, args, kwargs)
    call.arguments["self"] = to_host(call.arguments["self"])
    return original(*call.args, **call.kwargs)


def operands_for_repr(original: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """As ``Expr._operands_for_repr``, which compares an operand with its default; metadata of cuDF is left out."""
    expression = first_argument(original, args, kwargs)
    if not any(is_type_of_gpu(type(operand)) for operand in getattr(expression, "operands", ())):
        return original(*args, **kwargs)
    defaults = expression._defaults  # noqa: SLF001
    pairs = zip(expression._parameters, expression.operands, strict=False)  # noqa: SLF001
    return [
        f"{name}={operand!r}"
        for name, operand in pairs
        if isinstance(operand, Expr) or (not is_type_of_gpu(type(operand)) and operand != defaults.get(name))
    ]


def to_datetime(original: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """As `dask.dataframe.to_datetime`, with empty metadata."""
    __tracebackhide__ = True
    times = original(*args, **kwargs)
    expression = getattr(times, "expr", None)
    if not isinstance(expression, ToDatetime) or not len(expression._meta):  # noqa: SLF001
        return times
    meta = expression._meta  # noqa: SLF001
    meta = meta.iloc[:0] if hasattr(meta, "iloc") else meta[:0]
    return new_collection(ToDatetime(expression.frame, kwargs=expression.operand("kwargs"), meta=meta))


def choose_parquet_engine(original: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """As Dask's function; selects pyarrow for a pandas dataframe and cuDF for one of cuDF, whatever the backend is."""
    __tracebackhide__ = True
    call = bind(original, args, kwargs).arguments
    meta, engine = call.get("meta"), call.get("engine")
    if meta is None:
        return original(*args, **kwargs)
    is_of_cudf = typename(type(meta)).startswith("cudf")
    if engine is None and not is_of_cudf:
        return "pyarrow"
    return original(None, meta) if is_of_cudf and engine in ARROW else original(*args, **kwargs)


_WORDS_OF_WRITERS = {
    "to_csv": "cuDF writes nine digits of a number, and times in another format",
    "to_hdf": "cuDF writes HDF files with pandas",
    "to_sql": "cuDF lacks to_sql",
}


def write_by_pandas(original: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """As a function that writes partitions: those of a dataframe on GPUs are written by pandas.

    Raises
    ------
    NotOnGpuError
        The dataframe is on GPUs, and the cell has ``--strict``.
    """
    __tracebackhide__ = True
    name = original.__name__
    return _write(original, args, kwargs, lambda _frame, _options: _WORDS_OF_WRITERS[name])


def write_parquet(original: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """As ``to_parquet``; a dataframe on GPUs is written by pandas and PyArrow if cuDF would ignore an argument.

    Raises
    ------
    NotOnGpuError
        It would, and the cell has ``--strict``.
    """
    __tracebackhide__ = True
    record = current_record()
    may_fall_back = record is not None and record.fallback == "host"
    try:
        return _write(original, args, kwargs, words_of_parquet_writer)
    except ValueError as error:
        # cuDF and pandas have several names for strings.
        if not may_fall_back or not str(error).startswith("Appended dtypes differ"):
            raise
    return _write(original, args, kwargs, lambda *_: "the files have dtypes of pandas")


def _write(
    original: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    words_of: Callable[[Any, dict[str, Any]], str],
) -> Any:
    __tracebackhide__ = True
    record = current_record()
    call = bind(original, args, kwargs)
    frame = call.arguments["df"]
    is_watched = record is not None and record.watches and place_of(frame) == "gpu"
    words = words_of(frame, call.arguments) if is_watched else ""
    if not words:
        return original(*args, **kwargs)
    name = original.__name__
    refuse_if_strict(name, name_of(frame), words)
    note_on_host(name, words, frame.npartitions)
    call.arguments["df"] = to_host(frame)
    return original(*call.args, **call.kwargs)
