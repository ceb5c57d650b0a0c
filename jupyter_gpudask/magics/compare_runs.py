"""``%%gpudask --compare``: run a cell on the CPU and on the GPUs, with copies of the variables."""

from __future__ import annotations

import ast
import copy
import inspect
import random
import re
import time
from array import array
from collections import ChainMap, Counter, OrderedDict, UserDict, UserList, defaultdict, deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from enum import Enum
from types import CodeType, FunctionType, MemberDescriptorType, MethodType, ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
from dask.base import is_dask_collection
from distributed import Future
from distributed.client import futures_of
from IPython.core.interactiveshell import InteractiveShell
from IPython.display import display

from ..client.calls import cancel_unfinished, import_on_cluster
from ..client.kernel_client import KernelClient
from ..errors import ComparisonError
from ..inspection.placement import to_host
from ..overlay import CellRecord
from ..protocol.messages import Ready
from ..protocol.spec import ClusterSpec
from ..session.launch import RunningCluster, temporary_cluster
from ..switch.context import default_client, switched_to
from ..switch.moving import host_collections, move_collections
from .arguments import CellArguments
from .compare_values import Comparison, compare, differ, give_up
from .output import Note, TableView

_IMPORTS = ("dask.array", "dask.dataframe")
_IMPORT_TIMEOUT = 30.0
_MOST_CHARACTERS = 120

VALUE = "value of the cell"
"""The name of the value of the last expression among the results."""

_COMMAND = "%gpudask"
_MAGICS_WITH_CODE = {"time", "timeit", "prun", "capture"}
_COMMAND_IN_CODE = re.compile(rf"(?:^|=)[ \t]*{_COMMAND}(?![\w?])(.*)", re.MULTILINE)


async def compare_runs(
    shell: InteractiveShell,
    cluster: RunningCluster,
    arguments: CellArguments,
    body: str,
    *,
    file: str,
    record: CellRecord,
) -> ComparisonView:
    """Run a cell on a temporary CPU cluster and then on the GPUs, and compare times and results.

    The notebook's variables are not changed: each run uses copies of the variables that the cell reads.
    """
    __tracebackhide__ = True
    status = display(Note("Running on the CPU ..."), display_id=True)
    cpu_spec = ClusterSpec.parse({"engine": "cpu"})
    with temporary_cluster(cluster.loop, cpu_spec) as cpu_cluster, ExitStack() as stack:
        import_on_cluster(cpu_cluster.client, _IMPORTS, _IMPORT_TIMEOUT)  # it belongs to the start of the cluster
        stack.enter_context(default_client.computing_on(cpu_cluster.client))
        stack.enter_context(switched_to("numpy", "pandas"))
        where = f"the {cpu_cluster.ready.describe()} with NumPy and pandas"
        cpu = await _run(body, file, copy_variables(shell.user_ns, body), cpu_cluster.client, where)
        if cpu.error is not None:
            raise cpu.error
    status.update(Note("Running on the GPUs ..."))
    namespace = copy_variables(shell.user_ns, body)
    backends = (arguments.array, arguments.dataframe)
    with ExitStack() as stack:
        stack.enter_context(default_client.computing_on(cluster.client))
        stack.enter_context(switched_to(*backends, record))
        outside = host_collections(body, namespace, backends)
        stack.enter_context(move_collections(arguments.move, namespace, mentioned=list(outside)))
        where = f"{cluster.ready.describe(cluster.state())} with {' and '.join(backends)}"
        gpu = await _run(body, file, namespace, cluster.client, where)
    status.update(Note("Ran on the CPU, then on the GPUs."))
    return ComparisonView(cpu, gpu, {} if gpu.error else _compare(cpu.results, gpu.results))


def _compare(cpu: dict[str, Any], gpu: dict[str, Any]) -> dict[str, Comparison]:
    comparisons = {}
    for name in cpu.keys() | gpu.keys():
        if name not in cpu or name not in gpu:
            comparisons[name] = differ(f"only on the {'CPU' if name in cpu else 'GPUs'}")
        elif is_dask_collection(cpu[name]):
            comparisons[name] = Comparison(None, "not computed: assign the value of compute() to compare it")
        elif not isinstance(cpu[name], ModuleType | FunctionType | type):
            comparisons[name] = _compare_on_host(cpu[name], gpu[name])
    return dict(sorted(comparisons.items(), key=lambda item: (item[0] != VALUE, item[0])))


