"""A function that runs on the host if the GPU library lacks what it needs."""

from __future__ import annotations

import functools
import time
from contextlib import suppress
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from dask.base import normalize_token
from dask.utils import funcname, key_split

from ..errors import NotOnGpuError
from ..inspection.placement import can_move, is_plain_tuple, is_type_of_gpu, results_to_host
from .log import Fallback, report
from .missing import words_of_lack

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

_PANDAS = (pd.DataFrame, pd.Series, pd.Index)
_LIBRARIES = frozenset({"_operator", "builtins", "cudf", "cupy", "dask", "dask_cudf", "numpy", "operator", "pandas"})
_MOST_PLACES = 10_000


class Lacking:
    """Which functions of this process have been called, and what the GPU library said that they lack.

    The key is the name of a collection and of a function. There is none for metadata.
    """

    def __init__(self) -> None:
        self._words: dict[tuple[str, str], str] = {}

    def __contains__(self, place: tuple[str, str]) -> bool:
        return place in self._words

    def get(self, place: tuple[str, str], default: str) -> str:
        """The words, or `default`."""
        return self._words.get(place, default)

    def note(self, place: tuple[str, str], words: str) -> None:
        """Remember the words of a function; empty if it runs on the GPU."""
        if not place[0]:
            return
        if len(self._words) >= _MOST_PLACES:
            self._words.clear()
        self._words[place] = words


lacking = Lacking()
"""Of this process."""


class HostFallback:
    """A function of blocks, called with blocks on the GPU and, if the GPU library lacks something, with host copies.

    The result of the second call is moved to the GPU, if the GPU library can hold it. An error of the second call is
    raised as it is, without the first one. Functions of blocks are assumed to have no side effects before the first
    operation that the GPU library lacks; Dask assumes that tasks can be repeated, too, when a worker is lost.

    A function of the user may change its blocks before it fails. So the first call in each process gets copies, and
    if it fails, the later calls for the same collection run on the host at once.

    Parameters
    ----------
    function
        The function.
    layer
        The name of the collection whose blocks it computes; empty for metadata, which is not reported.
    refuse
        Whether to raise `NotOnGpuError` in place of the second call.
    """

    def __init__(self, function: Callable[..., Any], layer: str = "", *, refuse: bool = False) -> None:
        self.function = function
        self.layer = layer
        self.refuse = refuse
        self.__wrapped__ = function  # Dask reads the signatures and names of functions
        self.__name__ = funcname(function)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The result of the function.

        Raises
        ------
        jupyter_gpudask.errors.NotOnGpuError
            The GPU library lacks something, and `refuse` is set.
        """
        place = self.layer, self.__name__
        words = lacking.get(place, "") if self.layer else ""
        if words and has_gpu_data((self.function, args, kwargs)):
            return self._call_on_host(args, kwargs, words, None)
        try:
            if not self._is_of_the_user or place in lacking:
                return self.function(*args, **kwargs)
            result = self._call_with_copies(args, kwargs)
        except Exception as error:
            words = words_of_lack(error)
            if not words or not has_gpu_data((self.function, args, kwargs)):
                raise
            failure = error
        else:
            lacking.note(place, "")
            return result
        # Outside of the handler, so that an error of the second call has no context.
        try:
            return self._call_on_host(args, kwargs, words, failure)
        finally:
            del failure  # its traceback refers to this frame, and so to the blocks

    def _call_with_copies(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        with suppress(MemoryError):  # better without copies than not at all
            args, kwargs = copied(args), copied(kwargs)
        return self.function(*args, **kwargs)

    def _call_on_host(
        self, args: tuple[Any, ...], kwargs: dict[str, Any], words: str, failure: Exception | None
    ) -> Any:
        if self.refuse:
            raise NotOnGpuError(self.operation, self.layer, words) from None
        began = time.perf_counter()
        given = self.function, args, kwargs
        kinds = {package for package in ("cupy", "cudf") if _has_type_of(given, package)}
        try:
            result = on_host(self.function)(*results_to_host(args), **results_to_host(kwargs))
        except Exception as error:
            if not words_of_lack(error):
                raise
            result = error
        if isinstance(result, Exception) and words_of_lack(result):  # the function itself is for GPUs only
            raise failure or result
        lacking.note((self.layer, self.__name__), words)
        result = to_gpu(result, kinds)
        if self.layer:
            report(Fallback(self.operation, self.layer, words, time.perf_counter() - began))
        return result

    @cached_property
    def _is_of_the_user(self) -> bool:
        """Whether the function may change its blocks; functions of Dask and of these libraries do not."""
        function = self.function
        while isinstance(function, functools.partial):
            function = function.func
        module = getattr(function, "__module__", None) or type(function).__module__
        return module.partition(".")[0] not in _LIBRARIES

    @property
    def operation(self) -> str:
        """The name of the operation for the user."""
        name = self.__name__
        return key_split(self.layer) if name.startswith(("_", "<")) and self.layer else name

    def __dask_tokenize__(self) -> Any:
        return normalize_token(self.function)

    def __reduce__(self) -> tuple[Any, ...]:
        return functools.partial(HostFallback, refuse=self.refuse), (self.function, self.layer)


def on_host(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function with host copies of the GPU data that it holds: arguments of a `functools.partial`, or self."""
    if isinstance(function, functools.partial):
        return functools.partial(
            on_host(function.func), *results_to_host(function.args), **results_to_host(function.keywords)
        )
    owner = getattr(function, "__self__", None)
    if owner is not None and is_type_of_gpu(type(owner)):
        method: Callable[..., Any] = getattr(results_to_host(owner), function.__name__)
        return method
    return function


