"""Inference of metadata: of the user's functions on the host, so that these never run on the kernel's GPU.

An error of such a function on the GPU, as an index that CuPy writes beyond an empty array, can break the CUDA context
of the process for good. On the host it is an exception. What the host returns is carried over to the GPU.
"""

from __future__ import annotations

from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

from dask.dataframe.dask_expr._expr import Expr
from dask.dataframe.dask_expr.io import FromGraph
from dask.utils import funcname, typename
from distributed import client as distributed_client

from ..errors import NotOnGpuError
from ..fallback.gpu_code import names_gpu_library
from ..fallback.host_call import HostFallback
from ..fallback.values import has_function_of_user, has_gpu_data, has_results_on_host, on_host, to_gpu
from ..inspection.arguments import bind
from ..inspection.results import results_to_host
from ..inspection.user_code import user_line
from ..overlay.config_overlay import current_record
from .host_fallback import place_of_inputs

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

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
                return result if has_results_on_host(given) else to_gpu(result, kinds)
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
        return to_gpu(result, kinds) if is_on_gpu else result


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
    raise NotOnGpuError(function.operation, "", function.refusal.words, user_line())


def infer_groups(original: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """As ``_meta_apply_transform``, whose second argument calls a function of the user with groups, likewise."""
    __tracebackhide__ = True
    call = bind(original, args, kwargs)
    function = call.arguments["grp_func"]
    if has_function_of_user(function):
        call.arguments["grp_func"] = HostMetadata(function)
    return original(*call.args, **call.kwargs)


class KnownMetadata(FromGraph):
    """Stands for an input of an expression while its metadata is inferred."""


def meta_of_functions(original: cached_property[Any]) -> cached_property[Any]:
    """The metadata of an expression; one that calls a function of the user with metadata on a GPU gets it on the host.

    Such are the aggregations of groups by `dask.dataframe.Aggregation`, and reductions and windows by a function.
    """

    def meta(expression: Any) -> Any:
        __tracebackhide__ = True
        inputs = expression.dependencies()
        is_asked = any(isinstance(each, KnownMetadata) for each in inputs)
        if is_asked or not has_function_of_user(expression.operands) or place_of_inputs(expression) != "gpu":
            return original.func(expression)
        operands = [KnownMetadata if isinstance(each, Expr) else each for each in expression.operands]
        return HostMetadata(partial(_meta_of, type(expression), operands))(*(each._meta for each in inputs))  # noqa: SLF001

    inferred = cached_property(meta)
    inferred.__set_name__(object, "_meta")
    return inferred


def _meta_of(kind: type[Expr], operands: list[Any], *inputs: Any) -> Any:
    """The metadata of an expression of this class; each operand `KnownMetadata` is an input, with the next metadata.

    A worker calls it, too.
    """
    known = iter(KnownMetadata({}, each, (None, None), [], typename(type(each))) for each in inputs)
    expression = kind(*(next(known) if operand is KnownMetadata else operand for operand in operands))
    try:
        return expression._meta  # noqa: SLF001
    except RuntimeError as error:
        if not isinstance(error.__context__, AttributeError):  # which Dask replaces
            raise
        raise error.__context__ from None
