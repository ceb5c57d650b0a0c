"""Parts of tasks that run on the host: whether a call is one, by its functions and values.

What a worker of a GPU does during such a part is decided by its plugin `HOST_THREADS`; elsewhere nothing is done.
"""

from __future__ import annotations

import dis
import functools
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType
from typing import Any

from dask._task_spec import DataNode, GraphNode, NestedContainer, Task, _execute_subgraph
from dask.utils import funcname, key_split
from distributed import get_worker

from ..graph.program import Program
from ..inspection.placement import is_type_of_gpu
from .functions import MOST_VALUES, is_of_gpu_library, named_by, names_gpu_library
from .values import callable_parts, has_gpu_data, is_of_installed_package

HOST_THREADS = "gpudask-host-threads"
"""The name of `worker.host_threads.HostThreadsPlugin`."""

_HOST_PACKAGES = (
    *("PIL", "bottleneck", "cytoolz", "dask", "dask_image", "dask_ml", "fsspec", "h5py", "imageio", "numba"),
    *("numcodecs", "numexpr", "numpy", "pandas", "pyarrow", "pywt", "scipy", "shapely", "skimage", "sklearn", "sparse"),
    *("statsmodels", "tifffile", "tlz", "toolz", "xarray", "zarr"),
)
"""Packages whose functions compute on the host what they get on the host."""

_HOST_ONLY = frozenset({"PIL", "bottleneck", "numba", "pywt", "skimage", "sklearn", "statsmodels", "tifffile"})
"""Those of them that cannot compute with arrays on GPUs, and may take their memory without a conversion."""

_OF_STATE = frozenset(
    {
        *("chdir", "connect", "environ", "local", "putenv", "seed", "set_state", "setlocale", "sqlite3"),
        *("CDLL", "__import__", "cuda", "eval", "exec", "import_module", "matplotlib", "netCDF4", "plt"),
    }
)
"""Names in functions whose results may depend on what others do in the same process, or on their thread; or of what is
not known, or of the device."""

_OF_ANYTHING = frozenset({"_ctypes", "ctypes", "importlib", "runpy"})
"""Modules of Python by which a function may use any library."""

_THIS_PACKAGE = __name__.partition(".")[0]


def host_call(function: Callable[..., Any], values: tuple[Any, ...]) -> AbstractContextManager[Any]:
    """A context in which `function` is called with `values`, or with what they contain."""
    plugin = host_threads()
    if plugin is None:
        return _NO_PART
    kinds: Any = map(type, values)
    if any(map(_is_of_gpu, kinds)):
        return plugin.call  # type: ignore[no-any-return]
    return _part(plugin, function, lambda: runs_on_host(function, values), values, is_call=True)


def host_task(task: GraphNode, results: Mapping[Any, Any], plugin: Any) -> AbstractContextManager[Any]:
    """A context in which a task of a graph is called with the results of others.

    `plugin`: what `host_threads` returns.
    """
    if plugin is None:
        return _NO_PART
    is_call = not _has_steps(getattr(task, "func", None))
    values = _needed(task, results)
    kinds: Any = map(type, values)
    if any(map(_is_of_gpu, kinds)):
        return plugin.call if is_call else _NO_PART
    return _part(plugin, task.key, functools.partial(is_host_task, task, results), values, is_call=is_call)


def _has_steps(function: Any) -> bool:
    kind: Any = type(function)
    return function is _execute_subgraph or _is_of_this_package(kind)


@functools.lru_cache(maxsize=1024)
def _is_of_this_package(kind: Any) -> bool:
    return str(kind.__module__).startswith(f"{_THIS_PACKAGE}.")


def is_host_task(task: GraphNode, results: Mapping[Any, Any]) -> bool:
    """Whether a task of a graph, which is called with the results of others, and these are of the host."""
    # Most end at their first function.
    return runs_on_host(_needed(task, results)) and all(map(runs_on_host, _contents(task)))


def _needed(task: GraphNode, results: Mapping[Any, Any]) -> list[Any]:
    return [results[key] for key in task.dependencies if key in results]


def host_threads() -> Any:
    """The plugin of this worker that decides what it does during parts on the host; `None` if it has none."""
    try:
        plugin: Any = get_worker().plugins.get(HOST_THREADS)
    except ValueError:  # not in a worker
        return None
    return plugin if plugin is not None and plugin.is_on else None


