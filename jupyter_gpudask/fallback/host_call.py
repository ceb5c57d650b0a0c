"""Call a function of blocks on the GPU, and on the host if the GPU library lacks something."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext, suppress
from typing import Any

from dask.base import normalize_token
from dask.utils import funcname

from ..errors import NotOnGpuError
from . import page_locked
from .cupy_arrays import allow_conversion
from .host_parts import calls_host_library, host_call
from .log import Fallback, report
from .missing import DifferentResultError, implemented, reason_to_fall_back
from .values import (
    arguments_on_host,
    copied,
    has_function_of_user,
    has_gpu_data,
    has_object_of_user,
    has_results_on_host,
    is_move_of_frame,
    is_of_linear_algebra,
    on_host,
    operation_of,
    reads_onto_gpu,
    to_gpu,
)

_MOST_PLACES = 10_000


class Lacking:
    """The functions of this process that have run on the host, with the error of the GPU library.

    The key is the name of a collection and of a function. There is none for metadata.
    """

    def __init__(self) -> None:
        self._reasons: dict[tuple[str, str], str] = {}
        self.layers: set[str] = set()

    def reason_of(self, place: tuple[str, str]) -> str:
        """The reason; empty if the function has not run on the host."""
        return self._reasons.get(place, "")

    def note(self, place: tuple[str, str], reason: str) -> None:
        """Remember the reason of a function."""
        if not place[0]:
            return
        if len(self._reasons) >= _MOST_PLACES:
            self._reasons.clear()
            self.layers.clear()
        self._reasons[place] = reason
        self.layers.add(place[0])


lacking = Lacking()
"""Of this process."""


class HostFallback:
    """A function of blocks, called with blocks on the GPU and, if the GPU library lacks something, with host copies.

    The result of the second call is moved to the GPU, if the GPU library can hold it. An error of the second call is
    raised as it is, without the first one. Functions of blocks are assumed to have no side effects before the first
    operation that the GPU library lacks; Dask assumes that tasks can be repeated, too, when a worker is lost.

    A function of the user may change its blocks before it fails. So it gets copies of them, also if a function of Dask
    calls it. When it has run on the host once, the later calls for the same collection in the same process run there at
    once.

    - `layer`: the name of the collection whose blocks it computes; empty for metadata, which is not reported.
    """

    def __init__(self, function: Callable[..., Any], layer: str = "", *, cell: str = "", refuse: bool = False) -> None:
        self.function = function
        self.layer = layer
        self.cell = cell
        self.refuse = refuse
        self._is_of_user: bool | None = None
        self._is_checked: bool | None = None
        self.__wrapped__ = function  # Dask reads the signatures and names of functions

    @property
    def __name__(self) -> str:
        return funcname(self.function)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The result; raises `NotOnGpuError` if the GPU library lacks something, and `refuse` is set."""
        if self.layer in lacking.layers:
            reason = lacking.reason_of((self.layer, self.__name__))
            if reason and has_gpu_data((self.function, args, kwargs)):
                return self._call_on_host(args, kwargs, reason, None)
        try:
            if self._gets_copies(args, kwargs):
                return self._call_with_copies(args, kwargs)
            return self._call(args, kwargs)
        except Exception as error:
            if not reason_to_fall_back(error):
                raise
            failure = error
        # Outside of the handler, so that an error of the second call has no context.
        try:
            return self.after_failure(failure, *args, **kwargs)
        finally:
            del failure  # its traceback refers to this frame, and so to the blocks

    def after_failure(self, failure: Exception, /, *args: Any, **kwargs: Any) -> Any:
        """The result on the host, after the call on the GPU has raised `failure`, which means a lack."""
        try:
            if not has_gpu_data((self.function, args, kwargs)) and not reads_onto_gpu(self.function):
                if not is_move_of_frame(self.function):
                    raise failure
                return self._stay_on_host(args[0], reason_to_fall_back(failure))
            return self._call_on_host(args, kwargs, reason_to_fall_back(failure), failure)
        finally:
            del failure

    def _gets_copies(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
        if self.refuse:
            return False
        if self._is_of_user is None:
            self._is_of_user = has_function_of_user(self.function)
        return self._is_of_user or has_function_of_user(args) or (bool(kwargs) and has_function_of_user(kwargs))

    def _call_with_copies(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        with suppress(MemoryError):  # better without copies than not at all
            args, kwargs = copied(args), copied(kwargs)
        return self._call(args, kwargs)

    def _call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if self._is_checked is None:
            self._is_checked = has_function_of_user(self.function) or is_of_linear_algebra(self.function)
        with host_call(self.function, args), _checked_solutions() if self._is_checked else nullcontext():
            return implemented(self.function(*args, **kwargs))

    def _call_on_host(
        self, args: tuple[Any, ...], kwargs: dict[str, Any], reason: str, failure: Exception | None
    ) -> Any:
        if self.refuse:
            raise NotOnGpuError(self.operation, self.layer, reason) from None
        began = time.perf_counter()
        given = self.function, args, kwargs
        kinds = {package for package in ("cupy", "cudf") if has_gpu_data(given, package)}
        try:
            function, blocks, options = on_host(self.function), _to_host(args), _to_host(kwargs)
            with host_call(function, (blocks, options)):
                result = function(*blocks, **options)
                if "cupy" in kinds and not has_results_on_host(given):
                    result = page_locked.lock_pages(result)
        except Exception as error:
            if not reason_to_fall_back(error):
                raise
            failure = failure or error  # the function itself is for GPUs only
        else:
            if not isinstance(failure, DifferentResultError):  # which is about the values of one partition
                lacking.note((self.layer, self.__name__), reason)
            if not has_results_on_host(given):
                result = to_gpu(result, kinds)
            if self.layer:
                report(Fallback(self.operation, self.layer, self.cell, reason, time.perf_counter() - began))
            return result
        raise failure  # outside of the handler, so that it has no context

    def _stay_on_host(self, frame: Any, reason: str) -> Any:
        """A partition that cuDF cannot hold, such as one with a column of numbers and strings, as it is."""
        if self.refuse:
            raise NotOnGpuError("from_pandas", self.layer, reason) from None
        if self.layer:
            report(Fallback("from_pandas", self.layer, self.cell, reason, 0.0))
        return frame

    @property
    def operation(self) -> str:
        """The name of the operation for the user."""
        return operation_of(self.function, self.layer)

    def __dask_tokenize__(self) -> Any:
        return normalize_token(self.function)

    def __reduce__(self) -> tuple[Any, ...]:
        if self._is_of_user is None:  # once for all tasks of the graph
            self._is_of_user = has_function_of_user(self.function)
        kind = () if type(self) is HostFallback else (type(self),)
        return _restore, (self.function, self.layer, self.cell, self.refuse, self._is_of_user, *kind)


class PackageFallback(HostFallback):
    """The same for a function of an installed package in a task of `dask.delayed`.

    The user's functions in such tasks may have side effects. If the function gets one of them, or an object of a class
    of the user, as for a method of a delayed object, it is called once, and may convert blocks on the GPU.
    """

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """As for `HostFallback`."""
        with allow_conversion() if has_object_of_user((args, kwargs)) else nullcontext():
            return super().__call__(*args, **kwargs)

    def after_failure(self, failure: Exception, /, *args: Any, **kwargs: Any) -> Any:
        """As for `HostFallback`; with an object of the user among the arguments, `failure` is raised."""
        try:
            if has_object_of_user((args, kwargs)):
                raise failure
            return super().after_failure(failure, *args, **kwargs)
        finally:
            del failure


class DelayedCall(HostFallback):
    """The same for a function of the user in a task of `dask.delayed`: it may have side effects, so it runs once.

    It may convert blocks on the GPU. If it refers to a library of the host, such as scikit-image, which may take the
    memory of an array without a conversion, it gets copies on the host.
    """

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The result of the function."""
        if has_gpu_data((args, kwargs)) and calls_host_library(self.function):
            args, kwargs = _to_host(args), _to_host(kwargs)
        with allow_conversion():
            return self.function(*args, **kwargs)

    def after_failure(self, failure: Exception, /, *_args: Any, **_kwargs: Any) -> Any:
        """Raises `failure`."""
        raise failure


def _to_host(values: Any) -> Any:
    return arguments_on_host(page_locked.from_device(values))


def _checked_solutions() -> AbstractContextManager[None]:
    """In it, CuPy raises an error for a singular matrix, as NumPy does; else it returns numbers without a meaning."""
    cupyx = sys.modules.get("cupyx")
    return nullcontext() if cupyx is None else cupyx.errstate(linalg="raise")


def _restore(  # noqa: PLR0917 - called with the arguments of a pickle
    function: Callable[..., Any],
    layer: str,
    cell: str,
    refuse: bool,
    is_of_user: bool,
    kind: type[HostFallback] = HostFallback,
) -> HostFallback:
    """The object from a pickle; a `functools.partial` would be longer, in each task."""
    made = kind(function, layer, cell=cell, refuse=refuse)
    made._is_of_user = is_of_user  # noqa: SLF001 - of the same class
    return made
