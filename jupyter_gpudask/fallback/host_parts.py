"""Parts of tasks that run on the host: whether a call is one, by its functions and values.

What a worker of a GPU does during such a part is decided by its plugin `HOST_THREADS`; elsewhere nothing is done.
"""

from __future__ import annotations

import functools
import sys
from contextlib import nullcontext
from types import FunctionType, MethodType, ModuleType
from typing import TYPE_CHECKING, Any

from dask._task_spec import Alias, DataNode, GraphNode, NestedContainer, Task, _execute_subgraph
from dask.utils import funcname, key_split
from distributed import get_worker

from ..graph.program import Program
from ..inspection.placement import is_type_of_gpu
from .values import has_gpu_data

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from contextlib import AbstractContextManager

HOST_THREADS = "gpudask-host-threads"
"""The name of `worker.host_threads.HostThreadsPlugin`."""

_HOST_PACKAGES = frozenset(
    {
        *(
            "PIL",
            "astropy",
            "bottleneck",
            "bs4",
            "cytoolz",
            "dask",
            "dask_image",
            "dask_ml",
            "fsspec",
            "h5py",
            "imageio",
        ),
        *("joblib", "lxml", "nltk", "numba", "numcodecs", "numexpr", "numpy", "pandas", "patsy", "pyarrow", "pywt"),
        *(
            "rasterio",
            "regex",
            "rioxarray",
            "scipy",
            "shapely",
            "skimage",
            "sklearn",
            "sparse",
            "statsmodels",
            "tables",
        ),
        *("tifffile", "tlz", "toolz", "xarray", "zarr"),
    }
)
"""Packages whose functions compute on the host what they get on the host."""

_GPU_PACKAGES = frozenset({"cudf", "cupy", "cupyx", "dask_cudf"})
_NOT_ON_HOST = ("numba.cuda", "dask.sizeof")
_OF_THE_USER = frozenset({"__main__", "__mp_main__"})
_PARTS = ("__wrapped__", "func", "funcs", "first", "args", "keywords", "__self__", "pyfunc", "reader")
"""Where objects that can be called have the functions and values of which they are made."""
_MOST_LEVELS = 6
_MOST_PARTS = 100
_CONTAINERS = (list, tuple, set, frozenset)
_THIS_PACKAGE = __name__.partition(".")[0]


def host_call(function: Callable[..., Any], values: tuple[Any, ...]) -> AbstractContextManager[Any]:
    """A context in which `function` is called with `values`, or with what they contain."""
    return _part(function, lambda: runs_on_host(function) and not has_gpu_data(values), values)


def host_task(task: GraphNode, results: Mapping[Any, Any]) -> AbstractContextManager[Any]:
    """A context in which a task of a graph is called with the results of others."""
    values = tuple(results[key] for key in task.dependencies if key in results)
    return _part(task.key, lambda: _is_of_host(task) and not has_gpu_data(values), values)


_NO_PART: AbstractContextManager[Any] = nullcontext()


def _part(what: Any, is_on_host: Callable[[], bool], values: tuple[Any, ...]) -> AbstractContextManager[Any]:
    kinds: Any = map(type, values)
    if any(map(_is_of_gpu, kinds)):
        return _NO_PART
    try:
        plugin: Any = get_worker().plugins.get(HOST_THREADS)
    except ValueError:  # not in a worker
        return _NO_PART
    return _NO_PART if plugin is None else plugin.part(_name_of(what), is_on_host, values)


def _name_of(what: Any) -> str:
    """The name of a function, or of the collection or the function in the key of a task."""
    if isinstance(what, tuple):
        return str(what[0])
    return key_split(what) if isinstance(what, str) else funcname(what)


@functools.lru_cache(maxsize=1024)
def _is_of_gpu(kind: Any) -> bool:
    return is_type_of_gpu(kind)


def _is_of_host(node: Any) -> bool:
    """Whether all functions of a task compute on the host; a task that Dask or we have fused has several."""
    if isinstance(node, Alias):
        return True
    if isinstance(node, DataNode):
        return runs_on_host(node.value) if callable(node.value) else not has_gpu_data(node.value)
    if not isinstance(node, Task):
        return isinstance(node, GraphNode)  # of a reference to another result
    if isinstance(node.func, Program):
        return all(_is_of_host(step) for step, _ in node.func.steps) and all(map(_is_value_of_host, node.args))
    if node.func is _execute_subgraph:
        inner, _, _, *values = node.args
        return all(map(_is_of_host, inner.values())) and all(map(_is_value_of_host, values))
    is_container = isinstance(node, NestedContainer)
    return (is_container or runs_on_host(node.func)) and all(
        map(_is_value_of_host, (*node.args, *node.kwargs.values()))
    )


def _is_value_of_host(value: Any) -> bool:
    if isinstance(value, GraphNode):
        return _is_of_host(value)
    if isinstance(value, list | tuple | set | frozenset):
        return all(map(_is_value_of_host, value))
    if isinstance(value, dict):
        return all(map(_is_value_of_host, value.values()))
    return runs_on_host(value) if callable(value) else not (is_type_of_gpu(type(value)) or _reads_to_gpu(value))


