"""Functions of `dask.dataframe` that create collections on the host: in GPU cells these are moved to the GPUs.

Dask looks up its backend in a few readers only (`frames.cudf_backend`); `table` lists the other functions.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dask.dataframe.backends import dataframe_creation_dispatch
from dask.dataframe.dask_expr.io.io import FromGraph

from ..inspection.arguments import bind
from ..inspection.placement import can_move, place_of, place_of_partitions
from ..inspection.results import results_to_host
from .arrays.operand_placement import is_called_by_user, mark_frame, may_be_moved
from .host_fallback import frame_to_gpu


def create_frame(original: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """As a function that creates a dataframe; under the cuDF backend it is moved to the GPUs.

    A concatenation of dataframes of GPUs is on the host because cuDF has not its Python objects.
    """
    __tracebackhide__ = True
    result = original(*args, **_with_meta_on_host(original, kwargs))
    if dataframe_creation_dispatch.backend != "cudf" or place_of(result) != "host":
        return result
    if any(place_of_partitions(part) == "gpu" for part in result.expr.walk()):
        return result
    if is_called_by_user(args, kwargs):
        return frame_to_gpu(result)
    if original.__name__ == "from_pandas":  # called by Dask, with what the user has passed to another function
        mark_frame(result.expr)
    return result


def frame_of_array(original: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """As ``from_dask_array``; cuDF makes the dataframe of an array on GPUs, even if `meta` is of pandas.

    In ``df["z"] = x``, Dask passes the metadata of `df`. An array of texts or times stays on the host, because CuPy
    cannot hold it; its dataframe is moved beside a dataframe on GPUs, such as for the coordinates of xarray.
    """
    given = bind(original, args, kwargs).arguments
    array = given["x"]
    if place_of(array) == "gpu":
        return original(**{**given, "meta": None})
    frame = original(**given)
    if place_of(array) == "host" and (not can_move(array) or may_be_moved(array)):
        for source in frame.expr.find_operations(FromGraph):
            mark_frame(source)
    return frame


def _with_meta_on_host(original: Callable[..., Any], kwargs: dict[str, Any]) -> dict[str, Any]:
    """The keywords of a function; readers that Dask does not dispatch make partitions of pandas, whatever the meta."""
    if "meta" not in kwargs or not original.__name__.startswith("read_"):
        return kwargs
    return {**kwargs, "meta": results_to_host(kwargs["meta"])}
