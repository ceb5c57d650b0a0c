"""Methods of dataframes on GPUs that cuDF or dask_cudf lack: the dataframe is moved to the host, and the result back.

Most operations are expressions, which `patches.host_fallback.build_frame` moves to the host. This is for methods that
fail before they build one, for example because dask_cudf refuses an argument, or calls cuDF with the metadata.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pandas as pd
from dask._collections import new_collection
from dask.dataframe.dask_expr._expr import Sqrt

from ...fallback.missing import words_behind
from ...fallback.values import frame_to_gpu as plain_to_gpu
from ...inspection.arguments import bind, calling_frame, first_argument
from ...inspection.placement import name_of, place_of, to_host
from ...inspection.results import results_to_host
from ...overlay.config_overlay import current_record
from ..host_fallback import frame_to_gpu, note_on_host, refuse_if_strict
from .differences import words_of_method

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


def call_method(original: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """As the method; if it lacks something, it is called with dataframes on the host.

    Raises
    ------
    NotOnGpuError
        It lacks something, and the cell has ``--strict``.
    """
    __tracebackhide__ = True
    name = original.__name__
    if "out" in kwargs and kwargs["out"] is None:  # from NumPy, as of np.clip(df, 0, 1)
        del kwargs["out"]
    if isinstance(kwargs.get("meta"), pd.DataFrame | pd.Series) and args and place_of(args[0]) == "gpu":
        kwargs["meta"] = plain_to_gpu(kwargs["meta"])
    if name == "std" and args and _has_variance(bind(original, args, kwargs).arguments):
        return new_collection(Sqrt(args[0].var(*args[1:], **kwargs).expr))
    if not args or not _may_fall_back(args[0]):
        return original(*args, **kwargs)

    def on_host() -> Any:
        owner, *others = results_to_host(list(args))
        return getattr(owner, name)(*others, **results_to_host(kwargs))

    words = words_of_method(name, args, kwargs)
    return _computed(name, args[0], lambda: original(*args, **kwargs), on_host, words)


def with_categories(original: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """As ``cat.as_known`` and ``cat.remove_unused_categories``, likewise; the categories are computed on the host.

    There they are in the order of pandas. cuDF has the order of a hash table, and no index that pandas can read.
    """
    __tracebackhide__ = True
    name = original.__name__
    series: Any = getattr(first_argument(original, args, kwargs), "_series", None)
    if not _may_fall_back(series) or (name == "as_known" and series.cat.known):
        return original(*args, **kwargs)
    record = current_record()
    if record is not None and record.fallback == "strict":
        return _computed(name, series, lambda: original(*args, **kwargs), getattr(to_host(series).cat, name))
    note_on_host(name, "cuDF has categories in the order of a hash table", series.npartitions)
    known = getattr(to_host(series).cat, name)(**kwargs)
    return _computed(name, series, lambda: series.cat.set_categories(known.cat.categories), lambda: known)


def categories(original: property) -> property:
    """As the property ``cat.categories``, which Dask takes from the metadata; it is an index of pandas, as on the CPU.

    With results on the GPU it is one of cuDF.
    """

    def get(accessor: Any) -> Any:
        __tracebackhide__ = True
        record = current_record()
        found = original.__get__(accessor)
        return found if record is None or record.results == "gpu" else results_to_host(found)

    return property(get, doc=original.__doc__)


def values(original: property) -> property:
    """As the property ``values`` of dataframes and series, likewise: CuPy has no strings."""

    def get(frame: Any) -> Any:
        __tracebackhide__ = True
        if not _may_fall_back(frame):
            return original.__get__(frame)
        return _computed("values", frame, lambda: original.__get__(frame), lambda: to_host(frame).values)  # noqa: PD011

    return property(get, doc=original.__doc__)


def _has_variance(arguments: Mapping[str, Any]) -> bool:
    """Whether ``std`` of a dataframe is the root of the variance of columns of numbers.

    Dask iterates over the index of cuDF's metadata for it, which fails.
    """
    frame = arguments["self"]
    if current_record() is None or place_of(frame) != "gpu" or frame.ndim == 1 or not len(frame.columns):
        return False
    kinds = {getattr(dtype, "kind", "O") for dtype in frame.dtypes}
    return arguments.get("axis", 0) in (0, "index") and (bool(arguments.get("numeric_only")) or kinds <= set("biuf"))


def _computed(
    operation: str, frame: Any, on_gpu: Callable[[], Any], on_host: Callable[[], Any], words: str = ""
) -> Any:
    """The result of `on_gpu`; that of `on_host` if the first lacks something, or if there are `words` that say so."""
    __tracebackhide__ = True
    failure: Exception | None = None
    if not words:
        try:
            return on_gpu()
        except Exception as error:
            words = words_behind(error)
            if not words:
                raise
            failure = error
    refuse_if_strict(operation, name_of(frame), words)
    try:
        result = on_host()
    except Exception as error:
        if failure is None or not words_behind(error):
            raise
        result = error
    try:
        if isinstance(result, Exception) and failure is not None:  # the host has the same gap: the first one says more
            raise failure
    finally:
        del failure  # its traceback refers to this frame
    note_on_host(operation, words, frame.npartitions)
    return type(result)(map(frame_to_gpu, result)) if isinstance(result, list | tuple) else frame_to_gpu(result)


def _may_fall_back(frame: Any) -> bool:
    """Whether the user's code called a method of a dataframe on GPUs, in a cell with the fallback."""
    record = current_record()
    if record is None or not record.watches or place_of(frame) != "gpu":
        return False
    package = calling_frame().f_globals.get("__name__", "").partition(".")[0]
    return package not in ("dask", "dask_cudf")
