"""Methods of dataframes on GPUs that cuDF or dask_cudf lack: the dataframe is moved to the host, and the result back.

Most operations are expressions, which `patches.host_fallback.build_frame` moves to the host. This is for methods that
fail before they build one, for example because dask_cudf refuses an argument, or calls cuDF with the metadata.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...errors import NotOnGpuError
from ...fallback.log import Place, fallback_log
from ...fallback.missing import words_behind
from ...inspection.arguments import calling_frame
from ...inspection.placement import name_of, place_of, results_to_host
from ...inspection.user_code import user_line
from ...overlay.config_overlay import current_record
from ..host_fallback import frame_to_gpu

if TYPE_CHECKING:
    from collections.abc import Callable


def call_method(original: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """As the method; if it lacks something, it is called with dataframes on the host.

    Raises
    ------
    NotOnGpuError
        It lacks something, and the cell has ``--strict``.
    """
    __tracebackhide__ = True
    record = current_record()
    if record is None or not record.watches or not _is_called_by_user():
        return original(*args, **kwargs)
    try:
        return original(*args, **kwargs)
    except Exception as error:
        words = words_behind(error)
        if not words or not args or place_of(args[0]) != "gpu":
            raise
        failure = error
    operation, line = original.__name__, user_line()
    if record.fallback == "strict":
        raise NotOnGpuError(operation, name_of(args[0]), words, line) from None
    try:
        owner, *others = results_to_host(list(args))
        result = getattr(owner, operation)(*others, **results_to_host(kwargs))
    except Exception as error:
        if not words_behind(error):
            raise
        result = error
    if isinstance(result, Exception):  # the host has the same gap, so that the first error says more
        raise failure
    del failure  # its traceback refers to this frame
    fallback_log.note_cell(record.id)
    fallback_log.add_collection(Place(operation, line, words), record.id, args[0].npartitions)
    return type(result)(map(frame_to_gpu, result)) if isinstance(result, list | tuple) else frame_to_gpu(result)


def _is_called_by_user() -> bool:
    package = calling_frame().f_globals.get("__name__", "").partition(".")[0]
    return package not in ("dask", "dask_cudf")
