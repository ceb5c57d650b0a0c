"""Arguments and results of functions of blocks: inspect them, copy them, and move them between GPU and host."""

from __future__ import annotations

import copy
import dataclasses
import functools
import math
import sys
from collections.abc import Callable, Collection, Iterator
from importlib import import_module
from importlib.util import find_spec
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from dask.utils import funcname, key_split, typename
from pandas.api.types import infer_dtype
from tlz import compose

from ..inspection.placement import can_move, is_type_of_gpu
from ..inspection.results import fields_of, in_containers, is_plain_tuple, results_to_host, with_fields
from .missing import reason_to_fall_back
from .page_locked import is_locked, to_device

_PANDAS = (pd.DataFrame, pd.Series, pd.Index)
_LIBRARIES = frozenset({"_operator", "builtins", "cudf", "cupy", "dask", "dask_cudf", "numpy", "operator", "pandas"})
_CONTAINERS = (dict, list, tuple, set, frozenset)
_OF_MISSING = (type(None), float, type(pd.NA), type(pd.NaT))
_THIS_PACKAGE = __name__.partition(".")[0]
_Composition = type(compose(str, repr))  # of functions; Dask's reductions are such

_FOLDERS = {"site-packages", "dist-packages"}
"""Where Python's installers put packages."""

_OF_THE_USER = {"__main__", "__mp_main__"}
"""Modules of the user's code, also where Python was started as ``python -m PACKAGE``, as some workers are."""


def has_gpu_data(value: Any, package: str = "") -> bool:
    """Whether this is a GPU array or dataframe, or a container or function that has one; of one package if given."""
    return any(_is_gpu_data(part, package) for part in _parts(value))


def has_function_of_user(value: Any) -> bool:
    """Whether this is, or has, a function that may change its blocks; those of Dask and its libraries do not."""
    kind: Any = type(value)
    if kind is tuple or kind is list:  # without `_parts`, which takes ten times as long; this runs before each task
        return any(map(has_function_of_user, value))
    if kind is dict:
        return any(map(has_function_of_user, value.values()))
    return _may_have_functions(kind) and any(map(_is_function_of_user, _parts(value)))


def has_object_of_user(value: Any) -> bool:
    """Whether this is, or has, a function of the user, or an object of a class of the user."""
    return not all(map(is_of_installed_package, _parts(value)))


@functools.lru_cache(maxsize=1024)
def _may_have_functions(kind: type) -> bool:
    """Whether objects of this type can be called, or have contents that can; no other dataclass of this package has."""
    is_other_dataclass = dataclasses.is_dataclass(kind) and not kind.__module__.startswith(f"{_THIS_PACKAGE}.")
    has_contents = issubclass(kind, _CONTAINERS) or is_aggregation(kind) or is_other_dataclass
    return has_contents or any("__call__" in parent.__dict__ for parent in kind.__mro__)


def is_aggregation(kind: type) -> bool:
    """Whether this is `dask.dataframe.Aggregation`, an object that has functions of the user."""
    return kind.__name__ == "Aggregation" and kind.__module__.startswith("dask.")


def is_of_linear_algebra(function: Any) -> bool:
    """Whether this is, or has, a function of a module such as `numpy.linalg`."""
    return any(".linalg" in str(getattr(part, "__module__", "")) for part in _parts(function))


def is_move_of_frame(function: Any) -> bool:
    """Whether this is a function by which dask_cudf, or this package, moves a partition of pandas to the GPU."""
    return getattr(function, "__qualname__", "") in ("ToCudfBackend.operation", "ToGpu.operation", "partition_to_gpu")


def reads_onto_gpu(function: Any) -> bool:
    """Whether this is a function of `patches.frames.files.gpu_readers`, which gets no data of a GPU, but a file."""
    return getattr(type(function), "gpudask_reads", False) is True


def has_results_on_host(value: Any) -> bool:
    """Whether this is, or has, a function of `patches.user_functions` whose results belong on the host."""
    return any(
        type(part).__module__.startswith(f"{_THIS_PACKAGE}.") and getattr(part, "place", None) == "host"
        for part in _parts(value)
    )


def callable_parts(value: Any) -> Iterator[Any]:
    """The functions that this is, or has."""
    return filter(callable, _parts(value))


