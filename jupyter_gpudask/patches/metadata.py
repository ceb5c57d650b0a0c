"""Inference of metadata: of the user's functions on the host, so that these never run on the kernel's GPU.

An error of such a function on the GPU, as an index that CuPy writes beyond an empty array, can break the CUDA context
of the process for good. On the host it is an exception. What the host returns is carried over to the GPU.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pandas as pd
from dask.utils import funcname
from distributed import client as distributed_client

from ..errors import NotOnGpuError
from ..fallback.functions import names_gpu_library
from ..fallback.host_call import HostFallback
from ..fallback.values import has_function_of_user, has_gpu_data, has_results_on_host, on_host, to_gpu
from ..inspection.arguments import bind
from ..inspection.results import results_to_host
from ..inspection.user_code import user_line
from ..overlay import current_record

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

_PANDAS = (pd.DataFrame, pd.Series, pd.Index)
_FOR_DEVICES = (AttributeError, TypeError)
"""What a function that takes only arrays on GPUs raises for arrays on the host."""


class HostMetadata:
    """A function of blocks for the inference of metadata: called with metadata on the host, not on the GPU.

    A function that names a GPU library, or that cannot use what is on the host, is called on a worker instead, with
    small blocks. Where no cluster computes, but this process, it is called here.

    Parameters
    ----------
    function
        The function.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        self.__wrapped__ = function  # Dask reads the signatures and names of functions

    @property
    def __name__(self) -> str:
        return funcname(self.function)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """What the function returns, on the GPU if its arguments are and the GPU library can hold it."""
        given = self.function, args, kwargs
        kinds = {package for package in ("cupy", "cudf") if has_gpu_data(given, package)}
        if not kinds and _has_partition(args) and current_record() is not None:
            kinds = {"cudf"}  # metadata of pandas stands for partitions on GPUs
        if not kinds:
            return self.function(*args, **kwargs)
        function, on_host_args, on_host_kwargs = on_host(self.function), results_to_host(args), results_to_host(kwargs)
        failure: Exception | None = None
        if not names_gpu_library(self.function, on_host_args, on_host_kwargs):
            try:
                result = function(*on_host_args, **on_host_kwargs)
            except _FOR_DEVICES as error:
                failure = error
            else:
                return result if has_results_on_host(given) else to_gpu(result, set(kinds) - {"cudf"})
        try:
            return self._on_gpu(args, kwargs, kinds)
        except Exception:
            if failure is None:
                raise
        raise failure  # outside of the handler, so that it has no context

    def _on_gpu(self, args: tuple[Any, ...], kwargs: dict[str, Any], kinds: Collection[str]) -> Any:
        client: Any = distributed_client._get_global_client()  # noqa: SLF001 - that of the cell
        if not getattr(client, "is_on_gpus", False):
            record = current_record()
            falls_back = record is not None and record.fallback == "host"
            return (HostFallback(self.function) if falls_back else self.function)(*args, **kwargs)
        if client.asynchronous:
            raise TypeError("A coroutine cannot wait for a worker that finds out what a function returns: pass meta.")
        on_host = results_to_host((args, kwargs))
        result, is_on_gpu = client.call_with_small_blocks(self.function, *on_host, kinds)
        return to_gpu(result, set(kinds) - {"cudf"}) if is_on_gpu else result


def _has_partition(args: Any) -> bool:
    return any(isinstance(arg, _PANDAS) for arg in args)


class _Refusing(HostFallback):
    """Keeps its refusal, which Dask would replace with its own error."""

    refusal: NotOnGpuError | None = None

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        try:
            return super().__call__(*args, **kwargs)
        except NotOnGpuError as error:
            self.refusal = error
            raise


def infer_metadata(original: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """As a function of Dask that calls its first argument with metadata: a function of the user gets it on the host.

    Other functions fall back to the host if the GPU library lacks something.
    """
    __tracebackhide__ = True
    if args and has_function_of_user((args, kwargs)):
        return original(HostMetadata(args[0]), *args[1:], **kwargs)
    record = current_record()
    if record is None or record.fallback != "host" or not args:
        return original(*args, **kwargs)
    return original(HostFallback(args[0]), *args[1:], **kwargs)


def infer_dtype(original: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """As ``apply_infer_dtype``, likewise; with ``--strict`` a function of a library is refused if it fails."""
    __tracebackhide__ = True
    record = current_record()
    if record is None or record.fallback != "strict" or not args or has_function_of_user((args, kwargs)):
        return infer_metadata(original, *args, **kwargs)
    function = _Refusing(args[0], refuse=True)
    try:
        return original(function, *args[1:], **kwargs)
    except Exception:
        if function.refusal is None:
            raise
    raise NotOnGpuError(function.operation, "", function.refusal.reason, user_line())


def infer_groups(original: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """As ``_meta_apply_transform``, whose second argument calls a function of the user with groups, likewise."""
    __tracebackhide__ = True
    call = bind(original, args, kwargs)
    function = call.arguments["grp_func"]
    if has_function_of_user(function):
        call.arguments["grp_func"] = HostMetadata(function)
    return original(*call.args, **call.kwargs)