def _reads_to_gpu(value: Any) -> bool:
    """Whether this is an array of Zarr, and ``zarr.config.enable_gpu()`` was called."""
    zarr: Any = sys.modules.get("zarr")
    return type(value).__module__.startswith("zarr.") and "gpu" in str(zarr.config.get("buffer", ""))


def runs_on_host(function: Any, level: int = 0) -> bool:
    """Whether a function computes on the host if its arguments are there; if in doubt, it does not.

    Those of the user do if what they refer to does: functions of known packages and other functions of the user.
    """
    if level > _MOST_LEVELS:
        return False
    if isinstance(function, MethodType):
        return _refers_to_host(function.__func__, level + 1) and _refers_to_host(function.__self__, level + 1)
    is_class = isinstance(function, type)
    kind = function if is_class or isinstance(function, FunctionType) else type(function)
    module = getattr(function, "__module__", None)
    module = module if isinstance(module, str) else str(kind.__module__)
    if module.partition(".")[0] == _THIS_PACKAGE:
        wrapped = getattr(function, "__wrapped__", None)
        return wrapped is not None and runs_on_host(wrapped, level + 1)
    if str(kind.__module__).startswith("numba.core."):  # in parallel it may not be called by several threads
        return not getattr(function, "targetoptions", {"parallel": True}).get("parallel")
    if not _is_of_user(kind):
        is_of_host = _is_host_module(module)
    else:
        code = function if isinstance(function, FunctionType) else getattr(kind, "__call__", None)  # noqa: B004
        is_of_host = is_class or (isinstance(code, FunctionType) and _is_code_of_host(code, level))
    return is_of_host and (is_class or _has_parts_of_host(function, level))


def _has_parts_of_host(function: Any, level: int) -> bool:
    """Whether the functions and values of which an object consists are of the host."""
    parts = (getattr(function, name, None) for name in _PARTS)
    return all(_refers_to_host(part, level + 1) for part in (*getattr(function, "__dict__", {}).values(), *parts))


def _is_of_user(function: Any) -> bool:
    """Whether a function or a class is none of an installed package."""
    root = str(getattr(function, "__module__", "")).partition(".")[0]
    known = root in _HOST_PACKAGES or root in _GPU_PACKAGES or root in sys.stdlib_module_names
    return root in _OF_THE_USER or not (known or _is_installed(root))


@functools.lru_cache(maxsize=1024)
def _is_installed(root: str) -> bool:
    origin = getattr(getattr(sys.modules.get(root), "__spec__", None), "origin", None) or ""
    return "site-packages" in origin or "dist-packages" in origin or root in sys.builtin_module_names


def _is_host_module(module: str) -> bool:
    root = module.partition(".")[0]
    return (root in _HOST_PACKAGES or root in sys.stdlib_module_names) and not module.startswith(_NOT_ON_HOST)


def _is_code_of_host(function: FunctionType, level: int) -> bool:
    """Whether all that the code of a function refers to computes on the host."""
    names: set[str] = set()
    codes = [function.__code__]
    while codes:
        code = codes.pop()
        names.update(code.co_names)
        codes += [each for each in code.co_consts if hasattr(each, "co_names")]
    for name in names:
        if name in function.__globals__:
            if not _refers_to_host(function.__globals__[name], level + 1):
                return False
        elif name in sys.modules and not _refers_to_host(sys.modules[name], level + 1):  # it may import it
            return False
    cells = [cell.cell_contents for cell in function.__closure__ or () if _has_contents(cell)]
    defaults = (*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values())
    return all(_refers_to_host(value, level + 1) for value in (*cells, *defaults))


def _has_contents(cell: Any) -> bool:
    try:
        _ = cell.cell_contents
    except ValueError:
        return False
    return True


def _refers_to_host(value: Any, level: int) -> bool:
    """Whether a module, a function, or an object to which code refers, is of the host."""
    if level > _MOST_LEVELS:
        return False
    if isinstance(value, ModuleType):
        return _is_host_module(value.__name__) or _is_module_of_user(value)
    if callable(value):
        return runs_on_host(value, level)
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, _CONTAINERS) else ()
    if _is_of_user(type(value)):
        parts = getattr(value, "__dict__", {}).values()
    elif not _is_host_module(type(value).__module__):
        return False
    return all(_refers_to_host(part, level + 1) for part in list(parts)[:_MOST_PARTS])


def _is_module_of_user(module: ModuleType) -> bool:
    """Whether a module is none of an installed package, and refers to none that may compute on a GPU."""
    root = module.__name__.partition(".")[0]
    if root in sys.stdlib_module_names or _is_installed(root):
        return False
    used: Iterable[Any] = (value for value in vars(module).values() if isinstance(value, ModuleType))
    return all(_is_host_module(each.__name__) for each in used)
