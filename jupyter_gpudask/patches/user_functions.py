"""Functions of the user: metadata is inferred on the host, and results are where the metadata says.

An error of such a function on the GPU, as an index that CuPy writes beyond an empty array, can break the CUDA context
of the process for good. On the host it is an exception. What the host returns is carried over to the GPU.

A function may return a NumPy array for a CuPy block, as XGBoost's ``predict`` does; or the user may pass a NumPy array
as ``meta`` to request results on the host. Each result is moved to the device of the collection: that of the metadata
of an array, and that of the inputs of a dataframe. Otherwise the next operation would fail on blocks of another type,
with an error of CuPy or cuDF.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Iterable
from typing import Any

import numpy as np
import pandas as pd
from dask.array.backends import array_creation_dispatch
from dask.array.core import Array, asarray
from dask.base import is_dask_collection, normalize_token
from dask.sizeof import sizeof
from dask.utils import funcname
from distributed import client as distributed_client

from ..errors import NotOnGpuError
from ..fallback.functions import names_gpu_library
from ..fallback.host_call import HostFallback
from ..fallback.twins import with_twin
from ..fallback.values import frame_to_gpu, has_function_of_user, has_gpu_data, has_results_on_host, on_host, to_gpu
from ..inspection.arguments import bind
from ..inspection.placement import Place, can_move, place_of, to_host
from ..inspection.placement import to_gpu as to_gpus
from ..inspection.results import TO_GPU, TO_HOST, results_to_host, transfer
from ..inspection.user_code import user_line
from ..overlay import current_overlay, current_record
from .arrays.cupy_backend import to_cupy
from .arrays.operand_placement import is_called_by_user, is_plain, may_be_placed

_PANDAS = (pd.DataFrame, pd.Series, pd.Index)
_FOR_DEVICES = (AttributeError, TypeError)
"""What a function that takes only arrays on GPUs raises for arrays on the host."""


class HostMetadata:
    """A function of blocks for the inference of metadata: called with metadata on the host, not on the GPU.

    A function that names a GPU library, or that cannot use what is on the host, is called on a worker instead, with
    small blocks. Where no cluster computes, but this process, it is called here.

    - `function`: the function.
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
        if not kinds and any(isinstance(arg, _PANDAS) for arg in args) and current_overlay() is not None:
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
    raise NotOnGpuError(function.operation, "", function.refusal.lack, user_line())


