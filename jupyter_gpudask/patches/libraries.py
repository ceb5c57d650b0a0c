"""Functions of dask-ml and dask-image that do not work on arrays on GPUs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..inspection.arguments import bind
from ..inspection.placement import place_of
from .arrays.cupy_backend import to_cupy
from .user_functions import HostMetadata


def estimator_metadata(original: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """As the function by which dask-ml asks an estimator for metadata: the estimator gets an array on the host."""
    __tracebackhide__ = True
    call = bind(original, args, kwargs)
    if place_of(call.arguments["input_dask_ar"]) == "gpu":
        call.arguments["model_fn"] = HostMetadata(call.arguments["model_fn"])
    return original(*call.args, **call.kwargs)


def filter_image(original: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """As a filter of dask-image with weights, which are on the GPU if the image is."""
    __tracebackhide__ = True
    call = bind(original, args, kwargs)
    if place_of(call.arguments["image"]) == "gpu":
        call.arguments["weights"] = to_cupy(call.arguments["weights"])
    return original(*call.args, **call.kwargs)