def copied(value: Any) -> Any:
    """A value with copies of its arrays and dataframes."""
    if type(value) is dict:
        return {key: copied(part) for key, part in value.items()}
    if type(value) is list or is_plain_tuple(value):
        return type(value)(map(copied, value))
    if isinstance(value, np.ndarray | pd.DataFrame | pd.Series) or is_type_of_gpu(type(value)):
        return value.copy()
    return value


def has_gpu_data(value: Any) -> bool:
    """Whether this is a GPU array or dataframe, or a container or partial function that has one."""
    return _has_type_of(value, "")


def _has_type_of(value: Any, package: str) -> bool:
    if isinstance(value, list | tuple | set | frozenset):
        return any(_has_type_of(part, package) for part in value)
    if isinstance(value, dict):
        return any(_has_type_of(part, package) for part in value.values())
    if isinstance(value, functools.partial):
        return _has_type_of((value.func, value.args, value.keywords), package)
    kind = type(value)
    if is_type_of_gpu(kind):
        return kind.__module__.startswith(package)
    owner = getattr(value, "__self__", None) if callable(value) else None
    return owner is not None and is_type_of_gpu(type(owner)) and type(owner).__module__.startswith(package)


def to_gpu(result: Any, kinds: Collection[str]) -> Any:
    """A result of the host, moved to the GPU as far as the GPU library can hold it.

    Parameters
    ----------
    result
        A result, or a tuple, list or dictionary of results.
    kinds
        The libraries of the function's arguments. With ``"cupy"``, scalars of NumPy become arrays without dimensions,
        as CuPy returns them; only with ``"cudf"`` do dataframes of pandas become dataframes of cuDF.
    """
    if type(result) is dict:
        return {key: to_gpu(value, kinds) for key, value in result.items()}
    if isinstance(result, tuple) and hasattr(result, "_fields"):
        return type(result)(*(to_gpu(value, kinds) for value in result))
    if type(result) is list or is_plain_tuple(result):
        return type(result)(to_gpu(value, kinds) for value in result)
    if type(result) is np.ndarray or ("cupy" in kinds and isinstance(result, np.generic)):
        return _array_to_gpu(result)
    return _frame_to_gpu(result) if "cudf" in kinds and isinstance(result, _PANDAS) else result


def _array_to_gpu(array: Any) -> Any:
    if not can_move(np.asarray(array)):
        return array
    import cupy

    return cupy.asarray(array)


def _frame_to_gpu(frame: Any) -> Any:
    import cudf

    try:
        return cudf.from_pandas(frame)
    except Exception as error:
        if not words_of_lack(error):
            raise
    return frame
