"""``da.unique`` with indices or counts, which Dask cannot compute for CuPy: the array is moved to the host."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import dask

from ...errors import NotOnGpuError
from ...fallback.log import Place, fallback_log
from ...inspection.arguments import bind
from ...inspection.placement import can_move, name_of, place_of, to_gpu, to_host
from ...inspection.user_code import user_line
from ...overlay.config_overlay import current_record

if TYPE_CHECKING:
    from collections.abc import Callable

_WORDS = "CuPy has no structured arrays"


def unique(original: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """As `dask.array.unique`; results with indices or counts are computed on the host, and moved to the GPU.

    Raises
    ------
    NotOnGpuError
        Indices or counts are requested, and the cell has ``--strict``.
    """
    __tracebackhide__ = True
    call, record = bind(original, args, kwargs), current_record()
    array = call.arguments["ar"]
    is_plain = not any(value for name, value in call.arguments.items() if name.startswith("return_"))
    if record is None or not record.watches or is_plain or place_of(array) != "gpu":
        return original(*args, **kwargs)
    line = user_line()
    if record.fallback == "strict":
        raise NotOnGpuError("unique", name_of(array), _WORDS, line)
    call.arguments["ar"] = to_host(array)
    with dask.config.set({"array.backend": "numpy"}):  # in this cell only, for the indices that Dask creates
        results = original(*call.args, **call.kwargs)
    fallback_log.note_cell(record.id)
    fallback_log.add_collection(Place("unique", line, _WORDS), record.id, array.npartitions)
    return tuple(to_gpu(result) if can_move(result) else result for result in results)