def _parts(value: Any) -> Iterator[Any]:
    """What containers, dataclasses, partial functions, compositions and aggregations have; anything else as it is."""
    inner: Any = None
    if isinstance(value, list | tuple | set | frozenset):
        inner = value
    elif isinstance(value, dict):
        inner = value.values()
    elif isinstance(value, functools.partial):
        inner = value.func, value.args, value.keywords
    elif isinstance(value, _Composition):
        inner = value.first, value.funcs
    elif is_aggregation(type(value)):
        inner = vars(value).values()
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):  # as of flox's scans
        inner = fields_of(value).values()
    if inner is None:
        yield value
    else:
        for part in inner:
            yield from _parts(part)


def _is_gpu_data(value: Any, package: str) -> bool:
    kind = type(value)
    if not is_type_of_gpu(kind) and callable(value):  # perhaps a method of such data
        kind = type(getattr(value, "__self__", None))
    return is_type_of_gpu(kind) and kind.__module__.startswith(package)


def _is_function_of_user(value: Any) -> bool:
    if not callable(value):
        return False
    package = (getattr(value, "__module__", None) or type(value).__module__).partition(".")[0]
    if package == _THIS_PACKAGE:
        return has_function_of_user(getattr(value, "__wrapped__", None))
    return package not in _LIBRARIES


def operation_of(function: Callable[..., Any], layer: str = "") -> str:
    """The name of a function for the user; where it has none, that of the collection `layer`."""
    while isinstance(function, _Composition):
        function = function.funcs[-1]  # the last one that is called
    name = funcname(function)
    return key_split(layer) if name.startswith(("_", "<")) and layer else name


def copied(value: Any) -> Any:
    """A value with copies of its arrays and dataframes."""
    if type(value) is dict:
        return {key: copied(part) for key, part in value.items()}
    if type(value) is list or is_plain_tuple(value):
        return type(value)(map(copied, value))
    if isinstance(value, np.ndarray) or typename(type(value)) == "cupy.ndarray":
        return value.copy(order="K")
    if isinstance(value, pd.DataFrame | pd.Series) or is_type_of_gpu(type(value)):
        return value.copy()
    return value


def arguments_on_host(value: Any) -> Any:
    """As `results_to_host`, also what objects keep in their attributes, such as the cache of dask-ml's searches.

    The objects stay as they are: their copies have the attributes on the host.
    """
    return in_containers(_object_on_host, value)


def _object_on_host(value: Any) -> Any:
    moved = results_to_host(value)
    attributes = getattr(value, "__dict__", None)
    if moved is not value or isinstance(value, type) or not isinstance(attributes, dict):
        return moved
    if not has_gpu_data(attributes):
        return value
    copied = copy.copy(value)
    vars(copied).update(results_to_host(attributes))
    return copied


