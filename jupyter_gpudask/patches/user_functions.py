"""Make the results of functions passed to ``map_blocks`` and ``map_partitions`` match their metadata.

A function may return a NumPy array for a CuPy block, as XGBoost's ``predict`` does; or the user may pass a NumPy array
as ``meta`` to request results on the host. Each result is moved to the device of the collection: that of the metadata
of an array, and that of the inputs of a dataframe. Otherwise the next operation would fail on blocks of another type,
with an error of CuPy or cuDF.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import numpy as np
from dask.array.core import Array, asarray
from dask.base import is_dask_collection, normalize_token
from dask.sizeof import sizeof
from dask.utils import funcname

from ..fallback.functions import with_twin
from ..fallback.values import frame_to_gpu, on_host
from ..inspection.arguments import bind
from ..inspection.placement import can_move, place_of, to_host
from ..inspection.transfers import TO_GPU, TO_HOST, transfer
from ..overlay import current_record
from .arrays.operand_placement import is_plain, may_be_placed

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..inspection.placement import Place

_LIBRARIES = ("cudf", "cupy", "dask", "dask_cudf", "jupyter_gpudask", "numpy", "operator", "pandas")


class ResultsAt:
    """A function whose resulting arrays and dataframes are moved to one device.

    Parameters
    ----------
    function
        The wrapped function.
    place
        The device of its results; `None` does not move them.
    """

    def __init__(self, function: Callable[..., Any], place: Place | None = None) -> None:
        functools.update_wrapper(self, function)
        self.__name__ = funcname(function)  # the prefix of Dask's keys
        self.function = function
        self.place = place

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The result of the function, on the device."""
        result = self.function(*args, **kwargs)
        return tuple(map(self._moved, result)) if type(result) is tuple else self._moved(result)

    def gpudask_on_host(self) -> ResultsAt:
        """The same with the function that the fallback calls with host copies."""
        return ResultsAt(on_host(self.function), self.place)

    def _moved(self, result: Any) -> Any:
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
        return ResultsAt, (_uncalled(self.function), self.place)


def _uncalled(function: Any) -> Any:
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
    if not _is_of_the_user(function) or not any(map(_is_on_gpu, [*args, *kwargs.values()])):
        return original(*args, **kwargs)
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
    given["meta"] = _for_each(_meta_to_gpu, given.get("meta"))
    if _is_of_the_user(given["func"]) and not given.get("vectorize"):
        given["func"] = ResultsAt(given["func"], "gpu")
    return original(*call.args, **call.kwargs)


def _for_each(function: Callable[[Any], Any], value: Any) -> Any:
    return type(value)(map(function, value)) if isinstance(value, list | tuple) else function(value)


def _meta_to_gpu(meta: Any) -> Any:
    return _to_gpu(meta) if isinstance(meta, np.ndarray) else meta


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