def _compare_on_host(cpu: Any, gpu: Any) -> Comparison:
    try:
        return compare(to_host(_of_polars(cpu)), to_host(_of_polars(gpu)))
    except Exception as error:  # noqa: BLE001 - of any class: objects of the user, and dtypes that NumPy does not have
        return give_up(f"cannot be compared: {type(error).__name__}: {error}"[:_MOST_CHARACTERS])


def _of_polars(value: Any) -> Any:
    is_of_polars = type(value).__module__.startswith("polars.") and hasattr(value, "to_pandas")
    return value.to_pandas() if is_of_polars else value


async def _run(body: str, file: str, namespace: dict[str, Any], client: KernelClient, where: str) -> Run:
    __tracebackhide__ = True
    tree = ast.parse(body, file)
    assigned = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    before, value, error = set(client.futures), None, None
    began = time.perf_counter()
    try:
        await _evaluate(tree, file, "exec", namespace)
        if isinstance(last, ast.Expr):
            value = await _evaluate(ast.Expression(last.value), file, "eval", namespace)
    except Exception as raised:  # noqa: BLE001 - shown as the result of the run
        error = raised
    except BaseException:
        cancel_unfinished(client, before)
        raise
    seconds = time.perf_counter() - began
    results = {name: namespace[name] for name in assigned if name in namespace and not name.startswith("_")}
    return Run(where, seconds, ({} if value is None else {VALUE: value}) | results, error)