def on_host(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function with host copies of the GPU data that it has: arguments of a `functools.partial`, or self.

    Of a function of ``cupyx.scipy``, that of SciPy; an object with a method ``gpudask_on_host`` is replaced by its
    result.
    """
    if hasattr(type(function), "gpudask_on_host"):  # a name that no class of the user has
        inside: Callable[..., Any] = function.gpudask_on_host()  # type: ignore[attr-defined]
        return inside
    if isinstance(function, functools.partial):
        return functools.partial(
            on_host(function.func), *results_to_host(function.args), **results_to_host(function.keywords)
        )
    owner = getattr(function, "__self__", None)
    if owner is not None and is_type_of_gpu(type(owner)):
        method: Callable[..., Any] = getattr(results_to_host(owner), function.__name__)
        return method
    return _of_scipy(function)


def _of_scipy(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function of SciPy with the place and name of a function of ``cupyx.scipy``; any other as it is."""
    package, name = str(getattr(function, "__module__", "")).split(".")[:3], getattr(function, "__name__", "")
    if package[:2] != ["cupyx", "scipy"] or getattr(sys.modules.get(".".join(package)), name, None) is not function:
        return function
    found: Callable[..., Any] = getattr(import_module(".".join(package[1:])), name, function)
    return found


def to_gpu(result: Any, kinds: Collection[str]) -> Any:
    """A result of the host, moved to the GPU as far as the GPU library can hold it.

    - `result`: a result, or a tuple, list, dictionary or dataclass of results.
    - `kinds`: the libraries of the function's arguments. With ``"cupy"``, scalars of NumPy become arrays without
      dimensions, as CuPy returns them; only with ``"cudf"`` do dataframes of pandas become dataframes of cuDF.
    """
    if type(result) is dict:
        return {key: to_gpu(value, kinds) for key, value in result.items()}
    if isinstance(result, tuple) and hasattr(result, "_fields"):
        return type(result)(*(to_gpu(value, kinds) for value in result))
    if type(result) is list or is_plain_tuple(result):
        return type(result)(to_gpu(value, kinds) for value in result)
    if dataclasses.is_dataclass(result) and not isinstance(result, type):
        return with_fields(result, {name: to_gpu(value, kinds) for name, value in fields_of(result).items()})
    if type(result) is np.ndarray or ("cupy" in kinds and isinstance(result, np.generic)):
        return _array_to_gpu(result)
    return frame_to_gpu(result) if "cudf" in kinds and isinstance(result, _PANDAS) else result


def _array_to_gpu(array: Any) -> Any:
    if not can_move(np.asarray(array)):
        return array
    if is_locked(array):
        return to_device(array)
    import cupy

    return cupy.asarray(array)


def frame_to_gpu(frame: Any) -> Any:
    """A dataframe, Series or index of pandas as one of cuDF; as it is, if cuDF cannot hold it."""
    if _has_containers(frame):
        return frame
    import cudf

    try:
        return cudf.from_pandas(_with_numbers(frame))
    except Exception as error:
        if not reason_to_fall_back(error):
            raise
    return frame


def _with_numbers(frame: Any) -> Any:
    """Numbers for objects that are numbers or missing, which cuDF refuses, as `apply` makes of Arrow's columns.

    A partition that stays on the host beside others on the GPU has another hash of its rows. It does stay if another
    column is all missing, as in a row of sums: cuDF would make texts of it, beside numbers of other partitions.
    """
    if isinstance(frame, pd.Index):
        return frame
    if frame.ndim == 1:
        return _numbers_of(frame)
    objects = {place: column for place, (_, column) in enumerate(frame.items()) if column.dtype == object}
    if len(frame) and any(column.isna().all() for column in objects.values()):
        return frame
    made = {place: _numbers_of(column) for place, column in objects.items()}
    if made:
        frame = frame.copy(deep=False)
    for place, column in made.items():
        frame.isetitem(place, column)
    return frame


def _numbers_of(column: Any) -> Any:
    kind = infer_dtype(column) if column.dtype == object else ""
    if kind not in ("floating", "integer"):
        return column
    is_nullable = kind == "integer" or any(value is pd.NA for value in column)
    try:
        return column.astype(("Int64" if kind == "integer" else "Float64") if is_nullable else "float64")
    except OverflowError:
        return column


def _has_containers(frame: Any) -> bool:
    """Whether there is a column of tuples, of which cuDF makes lists, or of lists that it changes.

    In lists it has `None` for NaN, and times and durations of Python.
    """
    columns = [frame] if frame.ndim == 1 else [frame.iloc[:, number] for number in range(frame.shape[1])]
    return any(column.dtype == object and _is_of_containers(column) for column in columns)


def _is_of_containers(column: Any) -> bool:
    if isinstance(column, pd.Index):
        return False
    first = next((value for value in column if type(value) not in _OF_MISSING), None)
    if type(first) is not list:
        return isinstance(first, tuple)
    return any(map(_is_changed, chain.from_iterable(each for each in column if type(each) is list)))


def _is_changed(value: Any) -> bool:
    is_time = isinstance(value, pd.Timestamp | pd.Timedelta | type(pd.NaT))
    return is_time or value is pd.NA or (type(value) is float and math.isnan(value))


def is_of_installed_package(value: Any) -> bool:
    """Whether an object, and the functions of which it is made, belong to installed packages or to Python.

    The class of an object counts, of a function its module, and of a method the class of its object.
    """
    if isinstance(value, functools.partial):
        return all(map(is_of_installed_package, (value.func, *value.args, *value.keywords.values())))
    if is_type_of_gpu(type(value)):
        return True
    # A function that wraps another one has its ``__module__``.
    code = getattr(value, "__globals__", None)
    module = code.get("__name__", "") if code else getattr(value, "__module__", None) or type(value).__module__
    names = ("__self__", "__wrapped__", *(("pyfunc",) if isinstance(value, np.vectorize) else ()))
    inner = (getattr(value, name, None) for name in names)  # not any name: a delayed object has all
    return _is_installed(str(module).partition(".")[0]) and all(
        is_of_installed_package(part) for part in inner if part is not None
    )


@functools.lru_cache(maxsize=1024)
def _is_installed(package: str) -> bool:
    if package in _OF_THE_USER:
        return False
    if package in sys.stdlib_module_names:
        return True
    # A function that is sent by value, such as one with a decorator, does not import its package.
    module = sys.modules.get(package)
    spec = getattr(module, "__spec__", None) if module or not package else find_spec(package)
    folders = [getattr(spec, "origin", None) or "", *(getattr(spec, "submodule_search_locations", None) or ())]
    return any(_FOLDERS.intersection(Path(folder).parts) for folder in folders)