_NO_PART: AbstractContextManager[Any] = nullcontext()


def _part(
    plugin: Any, what: Any, is_on_host: Callable[[], bool], values: Sequence[Any], *, is_call: bool
) -> AbstractContextManager[Any]:
    name = _name_of(what) if is_call else f"steps of {_name_of(what)}"  # of which the last one has the same name
    kind = {"is_call": is_call, "is_of_collection": isinstance(what, tuple)}
    return plugin.part(name, is_on_host, values, **kind)  # type: ignore[no-any-return]


def _name_of(what: Any) -> str:
    """The name of a function, or of the collection or the function in the key of a task."""
    if isinstance(what, tuple):
        return str(what[0])
    return key_split(what) if isinstance(what, str) else funcname(what)


@functools.lru_cache(maxsize=1024)
def _is_of_gpu(kind: Any) -> bool:
    return is_type_of_gpu(kind)


def _contents(node: Any) -> Iterator[Any]:
    """The functions of a task, and what they are called with; a task that Dask or we have fused has several."""
    if isinstance(node, DataNode):
        yield node.value
    elif isinstance(node, Task):
        parts = [*node.args, *node.kwargs.values()]
        if isinstance(node.func, Program):
            parts += [step for step, _ in node.func.steps]
        elif node.func is _execute_subgraph:
            inner, _, _, *others = node.args
            parts = [*inner.values(), *others]
        elif not isinstance(node, NestedContainer):
            yield node.func
        for part in parts:
            yield from _contents(part)
    elif not isinstance(node, GraphNode):  # and no reference to another result
        yield node


def runs_on_host(*values: Any) -> bool:
    """Whether functions, and what they are called with, are of the host; if in doubt, they are not.

    A function of the user is if it refers to nothing but packages that are known, data, and other such functions, and
    changes nothing that others may read meanwhile.
    """
    return not has_gpu_data(values) and all(map(_is_of_host, callable_parts(values)))


def calls_host_library(function: Any) -> bool:
    """Whether a function of the user refers to a library that computes on the host only, and to nothing of a GPU.

    One that calls ``block.get()`` knows that its blocks are on the GPU.
    """
    named = list(named_by(function))
    is_for_gpu = names_gpu_library(function) or any("get" in names for _, names in named)
    return not is_for_gpu and any(_package_of(value) in _HOST_ONLY for value, _ in named)


def _is_of_host(function: Any) -> bool:
    if _package_of(function) == _THIS_PACKAGE:
        wrapped = getattr(function, "__wrapped__", None)
        return wrapped is not None and runs_on_host(wrapped)
    for number, (value, names) in enumerate(named_by(function), 1):
        if number == MOST_VALUES or names & _OF_STATE or not _is_known(value):
            return False
    return True


def _is_known(value: Any) -> bool:
    """Whether it is of a package that is known, or data of Python, or a function of the user with known contents."""
    if isinstance(value, FunctionType) and not is_of_installed_package(value):
        return _is_harmless_code(value.__code__)
    return _is_known_package(_package_of(value)) and not is_of_gpu_library(value)


def _package_of(value: Any) -> str:
    # An object that wraps a function has its ``__module__``.
    has_own = isinstance(value, FunctionType | BuiltinFunctionType | type)
    name = value.__name__ if isinstance(value, ModuleType) else getattr(value, "__module__", None) if has_own else None
    return str(name or type(value).__module__).partition(".")[0]


def _is_known_package(package: str) -> bool:
    return package in _HOST_PACKAGES or (package in sys.stdlib_module_names and package not in _OF_ANYTHING)


@functools.lru_cache(maxsize=1024)
def _is_harmless_code(code: CodeType) -> bool:
    return all(map(_is_harmless, _instructions(code)))


def _instructions(code: CodeType) -> Iterator[dis.Instruction]:
    """Those of a function and of the functions that are defined in it."""
    yield from dis.Bytecode(code)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _instructions(constant)


def _is_harmless(instruction: dis.Instruction) -> bool:
    """Whether an instruction neither sets a global variable nor imports what is not known."""
    name = instruction.opname
    if name == "IMPORT_NAME":
        return _is_known_package(str(instruction.argval).partition(".")[0])
    return not (name.endswith("_GLOBAL") and name[0] in "SD")