async def _evaluate(tree: Any, file: str, mode: str, namespace: dict[str, Any]) -> Any:
    __tracebackhide__ = True
    code = compile(tree, file, mode, ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
    result = eval(code, namespace)  # noqa: S307 - the user's cell
    return await result if inspect.iscoroutine(result) and code.co_flags & inspect.CO_COROUTINE else result


@dataclass(frozen=True)
class Run:
    """One run of a cell."""

    where: str  # the cluster and the libraries, in words
    seconds: float  # how long it took
    results: dict[str, Any]  # the variables that the cell has assigned, by name, and its value as `VALUE`
    error: BaseException | None = None  # the exception that the cell raised


def refuse(ready: Ready, body: str, file: str, namespace: Mapping[str, Any]) -> None:
    """Raise an error for a cell that ``--compare`` cannot run.

    Raises `ComparisonError` if the cluster has no GPUs, the cell has ``%gpudask`` commands, or it uses results that are
    on the GPU workers. Raises `SyntaxError` if the code is not Python.
    """
    if not ready.has_gpus:
        raise ComparisonError("compare-without-gpus")
    tree = ast.parse(body, file)
    for node in ast.walk(tree):
        arguments = _arguments_of_command(node)
        if arguments is not None:
            command = " ".join([_COMMAND, *arguments.split()[:1]])
            raise ComparisonError("compare-with-command", command=command)
    _refuse_results_on_workers(tree, namespace)


def _arguments_of_command(node: ast.AST) -> str | None:
    """The arguments of ``%gpudask`` if the node is a call of this magic, or of one such as ``%time`` with it."""
    match node:
        case ast.Call(ast.Attribute(attr="run_line_magic"), [ast.Constant("gpudask"), *arguments]):
            return _text(arguments)
        case ast.Call(ast.Attribute(attr="run_line_magic" | "run_cell_magic"), [ast.Constant(magic), *arguments]):
            found = _COMMAND_IN_CODE.search(_text(arguments)) if magic in _MAGICS_WITH_CODE else None
            return found[1] if found else None
        case _:
            return None


def _text(arguments: list[ast.expr]) -> str:
    return "\n".join(str(each.value) for each in arguments if isinstance(each, ast.Constant))


def _refuse_results_on_workers(tree: ast.Module, namespace: Mapping[str, Any]) -> None:
    """Raise for variables whose data is on the GPU workers, where the CPU cluster cannot read it."""
    for name in sorted({node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}):
        value = namespace.get(name)
        # The class alone: attribute access on a user's object may raise any exception.
        if issubclass(type(value), Future) or (hasattr(type(value), "__dask_graph__") and futures_of(value)):
            raise ComparisonError("compare-of-results", name=name)


class ComparisonView(TableView):
    """The times of both runs, the speed-up, and whether the results agree, by name."""

    def __init__(self, cpu: Run, gpu: Run, comparisons: dict[str, Comparison]) -> None:
        self.seconds = cpu.seconds, gpu.seconds
        self.agreements = comparisons
        self._cpu, self._gpu = cpu, gpu

    @property
    def speedup(self) -> float:
        """The time on the CPU divided by the time on the GPUs."""
        return self._cpu.seconds / self._gpu.seconds

    def _lines(self) -> tuple[list[str], list[str]]:
        lines = [f"{run.seconds:8.2f} s on {run.where}" for run in (self._cpu, self._gpu)]
        if self._gpu.error is not None:
            lines[1] += f", where it failed: {type(self._gpu.error).__name__}: {self._gpu.error}"
        else:
            factor = self.speedup if self.speedup >= 1 else 1 / self.speedup
            lines.append(f"{factor:8.1f} times {'faster' if self.speedup >= 1 else 'slower'} on the GPUs")
        return lines, []

    def _table(self) -> tuple[Sequence[str], Sequence[Sequence[str]]]:
        words = {True: "yes", False: "NO", None: "–"}
        rows = [(name, words[result.agrees], result.text) for name, result in self.agreements.items()]
        return ("result", "agrees", "details"), rows


_IMMUTABLE = {type(None), bool, int, float, complex, str, bytes, range, slice}
_CONTAINERS = {tuple, frozenset, list, set, dict, defaultdict, OrderedDict, Counter, deque}
_MUTABLE = (list, set, deque, OrderedDict, dict)
"""The base classes of containers, a subclass before its base class."""

_NAMESPACES = {SimpleNamespace, ChainMap, UserDict, UserList}
_FLAT = {bytearray, array}
_DATA = np.ndarray | pd.DataFrame | pd.Series
_GENERATORS = (
    random.Random | np.random.Generator | np.random.RandomState | np.random.BitGenerator | np.random.SeedSequence
)


def copy_variables(namespace: Mapping[str, Any], code: str) -> dict[str, Any]:
    """Copy the variables that the code reads, directly or through functions of the notebook.

    `Copier` decides what is copied and what is shared. Functions of the notebook use the copies.
    """
    copier = Copier(namespace.get("__name__", "__main__"))
    read = {node.id for node in ast.walk(ast.parse(code)) if isinstance(node, ast.Name)}
    queue = list(read)
    while queue:
        function = namespace.get(queue.pop())
        if function is not None and _is_defined_in(namespace, function):
            new = set(_names_in_bytecode(function.__code__)) - read
            read |= new
            queue += new
    copies = dict(namespace)
    for name in read & namespace.keys():
        copies[name] = (
            _with_globals(namespace[name], copies)
            if _is_defined_in(namespace, namespace[name])
            else copier.copy(namespace[name])
        )
    return copies


def _names_in_bytecode(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names_in_bytecode(constant)


def _is_defined_in(namespace: Mapping[str, Any], value: Any) -> bool:
    return type(value) is FunctionType and value.__globals__ is namespace


def _with_globals(function: FunctionType, namespace: dict[str, Any]) -> FunctionType:
    copied = FunctionType(function.__code__, namespace, function.__name__, function.__defaults__, function.__closure__)
    copied.__kwdefaults__ = function.__kwdefaults__
    copied.__dict__.update(function.__dict__)
    return copied


class Copier:
    """Copies data, containers of it, generators of random numbers, and objects of the notebook's classes.

    All other objects are shared, such as clients, files, locks and iterators: copies would affect the originals.
    Objects that cannot be copied are shared, too. An object that is found twice is copied once.
    """

    def __init__(self, module: str) -> None:
        self._module = module
        self._copies: dict[int, tuple[Any, Any]] = {}  # by id; with the original, so that no other object gets its id
        self._deep: dict[int, Any] = {}  # generators can have a bit generator in common

    def copy(self, value: Any) -> Any:
        """The copy of an object, or the object itself if it is shared."""
        if type(value) in _IMMUTABLE:
            return value
        if id(value) not in self._copies:
            try:
                copied = self._copy(value)
            except Exception:  # noqa: BLE001 - of any class: code of the user's classes, and any depth of nesting
                copied = value
            self._add(value, copied)
        return self._copies[id(value)][1]

    def _add(self, value: Any, copied: Any) -> None:
        self._copies[id(value)] = (value, copied)

    def _is_own(self, value: Any) -> bool:
        return type(value).__module__ == self._module

    def _copy(self, value: Any) -> Any:
        kind = type(value)
        if isinstance(value, type | Enum) or hasattr(kind, "__del__"):  # the end of a copy would affect the original
            return value
        if isinstance(value, _GENERATORS) or kind.__module__ == "dask.array.random":
            return copy.deepcopy(value, self._deep)
        # The class first: attribute access on a user's object may raise any exception.
        is_collection = hasattr(kind, "__dask_graph__") and is_dask_collection(value)
        if is_collection or kind in _FLAT or isinstance(value, _DATA):
            return copy.copy(value)
        return self._copy_nested(value, kind)

    def _copy_nested(self, value: Any, kind: type) -> Any:
        is_own = self._is_own(value)
        if isinstance(value, MethodType) and self._is_own(value.__self__):
            return MethodType(value.__func__, self.copy(value.__self__))
        if isinstance(value, tuple | frozenset) and (is_own or kind in _CONTAINERS or hasattr(kind, "_fields")):
            return self._copy_immutable(value)
        if isinstance(value, _MUTABLE) and (is_own or kind in _CONTAINERS):
            return self._copy_container(value)
        return self._copy_object(value) if is_own or kind in _NAMESPACES else value

    def _copy_immutable(self, value: Any) -> Any:
        base: Any = tuple if isinstance(value, tuple) else frozenset
        before = list(base.__iter__(value))
        parts = [self.copy(part) for part in before]
        if id(value) in self._copies:  # it contains itself, in a list for example
            return self._copies[id(value)][1]
        if all(part is old for part, old in zip(parts, before, strict=True)) and not getattr(value, "__dict__", None):
            return value
        copied = base.__new__(type(value), parts)
        self._add(value, copied)
        self._copy_state(value, copied)
        return copied

    def _copy_container(self, value: Any) -> Any:
        # With the methods of the base class: those of the user's class may do more, and an OrderedDict has an order.
        base: Any = next(each for each in _MUTABLE if isinstance(value, each))
        copied = base.__new__(type(value))
        self._add(value, copied)
        if base is deque:
            deque.__init__(copied, (), value.maxlen)
        if isinstance(value, defaultdict):
            copied.default_factory = value.default_factory
        if issubclass(base, dict):
            for key, part in base.items(value):
                base.__setitem__(copied, self.copy(key), self.copy(part))
        else:
            add = set.update if base is set else base.extend
            add(copied, [self.copy(part) for part in base.__iter__(value)])
        self._copy_state(value, copied)
        return copied

    def _copy_object(self, value: Any) -> Any:
        try:
            copied = object.__new__(type(value))  # runs no code of the class
            source = value
        except TypeError:  # its base class is not written in Python, such as that of exceptions
            copied = source = copy.copy(value)
            attributes = getattr(value, "__dict__", None)
            if attributes is not None and copied.__dict__ is attributes:  # as tblib copies some exceptions
                copied.__dict__ = dict(attributes)
        self._add(value, copied)
        self._copy_state(source, copied)
        return copied

    def _copy_state(self, source: Any, copied: Any) -> None:
        """Set the attributes of `copied` to copies of those of `source`, which can be the same object."""
        attributes = dict(getattr(source, "__dict__", {}))
        if attributes:
            vars(copied).update(attributes)  # a key of a dictionary that refers to it may need them for its hash
            vars(copied).update({name: self.copy(part) for name, part in attributes.items()})
        for slot in _slots(type(source)):
            try:
                part = slot.__get__(source)
            except AttributeError:  # it has no value
                continue
            slot.__set__(copied, self.copy(part))


def _slots(kind: type) -> Iterator[Any]:
    for each in kind.__mro__:
        if "__slots__" in vars(each):
            yield from (member for member in vars(each).values() if isinstance(member, MemberDescriptorType))
