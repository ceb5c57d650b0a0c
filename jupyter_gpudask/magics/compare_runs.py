"""``%%gpudask --compare``: run a cell on the CPU and on the GPUs, with copies of the variables."""

from __future__ import annotations

import ast
import inspect
import re
import time
from contextlib import ExitStack
from dataclasses import dataclass
from html import escape
from types import FunctionType, ModuleType
from typing import TYPE_CHECKING, Any

from IPython.display import display

from ..errors import ComparisonError
from .cluster import describe_cluster
from .output import Note, View, format_table, html_table

if TYPE_CHECKING:
    from collections.abc import Mapping

    from distributed import Client
    from IPython.core.interactiveshell import InteractiveShell

    from ..overlay import CellRecord
    from ..protocol import Ready
    from ..session.launch import RunningCluster
    from .arguments import CellArguments
    from .compare_values import Comparison

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
    from ..client.calls import import_on_cluster
    from ..protocol import ClusterSpec
    from ..session.launch import temporary_cluster
    from ..switch.context import default_client, switched_to
    from ..switch.moving import host_collections, move_collections
    from .compare_copies import copy_variables  # it imports pandas and Dask

    status = display(Note("Running on the CPU ..."), display_id=True)
    cpu_spec = ClusterSpec.parse({"engine": "cpu"})
    with temporary_cluster(cluster.loop, cpu_spec) as cpu_cluster, ExitStack() as stack:
        import_on_cluster(cpu_cluster.client, _IMPORTS, _IMPORT_TIMEOUT)  # it belongs to the start of the cluster
        stack.enter_context(default_client.computing_on(cpu_cluster.client))
        stack.enter_context(switched_to("numpy", "pandas"))
        where = f"the {describe_cluster(cpu_cluster.ready)} with NumPy and pandas"
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
        where = f"{describe_cluster(cluster.ready, cluster.state())} with {' and '.join(backends)}"
        gpu = await _run(body, file, namespace, cluster.client, where)
    status.update(Note("Ran on the CPU, then on the GPUs."))
    return ComparisonView(cpu, gpu, {} if gpu.error else _compare(cpu.results, gpu.results))


def _compare(cpu: dict[str, Any], gpu: dict[str, Any]) -> dict[str, Comparison]:
    from dask.base import is_dask_collection

    from .compare_values import Comparison, differ

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
    from ..inspection.placement import to_host
    from .compare_values import compare, give_up

    try:
        return compare(to_host(_of_polars(cpu)), to_host(_of_polars(gpu)))
    except Exception as error:  # noqa: BLE001 - of any class: objects of the user, and dtypes that NumPy does not have
        return give_up(f"cannot be compared: {type(error).__name__}: {error}"[:_MOST_CHARACTERS])


def _of_polars(value: Any) -> Any:
    """A dataframe or a series of Polars as one of pandas."""
    is_of_polars = type(value).__module__.startswith("polars.") and hasattr(value, "to_pandas")
    return value.to_pandas() if is_of_polars else value


async def _run(body: str, file: str, namespace: dict[str, Any], client: Client, where: str) -> Run:
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
        from ..client.calls import cancel_unfinished

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
    from distributed import Future
    from distributed.client import futures_of

    for name in sorted({node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}):
        value = namespace.get(name)
        # The class alone: attribute access on a user's object may raise any exception.
        if issubclass(type(value), Future) or (hasattr(type(value), "__dask_graph__") and futures_of(value)):
            raise ComparisonError("compare-of-results", name=name)


class ComparisonView(View):
    """The times of both runs, the speed-up, and whether the results agree, by name."""

    _HEADS = ("result", "agrees", "details")

    def __init__(self, cpu: Run, gpu: Run, comparisons: dict[str, Comparison]) -> None:
        self.seconds = cpu.seconds, gpu.seconds
        self.agreements = comparisons
        self._cpu, self._gpu = cpu, gpu

    @property
    def speedup(self) -> float:
        """The time on the CPU divided by the time on the GPUs."""
        return self._cpu.seconds / self._gpu.seconds

    def __str__(self) -> str:
        return f"{self._headline()}\n{format_table(self._HEADS, self._rows())}" if self._rows() else self._headline()

    def to_html(self) -> str:
        """The times, and a table of the results."""
        lines = "<br>".join(escape(line) for line in self._headline().splitlines())
        return f"<div>{lines}</div>{html_table(self._HEADS, self._rows(), 'left') if self._rows() else ''}"

    def _headline(self) -> str:
        lines = [f"{run.seconds:8.2f} s on {run.where}" for run in (self._cpu, self._gpu)]
        if self._gpu.error is not None:
            lines[1] += f", where it failed: {type(self._gpu.error).__name__}: {self._gpu.error}"
        else:
            factor = self.speedup if self.speedup >= 1 else 1 / self.speedup
            lines.append(f"{factor:8.1f} times {'faster' if self.speedup >= 1 else 'slower'} on the GPUs")
        return "\n".join(lines)

    def _rows(self) -> list[tuple[str, str, str]]:
        words = {True: "yes", False: "NO", None: "–"}
        return [(name, words[result.agrees], result.text) for name, result in self.agreements.items()]