def infer_groups(original: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """As ``_meta_apply_transform``, whose second argument calls a function of the user with groups, likewise."""
    __tracebackhide__ = True
    call = bind(original, args, kwargs)
    function = call.arguments["grp_func"]
    if has_function_of_user(function):
        call.arguments["grp_func"] = HostMetadata(function)
    return original(*call.args, **call.kwargs)


_LIBRARIES = ("cudf", "cupy", "dask", "dask_cudf", "jupyter_gpudask", "numpy", "operator", "pandas")


class ResultsAt:
    """A function whose resulting arrays and dataframes are moved to one device.

    - `function`: the wrapped function.
    - `place`: the device of its results; `None` does not move them.
    """

    def __init__(self, function: Callable[..., Any], place: Place | None = None) -> None:
        # The attributes of a class, such as `type`, describe its objects.
        functools.update_wrapper(self, function, updated=() if isinstance(function, type) else ["__dict__"])
        self.__name__ = funcname(function)  # the prefix of Dask's keys
        self.function = function
        self.place = place

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The result of the function, on the device."""
        result = self.function(*args, **kwargs)
        return tuple(map(self._move, result)) if type(result) is tuple else self._move(result)

    def gpudask_on_host(self) -> ResultsAt:
        """The same with the function that the fallback calls with host copies; it moves the results itself."""
        return ResultsAt(on_host(self.function), "host" if self.place == "host" else None)

    def _move(self, result: Any) -> Any:
        if self.place is None or place_of(result) in (self.place, None):
            return result
        if self.place == "host":
            with transfer(TO_HOST, sizeof(result)):
                return to_host(result)
        with transfer(TO_GPU, sizeof(result)):
            return _to_gpu(result)

    def __repr__(self) -> str:
        return repr(self.function)  # in Dask's errors it is the user's function

    def __dask_tokenize__(self) -> Any:
        return normalize_token(self.function)

    def __reduce__(self) -> tuple[Any, ...]:
        return ResultsAt, (_without_cache(self.function), self.place)


def _without_cache(function: Any) -> Any:
    """The function as it was before its metadata was inferred.

    A `numpy.vectorize` with `otypes` keeps a ufunc of its first call, which cannot be pickled.
    """
    if type(function) is not np.vectorize:
        return function
    given = {name: getattr(function, name) for name in ("otypes", "excluded", "cache", "signature")}
    return np.vectorize(function.pyfunc, doc=function.__doc__, **given)


def _to_gpu(data: Any) -> Any:
    if isinstance(data, np.ndarray):
        import cupy

        return cupy.asarray(data) if can_move(data) else data
    return frame_to_gpu(data)


def map_user_function(original: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """`dask.array.map_blocks` and `dask.dataframe.map_partitions`."""
    __tracebackhide__ = True
    function: Any = args[0] if args else kwargs.get("func")
    given = [*args, *kwargs.values()]
    if not _is_of_the_user(function) or not any(map(_is_on_gpu, given)):
        result = original(*args, **kwargs)
        return to_gpus(result) if _is_read(result, given) and is_called_by_user((), {}) else result
    record = current_record()
    moving = ResultsAt(with_twin(function) if record is not None and record.fallback == "host" else function)
    if args:
        args = (moving, *args[1:])
    else:
        kwargs["func"] = moving
    result = original(*args, **kwargs)
    # Metadata comes of the function itself, which may decide on its place.
    if not isinstance(result, Array) or can_move(result) or isinstance(result._meta, np.ma.MaskedArray):  # noqa: SLF001
        moving.place = place_of(result)
    return result


def _is_read(result: Any, given: Iterable[Any]) -> bool:
    """Whether a function of no blocks, or of texts such as the names of files, makes numbers in a GPU cell."""
    if array_creation_dispatch.backend != "cupy" or not isinstance(result, Array) or place_of(result) != "host":
        return False
    collections = [value for value in given if is_dask_collection(value)]
    return can_move(result) and all(
        isinstance(each, Array) and each.dtype.kind in {"O", "T", "U"} for each in collections
    )


def apply_gufunc(original: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """As `dask.array.apply_gufunc`; with an array on the GPUs the results are there, whatever metadata is given.

    Dask takes the metadata of the first argument, which may be plain data. CuPy cannot be asked for metadata of another
    dtype than numbers.
    """
    __tracebackhide__ = True
    call = bind(original, args, kwargs)
    given = call.arguments
    operands = given.get("args", ())
    if may_be_placed(operands):
        operands = given["args"] = tuple(
            asarray(each) if is_plain(each) or np.isscalar(each) else each for each in operands
        )
    if not any(map(_is_on_gpu, operands)):
        return original(*args, **kwargs)
    dtypes = given.get("output_dtypes")
    if given.get("meta") is None and not _are_numbers(dtypes):
        given["meta"] = _for_each(lambda dtype: np.empty(0, dtype), dtypes)
        given["output_dtypes"] = None
    given["meta"] = _for_each(lambda meta: _to_gpu(meta) if isinstance(meta, np.ndarray) else meta, given.get("meta"))
    if _is_of_the_user(given["func"]) and not given.get("vectorize"):
        given["func"] = ResultsAt(given["func"], "gpu")
    return original(*call.args, **call.kwargs)


def _for_each(function: Callable[[Any], Any], value: Any) -> Any:
    return type(value)(map(function, value)) if isinstance(value, list | tuple) else function(value)


def _are_numbers(dtypes: Any) -> bool:
    """Whether CuPy has all of these dtypes, or none is given."""
    each = dtypes if isinstance(dtypes, list | tuple) else [dtypes]
    return all(dtype is None or can_move(np.empty(0, dtype)) for dtype in each)


def _is_of_the_user(function: Any) -> bool:
    if type(function) is np.vectorize:
        function = function.pyfunc
    module = getattr(function, "__module__", None) or type(function).__module__
    return callable(function) and module.partition(".")[0] not in _LIBRARIES


def _is_on_gpu(value: Any) -> bool:
    return is_dask_collection(value) and place_of(value) == "gpu"


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
